//! Questions that change nothing, and rebalancing within the pace of each service.

mod common;

use common::{cluster, command, create, run, spec};
use control::stacks::{self, Deployment};
use control::testing::MemoryCluster;
use control::whatif::{Machines, Question, ask, rebalance};
use control::{Cluster, RequestError};
use model::{
    Availability, Forecast, Labels, Move, NodeId, Place, Rebalance, Role, Rule, ServiceId, Slot, TaskId,
    TaskState,
};
use store::{Change, ChangeSet};

fn changes(cluster: &MemoryCluster, question: Question) -> Result<bool, RequestError> {
    let before = (cluster.snapshot().index(), cluster.proposed());
    let answer = run(ask(cluster, question)).map(|a| a.forecast.writes);
    assert_eq!((cluster.snapshot().index(), cluster.proposed()), before, "nothing is written");
    answer
}

fn world() -> (MemoryCluster, ServiceId) {
    let cluster = cluster();
    cluster.add_node("a");
    cluster.add_node("b");
    let web = create(&cluster, spec("web", 2));
    cluster.set_forecast(Forecast { writes: true, ..Forecast::default() });
    (cluster, web)
}

#[test]
fn a_question_is_answered_as_the_request_would_be() {
    let (cluster, _) = world();
    let web = || "web".to_owned();
    let version = |n: u64| Some(n);
    for (question, answer) in [
        (Question::Create(Box::new(spec("new", 1))), Ok(true)),
        (Question::Create(Box::new(spec("web", 1))), Err("there is a service web already")),
        (Question::Create(Box::new(spec("", 1))), Err("name")),
        (Question::Update { reference: web(), version: None, spec: Box::new(spec("web", 2)) }, Ok(false)),
        (
            Question::Update {
                reference: web(),
                version: None,
                spec: Box::new(command(spec("web", 2), &["other"])),
            },
            Ok(true),
        ),
        (
            Question::Update { reference: web(), version: version(1), spec: Box::new(spec("web", 3)) },
            Err("was changed meanwhile"),
        ),
        (Question::Scale { reference: web(), version: None, replicas: 2 }, Ok(false)),
        (Question::Scale { reference: web(), version: None, replicas: 3 }, Ok(true)),
        (Question::Scale { reference: web(), version: None, replicas: 200_000 }, Ok(true)),
        (
            Question::Scale { reference: web(), version: None, replicas: 200_001 },
            Err("replicas: 200001 is more"),
        ),
        (
            Question::Scale { reference: "nope".into(), version: None, replicas: 3 },
            Err("there is no service"),
        ),
        (Question::Remove { reference: web(), version: None }, Ok(true)),
        (Question::RemoveStack("nope".into()), Err("there is no stack")),
        (Question::Machines(Machines::default()), Ok(false)),
        (Question::Machines(Machines { down: vec!["a".into()], ..Machines::default() }), Ok(true)),
        (
            Question::Machines(Machines { drain: vec!["c".into()], ..Machines::default() }),
            Err("there is no node"),
        ),
        (Question::Machines(Machines { add: Some((3, "a".into())), ..Machines::default() }), Ok(true)),
        (
            Question::Machines(Machines { add: Some((1001, "a".into())), ..Machines::default() }),
            Err("at most 1000"),
        ),
    ] {
        let name = format!("{question:?}");
        match (changes(&cluster, question), answer) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{name}"),
            (Err(refusal), Err(part)) => assert!(refusal.to_string().contains(part), "{name}: {refusal}"),
            (found, expected) => panic!("{name}: {found:?} instead of {expected:?}"),
        }
    }
}

#[test]
fn a_stack_as_it_is_has_nothing_to_do_and_what_would_stay_is_named() {
    let (cluster, _) = world();
    let deployment = |services: &[&str], prune: bool| Deployment {
        name: "shop".into(),
        source: services.join(" ").into(),
        services: services.iter().map(|name| spec(name, 1)).collect(),
        prune,
    };
    assert_eq!(changes(&cluster, Question::Deploy(deployment(&["a", "b"], false))), Ok(true));
    run(stacks::deploy(&cluster, deployment(&["a", "b"], false))).expect("deployed");
    assert_eq!(changes(&cluster, Question::Deploy(deployment(&["a", "b"], false))), Ok(false));
    for (prune, kept) in [(false, &["shop_b"][..]), (true, &[])] {
        let answer = run(ask(&cluster, Question::Deploy(deployment(&["a"], prune)))).expect("answered");
        let names: Vec<&str> = answer.kept.iter().map(|n| &**n).collect();
        assert_eq!((names.as_slice(), answer.forecast.writes), (kept, true));
    }
}

/// Three tasks of web run on a, and all shall move to b.
fn uneven(parallelism: u32) -> (MemoryCluster, ServiceId, Vec<TaskId>) {
    let cluster = cluster();
    let (a, b) = (cluster.add_node("a"), cluster.add_node("b"));
    let mut spec = spec("web", 3);
    spec.update.parallelism = parallelism;
    let web = create(&cluster, spec);
    let tasks: Vec<TaskId> = (0..3).map(|n| cluster.add_task(web, Slot::Number(n))).collect();
    for task in &tasks {
        cluster.assign(*task, a);
        cluster.report(*task, TaskState::Running, None);
    }
    let place = |node: NodeId, name: &str| Place { node, hostname: name.into() };
    let moves = tasks.iter().enumerate().map(|(n, task)| Move {
        service: web,
        name: format!("web.{}", n + 1).into(),
        slot: Slot::Number(n as u32),
        task: *task,
        from: place(a, "a"),
        to: place(b, "b"),
        reason: "3 tasks of web on a, 0 on b".into(),
    });
    cluster.set_rebalance(Rebalance { complete: true, moves: moves.collect(), ..Rebalance::default() });
    (cluster, web, tasks)
}

fn leaving(cluster: &MemoryCluster, tasks: &[TaskId]) -> usize {
    let tables = cluster.snapshot();
    tasks.iter().filter(|id| tables.task(**id).is_some_and(|t| t.leave.is_some())).count()
}

/// All moves of a plan are begun; how many at a time are made is then the affair of the service's budget.
#[test]
fn moves_are_begun_and_told() {
    let (cluster, web, tasks) = uneven(1);
    let done = run(rebalance(&cluster, 2)).expect("made");
    assert_eq!((done.made.len(), leaving(&cluster, &tasks)), (3, 3));
    let tables = cluster.snapshot();
    let told: Vec<_> = tables.decisions(web).filter(|d| d.rule == Rule::Rebalance).collect();
    assert_eq!(told.len(), 3);
    assert_eq!(&*told[0].text, "web.1 leaves a for b: 3 tasks of web on a, 0 on b");
    assert_eq!(done.index, tables.index());
    let status = control::service_status(&tables, tables.service(web).expect("there"));
    assert!(!status.converged, "whoever waits for it waits for the moves");
    assert!(run(rebalance(&cluster, 2)).expect("planned").made.is_empty(), "one round at a time");
}

#[test]
fn a_move_is_planned_again_when_the_world_has_moved() {
    let (cluster, _, tasks) = uneven(1);
    let tables = cluster.snapshot();
    let b = tables.nodes().find(|n| &*n.description.hostname == "b").expect("there").id;
    let drained = Change::SetNode {
        node: b,
        role: Role::Worker,
        availability: Availability::Drain,
        drain_until: None,
        labels: Labels::new(),
    };
    cluster.meddle_next(ChangeSet::of(vec![drained]));
    let proposed = cluster.proposed();
    let done = run(rebalance(&cluster, 2)).expect("made");
    assert_eq!((done.made.len(), cluster.proposed() - proposed, leaving(&cluster, &tasks)), (3, 2, 3));
}
