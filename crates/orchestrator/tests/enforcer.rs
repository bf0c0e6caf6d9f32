//! Stories of nodes that do not fit what they hold any more: too small, other labels, another platform.

mod world;

use model::{
    Availability, Description, Desired, Mount, Platform, Resources, ServiceId, Sharing, Slot, Task, TaskSpec,
    TaskState, Volume,
};
use world::{SECOND, World, constrained, replicas, spec, with};

/// Ten thousandths of a processor would do as well: only sums matter.
fn cpus(spec: TaskSpec, nano_cpus: i64) -> TaskSpec {
    with(spec, |s| s.programs[0].reserve.nano_cpus = nano_cpus)
}

fn offer(nano_cpus: i64) -> impl Fn(&mut Description) {
    move |d| d.resources.nano_cpus = nano_cpus
}

/// The tasks that were told to go, with the reason they were given.
fn dismissed(w: &World, service: ServiceId) -> Vec<(Slot, String)> {
    let told = |t: &Task| Some((t.slot, t.dismissed.as_ref()?.to_string()));
    w.tables.tasks_of_service(service).filter_map(|t| told(t)).collect()
}

#[test]
fn a_node_that_shrinks_gives_up_the_newest_and_they_run_elsewhere() {
    let mut w = World::new(&["a"]);
    w.describe("a", offer(4));
    let s = w.create(replicas(3), cpus(spec("runs"), 1));
    w.settle();
    w.join("b");
    w.describe("b", offer(1));
    w.settle();
    assert_eq!(w.show(s), "1: running@a; 2: running@a; 3: running@a");
    // It grows and shrinks, and all is well as long as they fit.
    w.describe("a", offer(3));
    w.settle();
    assert_eq!(w.show(s), "1: running@a; 2: running@a; 3: running@a");
    w.describe("a", offer(1));
    w.settle();
    // Told to shut down, with the reason; one finds room, the other waits, and neither comes back to where it was.
    let shown = w.show(s);
    assert_eq!(shown.matches("running@a").count(), 1, "{shown}");
    assert_eq!(shown.matches("running@b").count(), 1, "{shown}");
    assert_eq!(shown.matches("pending").count(), 1, "{shown}");
    let why = "node a is too small: it has 0.000000001 CPU where its tasks reserve 0.000000003 CPU";
    let told = dismissed(&w, s);
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|(_, reason)| reason == why), "{told:?}");
    let states: Vec<TaskState> =
        w.tables.tasks_of_service(s).filter(|t| t.dismissed.is_some()).map(|t| t.status.state).collect();
    assert_eq!(states, [TaskState::Shutdown; 2], "never rejected");
    let rule = format!("node-shrunk: 2 tasks given up: {why}");
    assert!(w.decisions(s).contains(&rule), "{:#?}", w.decisions(s));
    // It grows: what waits is placed, nothing else moves.
    w.describe("a", offer(2));
    w.settle();
    assert_eq!(w.running(s), 3);
}

#[test]
fn the_fewest_go_then_the_lowest_priority_then_what_does_not_run_then_the_newest() {
    // Reservations with priorities, in the order of their making; what the node has left; which go.
    type Row = (&'static [(i64, u8)], i64, &'static [usize]);
    let cases: [Row; 8] = [
        (&[(1, 50), (1, 50), (1, 50)], 2, &[2]),
        (&[(1, 50), (1, 40), (1, 60)], 2, &[1]),
        // One large one instead of two small ones, although its priority is higher.
        (&[(1, 10), (1, 10), (4, 90)], 2, &[2]),
        (&[(4, 90), (4, 10), (1, 1)], 5, &[1]),
        // Two are needed: the most valuable of them shall be worth as little as can be.
        (&[(2, 30), (2, 20), (2, 10)], 2, &[1, 2]),
        (&[(3, 30), (2, 20), (1, 10), (1, 10)], 2, &[0, 1]),
        (&[(3, 30), (2, 20), (2, 10), (1, 10)], 4, &[1, 2]),
        (&[(0, 1), (5, 50)], 4, &[1]),
    ];
    for (row, left, gone) in cases {
        for backwards in [false, true] {
            let mut w = World::new(&["a"]);
            w.describe("a", offer(100));
            let mut services = Vec::new();
            for (reserve, priority) in row {
                let s = w.create(replicas(1), cpus(spec("runs"), *reserve));
                w.change_service(s, |s| s.priority = *priority);
                w.settle();
                services.push(s);
            }
            if backwards {
                // A new leader reads everything in another order.
                w.take_over();
            }
            w.describe("a", offer(left));
            w.settle();
            let told: Vec<usize> =
                (0..row.len()).filter(|at| !dismissed(&w, services[*at]).is_empty()).collect();
            assert_eq!(told, gone, "{row:?} {left}");
        }
    }
    let mut w = World::new(&["a"]);
    w.describe("a", offer(2));
    let old = w.create(replicas(1), cpus(spec("stuck"), 1));
    w.settle();
    let new = w.create(replicas(1), cpus(spec("runs"), 1));
    w.settle();
    w.describe("a", offer(1));
    w.settle();
    assert_eq!((dismissed(&w, old).len(), dismissed(&w, new).len()), (1, 0), "what runs stays");
}

#[test]
fn every_kind_of_resource_counts_and_named_ones_must_be_there() {
    let mut w = World::new(&["a"]);
    let gpus = |n: i64| {
        move |d: &mut Description| {
            d.resources.generic.insert("gpu".into(), n);
        }
    };
    w.describe("a", gpus(2));
    w.describe("a", |d| d.resources.memory = 8 << 30);
    let one = with(spec("runs"), |s| {
        s.programs[0].reserve =
            Resources { memory: 1 << 30, generic: [("gpu".into(), 1)].into(), ..Resources::default() };
    });
    let s = w.create(replicas(2), one);
    w.settle();
    assert_eq!(w.running(s), 2);
    w.describe("a", gpus(1));
    w.settle();
    assert_eq!((w.running(s), dismissed(&w, s).len()), (1, 1));
    assert!(
        dismissed(&w, s)[0].1.ends_with("it has 1 gpu where its tasks reserve 2 gpu"),
        "{:?}",
        dismissed(&w, s)
    );
    w.describe("a", |d| d.resources.memory = 1 << 29);
    w.settle();
    assert_eq!(w.running(s), 0);
    let memory = "it has 512 MiB of memory where its tasks reserve 1 GiB of memory";
    assert_eq!(dismissed(&w, s).iter().filter(|(_, why)| why.ends_with(memory)).count(), 1);
    // A task that has what the node has no more goes, whatever else fits.
    let mut w = World::new(&["a"]);
    let names = |names: &'static [&'static str]| {
        move |d: &mut Description| {
            d.resources.generic.insert("gpu".into(), names.len() as i64);
            d.named.insert("gpu".into(), names.iter().map(|n| (*n).into()).collect());
        }
    };
    w.describe("a", names(&["one", "two"]));
    let s = w.create(
        replicas(1),
        with(spec("runs"), |s| {
            s.programs[0].reserve.generic.insert("gpu".into(), 1);
        }),
    );
    w.settle();
    let held = |w: &World| w.filling(s, Slot::Number(0)).expect("a task").named[0].value.to_string();
    assert_eq!(held(&w), "one");
    w.describe("a", names(&["three", "two"]));
    w.settle();
    assert_eq!((w.running(s), held(&w)), (1, "three".into()));
    // One that came while they were only counted makes room for one that has a name.
    w.describe("a", |d| {
        d.named.clear();
    });
    w.describe("a", gpus(2));
    w.scale(s, 2);
    w.settle();
    assert!(w.filling(s, Slot::Number(1)).expect("a task").named.is_empty());
    w.describe("a", names(&["three", "two"]));
    w.settle();
    assert_eq!(w.running(s), 2);
    for n in 0..2 {
        assert_eq!(w.filling(s, Slot::Number(n)).expect("a task").named.len(), 1);
    }
    assert_eq!(dismissed(&w, s)[0].1, "node a has no gpu one any more");
}

fn offers(sharing: Sharing, read_only: bool) -> impl Fn(&mut Description) {
    move |d| {
        d.volumes.insert("data".into(), Volume { path: "/srv".into(), read_only, sharing });
    }
}

fn uses(spec: TaskSpec, read_only: bool) -> TaskSpec {
    with(spec, |s| s.mounts.push(Mount { volume: "data".into(), read_only }))
}

#[test]
fn a_volume_that_is_shared_less_gives_up_as_few_users_as_it_can() {
    // What the node offers from then on; how many of three writers and two readers stay, and why others go.
    type Row = (Option<(Sharing, bool)>, [u32; 2], &'static str);
    let cases: [Row; 7] = [
        (Some((Sharing::All, false)), [3, 2], ""),
        (Some((Sharing::OneWriter, false)), [1, 2], "volume data of node a is for one writer now and has 3"),
        (Some((Sharing::None, false)), [1, 0], "volume data of node a is for one task now and has 5"),
        (Some((Sharing::ReadOnly, false)), [0, 2], "volume data of node a is shared by readers alone now"),
        (Some((Sharing::All, true)), [0, 2], "volume data of node a is read-only now"),
        (Some((Sharing::None, true)), [0, 1], "volume data of node a is read-only now"),
        (None, [0, 0], "node a has no volume data any more"),
    ];
    for (now, stay, why) in cases {
        for paused in [false, true] {
            let mut w = World::new(&["a"]);
            w.describe("a", offers(Sharing::All, false));
            let writers = w.create(replicas(3), uses(spec("runs"), false));
            w.change_service(writers, |s| s.priority = 60);
            let readers = w.create(replicas(2), uses(spec("runs"), true));
            w.settle();
            if paused {
                w.availability("a", Availability::Pause);
            }
            match now {
                Some((sharing, read_only)) => w.describe("a", offers(sharing, read_only)),
                None => w.describe("a", |d| d.volumes.clear()),
            }
            w.settle();
            let left = [writers, readers].map(|s| w.running(s));
            assert_eq!(left, if paused { [3, 2] } else { stay }, "{now:?} {paused}");
            let told = dismissed(&w, writers);
            assert_eq!(told.len(), if paused { 0 } else { 3 - stay[0] as usize }, "{now:?}: {told:?}");
            assert!(told.iter().all(|(_, reason)| reason == why), "{now:?}: {told:?}");
        }
    }
}

#[test]
fn one_task_may_make_up_for_a_volume_and_for_room() {
    let mut w = World::new(&["a"]);
    w.describe("a", |d| {
        offers(Sharing::All, false)(d);
        d.resources.nano_cpus = 4;
    });
    let both = w.create(replicas(1), uses(cpus(spec("runs"), 2), false));
    let small = w.create(replicas(2), cpus(spec("runs"), 1));
    let user = w.create(replicas(1), uses(spec("runs"), false));
    for s in [small, user] {
        w.change_service(s, |s| s.priority = 10);
    }
    w.settle();
    w.describe("a", |d| {
        offers(Sharing::None, false)(d);
        d.resources.nano_cpus = 2;
    });
    w.settle();
    // One goes, and not three of less value.
    assert_eq!([both, small, user].map(|s| dismissed(&w, s).len()), [1, 0, 0]);
    let why = "node a is too small: it has 0.000000002 CPU where its tasks reserve 0.000000004 CPU; \
               volume data of node a is for one task now and has 2";
    assert_eq!(dismissed(&w, both)[0].1, why);
}

#[test]
fn paused_and_drained_nodes_are_left_to_their_own_rules() {
    let mut w = World::new(&["a", "b"]);
    w.describe("a", offer(4));
    w.describe("b", offer(0));
    let s = w.create(replicas(2), cpus(spec("runs"), 2));
    w.settle();
    w.availability("a", Availability::Pause);
    w.describe("a", offer(1));
    w.settle();
    assert_eq!(w.show(s), "1: running@a; 2: running@a");
    w.describe("b", offer(4));
    w.availability("a", Availability::Active);
    w.settle();
    assert_eq!((w.running(s), dismissed(&w, s).len()), (2, 2), "{}", w.show(s));
    // What is told to end already does not count.
    let mut w = World::new(&["a"]);
    w.describe("a", offer(4));
    let slow = with(cpus(spec("runs"), 2), |s| {
        s.programs[0].env.insert("STOP_MS".into(), "5000".into());
    });
    let s = w.create(replicas(2), slow);
    w.settle();
    w.scale(s, 1);
    w.settle();
    w.describe("a", offer(2));
    w.settle();
    assert_eq!(dismissed(&w, s).len(), 0);
    w.pass(SECOND);
    w.describe("a", offer(1));
    w.settle();
    assert_eq!(dismissed(&w, s).len(), 1);
}

#[test]
fn a_global_task_that_does_not_fit_waits_for_its_node() {
    let mut w = World::new(&["a", "b"]);
    w.describe("a", offer(4));
    w.describe("b", offer(4));
    let s = w.create(model::Mode::Global, cpus(spec("runs"), 2));
    w.settle();
    w.describe("b", offer(1));
    w.settle();
    assert_eq!((w.running(s), dismissed(&w, s).len()), (1, 1), "{}", w.show(s));
    w.describe("b", offer(2));
    w.settle();
    assert_eq!(w.running(s), 2, "{}", w.show(s));
}

#[test]
fn a_node_of_another_platform_loses_what_is_not_made_for_it() {
    let made_for = |os: &str, arch: &str| {
        with(spec("runs"), |s| s.placement.platforms.push(Platform { os: os.into(), arch: arch.into() }))
    };
    let mut w = World::new(&["a"]);
    let platform = |arch: &str| Platform { os: "linux".into(), arch: arch.into() };
    w.describe("a", |d| d.platform = platform("x86_64"));
    let here = w.create(replicas(1), made_for("linux", "amd64"));
    let global = w.create(model::Mode::Global, made_for("linux", ""));
    let picky = w.create(model::Mode::Global, made_for("linux", "amd64"));
    w.settle();
    assert_eq!([here, global, picky].map(|s| w.running(s)), [1, 1, 1]);
    w.describe("a", |d| d.platform = platform("arm64"));
    w.settle();
    let wanted =
        |s: ServiceId| w.tables.tasks_of_service(s).filter(|t| t.desired < Desired::Shutdown).count();
    assert_eq!(w.tables.service_use(global).running(), 1);
    assert_eq!((w.running(picky), wanted(picky)), (0, 0), "{}", w.show(picky));
    let said = w.decisions(here).join("\n");
    assert!(said.contains("node a is linux/arm64, for which it is not made"), "{said}");
}

#[test]
fn a_label_that_changes_and_comes_back_brings_all_five_back() {
    let mut w = World::new(&["a"]);
    w.label("a", "test", "activated");
    let s = w.create(replicas(5), constrained("runs", "node.labels.test==activated"));
    w.settle();
    assert_eq!(w.running(s), 5);
    w.label("a", "test", "off");
    w.settle();
    assert_eq!(w.running(s), 0, "{}", w.show(s));
    assert!(
        dismissed(&w, s).iter().all(|(_, why)| why == "node a does not meet node.labels.test==activated")
    );
    w.label("a", "test", "activated");
    w.settle();
    assert_eq!(w.running(s), 5, "{}", w.show(s));
}
