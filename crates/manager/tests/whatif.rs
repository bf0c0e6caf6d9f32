//! What would happen if: stories on clusters of several nodes, and what a forecast costs.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall say where")]

use std::sync::Arc;

use manager::whatif::{NoForecast, forecast, rebalance};
use model::{
    Availability, Cluster, ClusterId, Description, DriverInfo, DriverKind, Fate, Forecast, Id, Labels, Meta,
    Mode, NamespaceId, Node, NodeId, NodeState, NodeStatus, ProgramSpec, Rebalance, Resources, Revision,
    RevisionId, Role, Service, ServiceId, Slot, TaskId, TaskSpec, TaskState, Time,
};
use store::{Change, ChangeSet, Entry, FEATURE_LEVEL, Refused, Tables};

const GIB: i64 = 1 << 30;

/// Tables that a test fills by hand: what happens in them, happens because the test says so.
struct World {
    tables: Tables,
    ids: u128,
}

impl World {
    fn new(nodes: &[&str]) -> Self {
        let mut world = Self { tables: Tables::new(), ids: 100 };
        world.apply(vec![Change::PutCluster(Cluster::new(ClusterId::from_u128(1), "test"))]);
        for name in nodes {
            world.node(name, 8);
        }
        world
    }

    fn apply(&mut self, changes: Vec<Change>) {
        let index = self.tables.index() + 1;
        let sets = vec![ChangeSet::of(changes)];
        let entry = Entry { feature_level: FEATURE_LEVEL, time: Time(index as i64), sets };
        for result in self.tables.apply(index, &entry).results {
            assert_eq!(result, Ok(()));
        }
    }

    fn id(&mut self) -> Id {
        self.ids += 1;
        Id::from_u128(self.ids)
    }

    fn node(&mut self, name: &str, gib: i64) -> NodeId {
        let id = NodeId(self.id());
        self.apply(vec![Change::CreateNode(node(id, name, gib))]);
        id
    }

    fn named(&self, name: &str) -> NodeId {
        self.tables.nodes().find(|n| &*n.description.hostname == name).unwrap().id
    }

    /// A service whose tasks run on the nodes named, slot by slot.
    fn service(&mut self, name: &str, on: &[&str], spec: TaskSpec) -> ServiceId {
        let id = ServiceId(self.id());
        let revision = RevisionId(self.id());
        let mode = Mode::Replicated { replicas: on.len() as u32 };
        self.apply(create(id, revision, name, mode, spec));
        for (slot, node) in on.iter().enumerate() {
            let (task, node) = (TaskId(self.id()), self.named(node));
            self.runs(task, id, Slot::Number(slot as u32), revision, node);
        }
        id
    }

    fn runs(&mut self, task: TaskId, service: ServiceId, slot: Slot, revision: RevisionId, node: NodeId) {
        let made_for = if let Slot::Node(node) = slot { Some(node) } else { None };
        self.apply(vec![
            Change::CreateTask {
                id: task,
                service,
                slot,
                revision,
                node: made_for,
                desired: model::Desired::Running,
                start_after: None,
            },
            Change::AssignTask { task, node, ports: Box::default(), named: Box::default() },
        ]);
        self.apply(vec![Change::ReportTask {
            task,
            node,
            state: TaskState::Running,
            at: Time(0),
            message: None,
            programs: Box::default(),
        }]);
    }

    fn forecast(&self, changes: &dyn Fn(&Tables) -> Vec<Change>) -> Forecast {
        let before = format!("{:?}", self.tables);
        let forecast = self.try_forecast(changes).unwrap();
        assert_eq!(before, format!("{:?}", self.tables), "a forecast changes nothing");
        assert_eq!(forecast, self.try_forecast(changes).unwrap(), "and is the same each time");
        assert!(forecast.complete);
        forecast
    }

    fn try_forecast(
        &self,
        changes: &dyn Fn(&Tables) -> Vec<Change>,
    ) -> Result<Forecast, NoForecast<&'static str>> {
        forecast(&self.tables, Time(0), &mut || true, &mut |tables, _| {
            Ok(Some(changes(tables)).filter(|c| !c.is_empty()).map(ChangeSet::of))
        })
    }

    fn rebalance(&self) -> Rebalance {
        let rebalance = rebalance(&self.tables, Time(0), 2, &mut || true);
        assert!(rebalance.complete);
        rebalance
    }
}

fn node(id: NodeId, name: &str, gib: i64) -> Node {
    let resources = Resources { nano_cpus: 8_000_000_000, memory: gib * GIB, ..Resources::default() };
    let driver = DriverInfo { name: "mock".into(), healthy: true, notes: Vec::new() };
    Node {
        id,
        meta: Meta::default(),
        role: Role::Worker,
        availability: Availability::Active,
        drain_until: None,
        labels: Labels::new(),
        description: Arc::new(Description {
            hostname: name.into(),
            resources,
            drivers: vec![driver],
            ..Description::default()
        }),
        status: NodeStatus { state: NodeState::Ready, ..NodeStatus::default() },
    }
}

fn spec(gib: i64) -> TaskSpec {
    let mut program = ProgramSpec::new(DriverKind::Mock, vec!["run".into()]);
    program.reserve.memory = gib * GIB;
    TaskSpec { programs: vec![program], ..TaskSpec::default() }
}

fn pinned(gib: i64, constraint: &str) -> TaskSpec {
    let mut spec = spec(gib);
    spec.placement.constraints.push(constraint.parse().unwrap());
    spec
}

fn create(id: ServiceId, revision: RevisionId, name: &str, mode: Mode, spec: TaskSpec) -> Vec<Change> {
    let task = Arc::new(spec);
    vec![
        Change::CreateRevision(Revision {
            id: revision,
            service: id,
            number: 1,
            created_at: Time(0),
            created: 0,
            task,
        }),
        Change::CreateService(Box::new(Service {
            id,
            meta: Meta::default(),
            namespace: NamespaceId::DEFAULT,
            job: None,
            name: name.into(),
            labels: Labels::new(),
            mode,
            update: model::UpdatePolicy::default(),
            rollback: Default::default(),
            update_status: None,
            steering: Default::default(),
            disruption: Default::default(),
            revision,
            previous: None,
            priority: 50,
        })),
    ]
}

fn revise(tables: &Tables, id: ServiceId, spec: TaskSpec) -> Vec<Change> {
    let old = tables.service(id).unwrap();
    let revision = RevisionId::from_u128(7);
    let number = tables.revision(old.revision).unwrap().number + 1;
    vec![
        Change::CreateRevision(Revision {
            id: revision,
            service: id,
            number,
            created_at: Time(0),
            created: 0,
            task: Arc::new(spec),
        }),
        Change::UpdateService(Box::new(Service {
            revision,
            previous: Some(old.revision),
            ..(**old).clone()
        })),
    ]
}

fn scale(tables: &Tables, id: ServiceId, replicas: u32) -> Vec<Change> {
    let old = tables.service(id).unwrap();
    vec![Change::UpdateService(Box::new(Service { mode: Mode::Replicated { replicas }, ..(**old).clone() }))]
}

fn down(id: NodeId) -> Vec<Change> {
    let status = NodeStatus { state: NodeState::Down, ..NodeStatus::default() };
    vec![Change::SetNodeStatus { node: id, status }]
}

fn drain(tables: &Tables, id: NodeId) -> Vec<Change> {
    let node = tables.node(id).unwrap();
    vec![Change::SetNode {
        node: id,
        role: node.role,
        availability: Availability::Drain,
        drain_until: None,
        labels: node.labels.clone(),
    }]
}

/// What happens to each slot, a line each: `web.2 moved a -> b (node a is drained)`.
fn told(forecast: &Forecast) -> Vec<String> {
    let name = |p: &Option<model::Place>| p.as_ref().map_or("-".to_owned(), |p| p.hostname.to_string());
    let line = |t: &model::TaskForecast| {
        let why = if t.reason.is_empty() { String::new() } else { format!(" ({})", t.reason) };
        format!("{} {} {} -> {}{why}", t.name, t.fate, name(&t.from), name(&t.to))
    };
    forecast.tasks.iter().map(line).collect()
}

fn unplaceable(forecast: &Forecast) -> Vec<String> {
    let why = |u: &model::UnplaceableForecast| u.unplaced.as_ref().map_or(String::new(), |w| w.to_string());
    forecast.unplaceable.iter().map(|u| format!("{} {}: {}", u.first, u.count, why(u))).collect()
}

#[test]
fn what_is_asked_already_is_nothing() {
    let mut world = World::new(&["a", "b"]);
    world.service("web", &["a", "b"], spec(1));
    let forecast = world.forecast(&|_| Vec::new());
    assert_eq!(forecast, Forecast::nothing(world.tables.index()));
}

#[test]
fn a_new_service_is_spread_and_what_finds_no_node_says_why() {
    let mut world = World::new(&["a", "b"]);
    world.service("web", &["a"], spec(1));
    let (id, revision) = (ServiceId::from_u128(1), RevisionId::from_u128(2));
    let mode = Mode::Replicated { replicas: 5 };
    let forecast = world.forecast(&|_| create(id, revision, "big", mode, spec(4)));
    assert_eq!(
        told(&forecast),
        [
            "big.1 created - -> b",
            "big.2 created - -> a",
            "big.3 created - -> b",
            "big.4 created - -> -",
            "big.5 created - -> -"
        ]
    );
    assert_eq!(
        unplaceable(&forecast),
        ["big.4 2: no suitable node (insufficient memory on 2 nodes: 4.0 GiB wanted, at most 3.0 GiB free)"
            .replace(".0 GiB", " GiB")]
    );
    let service = &forecast.services[0];
    assert!(service.before.is_none() && service.after.is_some());
    assert_eq!((service.tasks.created, service.tasks.unplaceable, service.tasks.kept), (5, 2, 0));
    let loads: Vec<_> = forecast
        .nodes
        .iter()
        .map(|n| (&*n.hostname, n.before.as_ref().unwrap().tasks, n.after.as_ref().unwrap().tasks))
        .collect();
    assert_eq!(loads, [("a", 1, 2), ("b", 0, 2)]);
    assert!(
        forecast.services[0].id.0 == id.0 && world.tables.service(id).is_none(),
        "the real cluster knows nothing of it"
    );
}

#[test]
fn a_label_replaces_nothing_and_a_spec_replaces_all() {
    let mut world = World::new(&["a", "b"]);
    let web = world.service("web", &["a", "b"], spec(1));
    world.service("other", &["a"], spec(1));
    let forecast = world.forecast(&|t| {
        let mut new = Service::clone(t.service(web).unwrap());
        new.labels.insert("a".into(), "b".into());
        vec![Change::UpdateService(Box::new(new))]
    });
    let [service] = &forecast.services[..] else { panic!("{forecast:?}") };
    assert!(forecast.tasks.is_empty() && forecast.nodes.is_empty());
    assert_eq!((service.tasks.kept, service.tasks.replaced), (2, 0));
    assert_ne!(service.before, service.after);

    let forecast = world.forecast(&|t| revise(t, web, spec(2)));
    let [service] = &forecast.services[..] else { panic!("{forecast:?}") };
    assert_eq!((service.tasks.kept, service.tasks.replaced), (0, 2));
    assert!(told(&forecast).iter().all(|l| l.contains("replaced") && l.ends_with("(revision 1 -> 2)")));
    let after = service.after.as_ref().unwrap();
    assert_eq!(after.service.update, model::UpdatePolicy::default(), "its own pace is shown");
}

#[test]
fn scaling_and_removing() {
    let mut world = World::new(&["a", "b"]);
    let web = world.service("web", &["a", "b", "a"], spec(1));
    let forecast = world.forecast(&|t| scale(t, web, 1));
    assert_eq!(told(&forecast), ["web.2 removed b -> - (replicas 1)", "web.3 removed a -> - (replicas 1)"]);
    assert_eq!(forecast.services[0].tasks.kept, 1);
    let forecast = world.forecast(&|_| vec![Change::DeleteService(web)]);
    assert_eq!(forecast.tasks.len(), 3);
    assert!(told(&forecast)[0].ends_with("(the service is removed)"));
    assert!(forecast.services[0].after.is_none());
}

#[test]
fn a_node_that_goes_down_or_drains_gives_up_its_tasks() {
    let mut world = World::new(&["a", "b", "c"]);
    world.service("web", &["a", "b", "a"], spec(1));
    world.service("pinned", &["a"], pinned(1, "node.hostname==a"));
    let a = world.named("a");
    for (change, word) in [
        (&(|_: &Tables| down(a)) as &dyn Fn(&Tables) -> Vec<Change>, "down"),
        (&|t: &Tables| drain(t, a), "drained"),
    ] {
        let forecast = world.forecast(change);
        assert_eq!(
            told(&forecast),
            [
                format!("pinned.1 lost a -> - (node a is {word})"),
                format!("web.1 moved a -> c (node a is {word})"),
                format!("web.3 moved a -> b (node a is {word})"),
            ],
            "{word}"
        );
        let [why] = &unplaceable(&forecast)[..] else { panic!("{forecast:?}") };
        assert!(why.starts_with("pinned.1 1: no suitable node ("), "{why}");
        let a = forecast.nodes.iter().find(|n| &*n.hostname == "a").unwrap();
        assert_eq!((a.change, a.before.as_ref().unwrap().tasks), (word, 3));
        assert_eq!(a.after.as_ref().unwrap().tasks, 0, "given up for good in the end");
        // The pinned task is lost: the service is listed though nobody changed it.
        assert_eq!(forecast.services.len(), 2);
        assert_eq!(forecast.services[0].before, forecast.services[0].after);
    }
    let forecast = world.forecast(&|_| vec![Change::DeleteNode(a)]);
    assert_eq!(told(&forecast)[1], "web.1 moved a -> c (node a is removed)");
    assert_eq!(forecast.nodes[0].change, "removed");
}

#[test]
fn new_nodes_take_what_waits_and_global_tasks_and_move_nothing() {
    let mut world = World::new(&["a"]);
    world.service("web", &["a", "a"], spec(3));
    let agent = ServiceId(world.id());
    let revision = RevisionId(world.id());
    world.apply(create(agent, revision, "agent", Mode::Global, spec(0)));
    let (task, a) = (TaskId(world.id()), world.named("a"));
    world.runs(task, agent, Slot::Node(a), revision, a);
    // Two tasks that find no room.
    let mode = Mode::Replicated { replicas: 2 };
    let (big, revision) = (ServiceId(world.id()), RevisionId(world.id()));
    world.apply(create(big, revision, "big", mode, spec(8)));
    let forecast = world.forecast(&|_| vec![Change::CreateNode(node(NodeId::from_u128(5), "a+1", 8))]);
    assert_eq!(told(&forecast), ["agent@a+1 created - -> a+1", "big.1 placed - -> a+1"]);
    assert_eq!(forecast.waiting, 1, "the other one waits still");
    assert!(forecast.unplaceable.is_empty());
    assert_eq!((forecast.nodes[0].change, &forecast.nodes[0].before), ("added", &None));
}

#[test]
fn what_is_under_way_anyhow_is_no_part_of_it() {
    let mut world = World::new(&["a", "b"]);
    let web = world.service("web", &["a", "b", "a", "b"], spec(1));
    let rolling = revise(&world.tables, web, spec(2));
    world.apply(rolling);
    // The update of web is not begun; the plan of another service says nothing of it.
    let (id, revision) = (ServiceId::from_u128(1), RevisionId::from_u128(2));
    let mode = Mode::Replicated { replicas: 1 };
    let forecast = world.forecast(&|_| create(id, revision, "one", mode, spec(1)));
    assert_eq!(forecast.tasks.len(), 1);
    assert_eq!(forecast.services.len(), 1);
}

#[test]
fn a_change_that_cannot_be_made_is_an_error() {
    let world = World::new(&["a"]);
    let gone = NodeId::from_u128(1);
    let refused = world.try_forecast(&|_| vec![Change::DeleteNode(gone)]).unwrap_err();
    assert!(matches!(refused, NoForecast::Refused(Refused::Missing(_))));
    let refused = forecast(&world.tables, Time(0), &mut || true, &mut |_, _| Err("no"));
    assert_eq!(refused, Err(NoForecast::Request("no")));
}

#[test]
fn whoever_waits_may_end_it() {
    let world = World::new(&["a", "b"]);
    let (id, revision) = (ServiceId::from_u128(1), RevisionId::from_u128(2));
    let mode = Mode::Replicated { replicas: 10_000 };
    let mut looks = 0;
    let mut keep_on = || {
        looks += 1;
        looks < 4
    };
    let asked = forecast(&world.tables, Time(0), &mut keep_on, &mut |_, _| {
        Ok::<_, &str>(Some(ChangeSet::of(create(id, revision, "web", mode, spec(0)))))
    });
    let forecast = asked.unwrap();
    assert!(!forecast.complete && forecast.writes);
}

fn moves(rebalance: &Rebalance) -> Vec<String> {
    let line = |m: &model::Move| format!("{} {} -> {}: {}", m.name, m.from.hostname, m.to.hostname, m.reason);
    rebalance.moves.iter().map(line).collect()
}

#[test]
fn an_even_cluster_is_left_alone() {
    let mut world = World::new(&["a", "b", "c"]);
    world.service("web", &["a", "b", "c", "a"], spec(1));
    world.service("db", &["b"], spec(1));
    let rebalance = world.rebalance();
    assert_eq!(moves(&rebalance), [""; 0]);
    assert_eq!((rebalance.before, rebalance.after), ((2, 1), (2, 1)));
}

#[test]
fn tasks_of_a_service_are_spread_with_few_moves() {
    let mut world = World::new(&["a", "b", "c"]);
    world.service("web", &["a", "a", "a", "a", "b"], spec(1));
    let rebalance = world.rebalance();
    assert_eq!(
        moves(&rebalance),
        ["web.4 a -> c: 4 tasks of web on a, 0 on c", "web.3 a -> b: 3 tasks of web on a, 1 on b"]
    );
    assert_eq!((rebalance.before, rebalance.after), ((4, 0), (2, 1)));
    let loads: Vec<_> = rebalance.nodes.iter().map(|n| &*n.hostname).collect();
    assert_eq!(loads, ["a", "b", "c"]);
}

#[test]
fn the_load_is_evened_out_without_spoiling_a_spread() {
    let mut world = World::new(&["a", "b"]);
    for name in ["s1", "s2", "s3", "s4"] {
        world.service(name, &["a"], spec(1));
    }
    world.service("web", &["a", "b"], spec(1));
    // Of five tasks on a and one on b, two single ones go; web stays spread.
    assert_eq!(
        moves(&world.rebalance()),
        ["s1.1 a -> b: 5 tasks on a, 1 on b", "s2.1 a -> b: 4 tasks on a, 2 on b"]
    );
}

/// A budget changes how a drain goes, not where it ends; what no node takes stays, and that is said.
#[test]
fn a_drain_within_a_budget_comes_to_the_same() {
    let mut world = World::new(&["a", "b", "c"]);
    let web = world.service("web", &["a", "a", "a", "b"], spec(1));
    let tied = world.service("tied", &["a"], pinned(1, "node.hostname==a"));
    let plain = forecast(&world.tables, Time(0), &mut || true, &mut |t, _| {
        Ok::<_, &str>(Some(ChangeSet::of(drain(t, world.named("a")))))
    });
    assert_eq!(plain.unwrap().services.iter().map(|s| s.tasks.moved).sum::<u64>(), 3);
    for id in [web, tied] {
        let min_healthy = model::Amount::Percent(100);
        let disruption = model::Disruption { min_healthy, max_surge: 0 };
        let service = Service::clone(world.tables.service(id).unwrap());
        world.apply(vec![Change::UpdateService(Box::new(Service { disruption, ..service }))]);
    }
    let within = forecast(&world.tables, Time(0), &mut || true, &mut |t, _| {
        Ok::<_, &str>(Some(ChangeSet::of(drain(t, world.named("a")))))
    });
    let within = within.unwrap();
    assert!(within.complete);
    let moved: Vec<String> = told(&within);
    assert_eq!(moved.len(), 3, "{moved:?}");
    assert!(
        moved.iter().all(|m| m.contains("moved a -> ") && m.ends_with("(node a is drained)")),
        "{moved:?}"
    );
    let stuck = unplaceable(&within);
    assert!(stuck.len() == 1 && stuck[0].starts_with("tied.1 1: no suitable node ("), "{stuck:?}");
    let a = within.nodes.iter().find(|n| &*n.hostname == "a").unwrap();
    assert_eq!(a.after.as_ref().map(|l| l.tasks), Some(1), "it stays where it is");
}

#[test]
fn only_what_another_node_takes_is_moved() {
    let mut world = World::new(&["a", "b"]);
    world.node("small", 1);
    world.service("here", &["a", "a", "a"], pinned(1, "node.hostname==a"));
    world.service("big", &["a", "a"], spec(2));
    assert_eq!(moves(&world.rebalance()), ["big.2 a -> b: 2 tasks of big on a, 0 on b"]);
    // A drained node is neither a source nor a target.
    let set = drain(&world.tables, world.named("b"));
    world.apply(set);
    assert_eq!(moves(&world.rebalance()), [""; 0]);
}

#[test]
fn a_new_node_gets_its_share_of_a_large_cluster() {
    let names: Vec<String> = (0..20).map(|n| format!("n{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(&names);
    let on: Vec<&str> = names.iter().copied().cycle().take(200).collect();
    world.service("web", &on, spec(0));
    world.node("new", 8);
    let rebalance = world.rebalance();
    // 200 tasks on 21 nodes: nine or ten each, and not one move more than that takes.
    assert_eq!(rebalance.moves.len(), 9);
    assert!(rebalance.moves.iter().all(|m| &*m.to.hostname == "new"));
    assert_eq!(rebalance.after, (10, 9));
}

/// Work is counted, not time: a look is made each 1,024 keys and once a round, so that few looks are a few rounds and a few visits to
/// each slot that changes.
#[test]
fn a_forecast_costs_what_changes() {
    const NODES: usize = 300;
    const TASKS: u32 = 30_000;
    let names: Vec<String> = (0..NODES).map(|n| format!("n{n:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(&names);
    let on: Vec<&str> = names.iter().copied().cycle().take(TASKS as usize).collect();
    let web = world.service("web", &on, spec(0));
    let counted = |name: &str, most: u32, changes: &dyn Fn(&Tables) -> Vec<Change>| {
        let mut looks = 0;
        let mut count = || {
            looks += 1;
            true
        };
        let forecast = forecast(&world.tables, Time(0), &mut count, &mut |t, _| {
            Ok::<_, &str>(Some(ChangeSet::of(changes(t))))
        });
        let forecast = forecast.unwrap();
        assert!(forecast.complete && looks <= most, "{name}: {looks} looks");
        forecast
    };
    let label = counted("label", 3, &|t| {
        let mut new = Service::clone(t.service(web).unwrap());
        new.priority = 60;
        vec![Change::UpdateService(Box::new(new))]
    });
    assert_eq!(label.services[0].tasks.kept, u64::from(TASKS));
    let lost = counted("down", 8, &|_| down(world.named("n0000")));
    assert_eq!(lost.services[0].tasks.moved, 100);
    let all = counted("spec", 300, &|t| revise(t, web, spec(0)));
    let tasks = all.services[0].tasks;
    assert_eq!(tasks.kept + tasks.replaced + tasks.lost, u64::from(TASKS));
    let more = counted("scale", 200, &|t| scale(t, web, 2 * TASKS));
    assert_eq!((more.services[0].tasks.created, more.tasks.len()), (u64::from(TASKS), 10_000));
    assert_eq!(more.tasks[0].fate, Fate::Created);
    assert_eq!(world.rebalance().moves, []);
}

/// Programs never end on the copy: what is in progress at first is shown, and what a new iteration ends.
#[test]
fn a_job_shows_what_is_in_progress() {
    let mut world = World::new(&["n1", "n2"]);
    let (id, revision) = (ServiceId(world.id()), RevisionId(world.id()));
    let mode = Mode::Batch { completions: 100_000, concurrency: 2 };
    let make = |_: &Tables| create(id, revision, "sums", mode, spec(1));
    assert_eq!(told(&world.forecast(&make)), ["sums.1 created - -> n1", "sums.2 created - -> n2"]);
    world.apply(make(&world.tables.clone()));
    let (n1, n2) = (world.named("n1"), world.named("n2"));
    for (slot, node, state) in
        [(0, n1, TaskState::Complete), (1, n1, TaskState::Running), (2, n2, TaskState::Running)]
    {
        let task = TaskId(world.id());
        world.runs(task, id, Slot::Number(slot), revision, node);
        if state == TaskState::Complete {
            let programs = Box::default();
            world.apply(vec![Change::ReportTask { task, node, state, at: Time(1), message: None, programs }]);
        }
    }
    let again = world.forecast(&|tables| revise(tables, id, spec(2)));
    assert_eq!(
        told(&again),
        [
            "sums.1 created - -> n1",
            "sums.2 replaced n1 -> n2 (revision 1 -> 2)",
            "sums.3 removed n2 -> - (iteration 2 begins)"
        ]
    );
    let drained = world.forecast(&|tables| drain(tables, n2));
    assert_eq!(told(&drained), ["sums.3 moved n2 -> n1 (node n2 is drained)"]);
    // A batch task is never moved to even something out.
    let other = world.node("n3", 8);
    assert!(world.tables.node(other).is_some() && world.rebalance().moves.is_empty());
}
