//! Promises that hold whatever happens: random scripts of operators, machines and programs, with plans in
//! flight beside what others have in flight, and with a world that moves between a plan and its turn. At
//! each quiet moment the world itself checks that no slot is filled twice and that a sweep over all keys
//! finds nothing.

mod world;

use model::{
    Availability, Condition, FailureAction, Mode, NodeState, Ratio, ServiceId, Span, TaskSpec, TaskState,
    UpdateOrder, UpdatePolicy, UpdateState,
};
use store::{Change, ChangeSet};
use world::{World, constrained, replicas, spec, with};

/// Numbers that look random and are the same every time (xorshift64*).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len() as u64) as usize]
    }
}

const NODES: [&str; 4] = ["a", "b", "c", "d"];

fn any_spec(dice: &mut Dice) -> TaskSpec {
    let command =
        dice.pick(&["runs", "runs", "runs", "exits 0 700", "exits 1 0", "exits 2 9000", "rejects", "stuck"]);
    let mut task = match dice.roll(4) {
        0 => constrained(command, "node.labels.zone==east"),
        _ => spec(command),
    };
    task.replace.condition = dice.pick(&[Condition::Any, Condition::OnFailure, Condition::None]);
    // Without a delay or a limit some of these would be busy for ever, at one moment.
    task.replace.delay = Span::from_millis(dice.pick(&[500, 5_000, 70_000]));
    task.replace.max_attempts = dice.pick(&[0, 1, 3]);
    task.replace.window = Span::from_secs(dice.pick(&[0, 1, 60]));
    task.programs[0].reserve.nano_cpus = dice.pick(&[0, 0, 1, 3]);
    let stop = dice.pick(&["0", "0", "2500", "90000"]);
    task.programs[0].env.insert("STOP_MS".into(), stop.into());
    task
}

fn pace(dice: &mut Dice) -> UpdatePolicy {
    let canary = dice.pick(&[0, 0, 1, 2]);
    UpdatePolicy {
        canary,
        auto_promote: canary > 0 && dice.roll(2) == 0,
        promote_within: Span::from_secs(dice.pick(&[20, 600])),
        parallelism: dice.pick(&[0, 1, 2]),
        delay: Span::from_secs(dice.pick(&[0, 3])),
        monitor: Span::from_secs(dice.pick(&[0, 5, 5, 90])),
        max_failure_ratio: Ratio::from_millionths(dice.pick(&[0, 0, 300_000, 1_000_000])).expect("a ratio"),
        order: dice.pick(UpdateOrder::ALL),
        failure_action: dice.pick(FailureAction::ALL),
    }
}

/// One thing that somebody does; what it changes takes effect at once.
fn happen(w: &mut World, dice: &mut Dice, services: &mut [ServiceId]) {
    let node = dice.pick(&NODES);
    let service = dice.roll(services.len() as u64) as usize;
    let id = services[service];
    match dice.roll(18) {
        0..=2 => {
            if matches!(w.tables.service(id).expect("it is there").mode, Mode::Replicated { .. }) {
                let n = dice.roll(7) as u32;
                w.scale(id, n);
            }
        }
        3 | 4 => {
            let task = any_spec(dice);
            w.update(id, task);
        }
        5 => w.roll_back_if_there(id),
        13 if w.tables.service(id).expect("it is there").tries_canaries() => w.promote(id),
        6 => {
            w.delete(id);
            let mode = if dice.roll(3) == 0 { Mode::Global } else { replicas(dice.roll(5) as u32) };
            let (task, pace) = (any_spec(dice), pace(dice));
            services[service] = w.create_with(mode, task, pace);
        }
        7 => {
            w.availability(node, dice.pick(&[Availability::Active, Availability::Pause, Availability::Drain]))
        }
        8 | 9 => {
            let state =
                dice.pick(&[NodeState::Ready, NodeState::Ready, NodeState::Down, NodeState::Disconnected]);
            w.state(node, state);
        }
        10 if dice.roll(2) == 0 => w.describe(node, |d| d.resources.nano_cpus = dice.pick(&[1, 4, 9])),
        10 => w.label(node, "zone", dice.pick(&["east", "west"])),
        11 => {
            w.remove_node(node);
            w.join(node);
        }
        12 => {
            let (update, rollback) = (pace(dice), pace(dice));
            let rollback = UpdatePolicy { canary: 0, ..rollback };
            w.policies(id, update, rollback);
        }
        13 => {
            let min = dice.pick(&["0", "0", "1", "3", "50%", "100%"]);
            w.budget(id, min, dice.roll(3) as u32);
        }
        14 | 15 => {
            let until = w.now + Span::from_secs(dice.pick(&[1, 60, 300]));
            let until = dice.pick(&[None, Some(until)]);
            w.set_node(node, |n| (n.availability, n.drain_until) = (Availability::Drain, until));
        }
        16 => {
            let slot = model::Slot::Number(dice.roll(5) as u32);
            let to = w.node_named(node).id;
            if let Some(task) = w.filling(id, slot)
                && task.holds_reservation()
                && task.node != Some(to)
            {
                let why = model::LeaveReason::Rebalance;
                let leave = Some(model::Leave { why, to: Some(to), since: w.now });
                w.apply(vec![Change::LeaveTask { task: task.id, leave }]);
            }
        }
        _ => w.change_cluster(|c| {
            c.history = dice.roll(6) as u32;
            c.history_failed = dice.pick(&[0, 0, 1, 3]);
            c.history_age = Span::from_secs(dice.pick(&[0, 0, 20, 300]));
            c.orphan_after = Span::from_secs(dice.pick(&[30, 86_400]));
        }),
    }
}

/// Something that is in flight, or intrudes: an agent's report, a placement, or a node that goes away.
fn others(w: &World, dice: &mut Dice) -> Option<ChangeSet> {
    let change = match dice.roll(3) {
        0 => w.placement()?,
        1 => {
            let held: Vec<_> = w.tables.tasks().filter(|t| t.holds_reservation()).collect();
            let task = *held.get(dice.roll(held.len().max(1) as u64) as usize)?;
            Change::ReportTask {
                task: task.id,
                node: task.node?,
                state: dice.pick(&[
                    TaskState::Ready,
                    TaskState::Running,
                    TaskState::Failed,
                    TaskState::Complete,
                ]),
                at: w.now,
                message: None,
                programs: Box::default(),
            }
        }
        _ => {
            let node = w.node_named(dice.pick(&NODES));
            let mut status = node.status.clone();
            status.state = dice.pick(&[NodeState::Ready, NodeState::Down]);
            Change::SetNodeStatus { node: node.id, status }
        }
    };
    Some(ChangeSet::of(vec![change]))
}

fn script(seed: u64, pipeline: usize) -> World {
    let mut dice = Dice(seed * 7919 + 1);
    let mut w = World::new(&NODES);
    w.pipeline = pipeline;
    // The order may be changed while two tasks are in a slot.
    w.allow_doubles = true;
    let mut services = Vec::new();
    for mode in [replicas(3), replicas(5), Mode::Global, Mode::Global] {
        let pace = pace(&mut dice);
        let task = any_spec(&mut dice);
        services.push(w.create_with(mode, task, pace));
    }
    for _ in 0..40 {
        happen(&mut w, &mut dice, &mut services);
        for _ in 0..dice.roll(4) {
            let fine = dice.roll(3) > 0;
            w.flying.extend(others(&w, &mut dice).map(|set| (set, fine)));
            w.intruding.extend(others(&w, &mut dice));
        }
        match dice.roll(3) {
            0 => {}
            1 => w.settle(),
            _ => w.pass(Span::from_millis(dice.pick(&[10, 1_000, 30_000]))),
        }
    }
    end_well(&mut w, &services);
    w
}

/// When every machine is there and every program runs, every service has what it wants, and nothing else is
/// left.
fn end_well(w: &mut World, services: &[ServiceId]) {
    w.flying.clear();
    w.intruding.clear();
    w.change_cluster(|c| (c.history, c.history_failed, c.history_age) = (2, 0, Span::ZERO));
    for name in NODES {
        w.describe(name, |d| d.resources.nano_cpus = 1_000);
        w.availability(name, Availability::Active);
        w.state(name, NodeState::Ready);
    }
    for id in services {
        // What is under way comes to its end by itself, in bounded time: none waits longer than for the start
        // of a task, for each slot.
        let state = |w: &World| w.state_of(*id).is_some_and(UpdateState::is_active);
        for _ in 0..40 {
            if state(w) {
                w.pass(Span::from_secs(300));
            }
        }
        assert!(!state(w), "an update never ends: {} {}", w.show(*id), w.update_state(*id));
    }
    for id in services {
        let service = w.tables.service(*id).expect("it is there");
        let (update, rollback) = (UpdatePolicy { auto_promote: true, ..service.update }, service.rollback);
        w.policies(*id, update, rollback);
        w.update(*id, spec("runs"));
    }
    w.pass(Span::from_secs(1800));
    for id in services {
        let service = w.tables.service(*id).expect("it is there");
        let wanted = match service.mode {
            Mode::Replicated { replicas } => replicas,
            _ => NODES.len() as u32,
        };
        assert_eq!(w.running(*id), wanted, "{}", w.show(*id));
        let used = w.tables.service_use(*id);
        assert_eq!(used.by_revision(service.revision), wanted);
        assert!(used.total() <= wanted * 3, "{}", w.show(*id));
        assert_eq!(w.state_of(*id), Some(UpdateState::Completed), "{}", w.update_state(*id));
    }
    let all: u32 = services.iter().map(|id| w.tables.service_use(*id).total()).sum();
    assert_eq!(w.tables.tasks().count(), all as usize, "removed services leave nothing");
}

#[test]
fn whatever_happens_it_ends_well() {
    let mut refused = 0;
    for seed in 0..300 {
        refused += script(seed, [1, 3, 50][seed as usize % 3]).refused;
    }
    assert!(refused > 20, "the scripts move the world under the plans: {refused}");
}

/// The same for longer: `cargo test --profile ci -p orchestrator --test promises -- --ignored`.
#[test]
#[ignore = "takes a minute; for whoever changes a reconciler"]
fn whatever_happens_for_long_it_ends_well() {
    for seed in 10_000..15_000 {
        script(seed, [1, 2, 5, 100][seed as usize % 4]);
    }
}

#[test]
fn the_same_script_makes_the_same_decisions_to_the_byte() {
    for seed in 1000..1010 {
        let [one, other] = [(), ()].map(|()| script(seed, 8));
        assert!(one.planned.len() > 30);
        let encoded = |w: &World| {
            let sets = w.planned.clone();
            let entry = store::Entry { feature_level: store::FEATURE_LEVEL, time: w.now, sets };
            format!("{entry:?}")
        };
        assert_eq!(encoded(&one), encoded(&other), "seed {seed}");
    }
}

#[test]
fn how_many_plans_are_in_flight_changes_nothing_in_the_end() {
    let end = |pipeline: usize| {
        let mut w = World::new(&NODES);
        w.pipeline = pipeline;
        let s = w.create_with(
            replicas(9),
            spec("runs"),
            UpdatePolicy { parallelism: 2, ..UpdatePolicy::default() },
        );
        let g = w.create(Mode::Global, with(spec("exits 1 800"), |t| t.replace.max_attempts = 2));
        w.settle();
        w.availability("b", Availability::Drain);
        w.update(s, spec("runs"));
        w.settle();
        w.scale(s, 6);
        w.pass(Span::from_secs(20));
        (w.show(s), w.show(g), w.decisions(s).len())
    };
    let one = end(1);
    for pipeline in [2, 7, 1000] {
        assert_eq!(end(pipeline), one, "{pipeline}");
    }
}

/// One service of five tasks that run, updated again and again (also in the middle of an update) to what
/// runs as well, under one policy.
fn good_updates(seed: u64, parallelism: u32, order: UpdateOrder, watch: fn(&World)) {
    let mut dice = Dice(seed * 104_729 + 7);
    let mut w = World::new(&NODES);
    w.pipeline = dice.pick(&[1, 3, 50]);
    let delay = Span::from_secs(dice.pick(&[0, 2]));
    let monitor = Span::from_secs(dice.pick(&[0, 5]));
    let policy = UpdatePolicy { parallelism, order, delay, monitor, ..UpdatePolicy::default() };
    let task = |dice: &mut Dice| {
        with(spec("runs"), |t| {
            let stop = dice.pick(&["0", "700", "2500"]);
            drop(t.programs[0].env.insert("STOP_MS".into(), stop.into()));
        })
    };
    let first = task(&mut dice);
    let s = w.create_with(replicas(5), first, policy);
    w.policies(s, policy, policy);
    w.settle();
    w.watch = Some(watch);
    for _ in 0..20 {
        match dice.roll(4) {
            0 => w.roll_back_if_there(s),
            _ => {
                let next = task(&mut dice);
                w.update(s, next);
            }
        }
        w.pass(Span::from_millis(dice.pick(&[100, 1_000, 4_000, 20_000])));
        if dice.roll(5) == 0 {
            w.take_over();
        }
    }
    w.pass(Span::from_secs(300));
    assert_eq!(w.running(s), 5, "{}", w.show(s));
    let state = w.state_of(s).expect("an update");
    assert!(matches!(state, UpdateState::Completed | UpdateState::RollbackCompleted), "{state}");
}

/// Every slot of the one service: how many of its tasks run and are wanted, and how many fill it.
fn slots(w: &World) -> (usize, usize, usize) {
    let service = w.tables.services().next().expect("one service");
    let tasks = || w.tables.tasks_of_service(service.id).filter(|t| t.fills_slot());
    let running: std::collections::BTreeSet<_> =
        tasks().filter(|t| t.status.state == TaskState::Running).map(|t| t.slot).collect();
    (running.len(), tasks().count(), service.update.parallelism as usize)
}

#[test]
fn stop_first_takes_down_no_more_than_parallelism() {
    for seed in 0..60 {
        good_updates(seed, [1, 2, 3][seed as usize % 3], UpdateOrder::StopFirst, |w| {
            let (running, filling, parallelism) = slots(w);
            assert!(running + parallelism >= 5, "only {running} run");
            assert!(filling <= 5, "{filling} tasks");
        });
    }
}

#[test]
fn start_first_takes_down_nothing_and_adds_no_more_than_parallelism() {
    for seed in 0..60 {
        good_updates(seed, [1, 2, 3][seed as usize % 3], UpdateOrder::StartFirst, |w| {
            let (running, filling, parallelism) = slots(w);
            assert_eq!(running, 5, "every slot has one that runs");
            assert!(filling <= 5 + parallelism, "{filling} tasks");
        });
    }
}

#[test]
fn another_manager_at_any_moment_changes_nothing_in_the_end() {
    for seed in 0..30 {
        let end = |take_over: bool| {
            let mut dice = Dice(seed * 31 + 5);
            let mut w = World::new(&NODES);
            let s = w.create_with(replicas(4), spec("runs"), pace(&mut dice));
            w.settle();
            for _ in 0..6 {
                let task = any_spec(&mut dice);
                w.update(s, task);
                for _ in 0..10 {
                    w.pass(Span::from_millis(dice.pick(&[100, 3_000, 61_000])));
                    if take_over {
                        w.take_over();
                    }
                }
            }
            (w.show(s), w.update_state(s))
        };
        assert_eq!(end(true), end(false), "seed {seed}");
    }
}
