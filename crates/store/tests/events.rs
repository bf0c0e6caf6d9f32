//! The log of events: exact resume, what is kept of an event, and how little that is.

mod common;

use std::sync::Arc;

use common::*;
use model::{
    Availability, Desired, Labels, Mode, NodeState, NodeStatus, Refusal, TaskState, Unplaced, limits,
};
use store::{Action, Applied, Change, EventId, EventLog, Gone, KeptEvent, Subject};

/// A log that has followed `w` from its beginning on.
fn keep(log: &mut EventLog, w: &World, applied: &Applied) -> Vec<KeptEvent> {
    let before =
        log.after(log.oldest(), usize::MAX).expect("none is gone").last().map_or(log.oldest(), |e| e.id);
    log.push(&applied.events, &w.tables);
    log.after(before, usize::MAX).expect("none is gone")
}

/// What changed, one in a line: `what: from -> to`, with `-` for what is not in words.
fn changes(event: &KeptEvent) -> Vec<String> {
    let text = |t: Option<Arc<str>>| t.map_or("-".to_owned(), |t| t.to_string());
    event.changes().into_iter().map(|f| format!("{}: {} -> {}", f.what, text(f.from), text(f.to))).collect()
}

#[test]
fn what_changed_is_kept_in_words() {
    let mut w = World::furnished();
    let mut log = EventLog::starting_at(w.tables.index());
    let mut told = |w: &mut World, change: Vec<Change>| {
        let applied = w.must(change);
        let kept = keep(&mut log, w, &applied);
        kept.iter().map(|e| (e.action, changes(e))).collect::<Vec<_>>()
    };
    let updated =
        |changes: &[&str]| vec![(Action::Updated, changes.iter().map(|s| (*s).to_owned()).collect())];

    assert_eq!(told(&mut w, vec![create_task(1, 1, 0, 1)]), [(Action::Created, vec![])]);
    let node = format!("node: - -> {}", node_id(1));
    assert_eq!(told(&mut w, vec![assign(1, 1)]), updated(&["state: pending -> assigned", &node]));
    let both = told(&mut w, vec![report(1, 1, TaskState::Running), direct(1, Desired::Shutdown)]);
    assert_eq!(both, updated(&["state: assigned -> running", "desired: running -> shutdown"]));
    // Only the programs of it moved on.
    let again = report(1, 1, TaskState::Failed);
    assert_eq!(told(&mut w, vec![again]), updated(&["state: running -> failed"]));
    assert_eq!(told(&mut w, vec![Change::DeleteTask(task_id(1))]), [(Action::Deleted, vec![])]);

    let mut web = service(1, "web", 1);
    web.mode = Mode::Replicated { replicas: 7 };
    web.labels = Labels::from([("tier".into(), "front".into())]);
    let scaled = told(&mut w, vec![Change::UpdateService(Box::new(web.clone()))]);
    assert_eq!(scaled, updated(&["replicas: 3 -> 7", "labels.tier: - -> front"]));
    web.previous = Some(web.revision);
    web.revision = revision_id(2);
    web.mode = Mode::Global;
    let make = Change::CreateRevision(revision(2, 1, reserve(1, 1)));
    let rolled = told(&mut w, vec![make, Change::UpdateService(Box::new(web))]);
    assert_eq!(
        rolled,
        updated(&["mode: replicated -> global", "revision: 1 -> 2", "update-state: - -> updating"])
    );

    let set = |labels: Labels| Change::SetNode {
        node: node_id(1),
        role: model::Role::Worker,
        availability: Availability::Drain,
        drain_until: None,
        labels,
    };
    let zone = Labels::from([("zone".into(), "x".repeat(1000).into())]);
    let drained = told(&mut w, vec![set(zone)]);
    let cut = format!("labels.zone: - -> {}...", "x".repeat(125));
    assert_eq!(drained, updated(&["availability: active -> drain", &cut]));
    let many: Labels = (0..100).map(|n| (format!("key-{n:03}").into(), "y".into())).collect();
    let facts = &told(&mut w, vec![set(many)])[0].1;
    assert_eq!(facts.len(), 16, "the first ones");
    let down = NodeStatus { state: NodeState::Down, ..NodeStatus::default() };
    let down = told(&mut w, vec![Change::SetNodeStatus { node: node_id(1), status: down }]);
    assert_eq!(down, updated(&["state: ready -> down"]));

    assert_eq!(told(&mut w, vec![Change::PutJob(job(1, "stack"))]), [(Action::Created, vec![])]);
    let mut newer = job(1, "stack");
    newer.number = 2;
    newer.source = "services: {web: {}}".into();
    let newer = told(&mut w, vec![Change::PutJob(newer)]);
    assert_eq!(newer, updated(&["number: 1 -> 2", "source: - -> -"]));
    let mut other = cluster("one");
    other.history = 9;
    assert_eq!(
        told(&mut w, vec![Change::PutCluster(other)]),
        updated(&["name: test -> one", "history: 5 -> 9"])
    );
    assert_eq!(told(&mut w, vec![Change::PutNamespace(namespace(1, "a"))]), [(Action::Created, vec![])]);
    assert_eq!(told(&mut w, vec![Change::PutNamespace(namespace(1, "b"))]), updated(&["name: a -> b"]));
}

#[test]
fn a_task_says_why_it_waits_or_how_it_ended() {
    let mut w = World::furnished();
    let mut log = EventLog::starting_at(w.tables.index());
    let applied = w.must(vec![create_task(1, 1, 0, 1), create_task(2, 1, 1, 1)]);
    keep(&mut log, &w, &applied);
    let refusal = Refusal { filter: model::FilterKind::Ready, nodes: 2, text: "2 nodes are down".into() };
    let unplaced = Some(Arc::new(Unplaced { refusals: vec![refusal] }));
    let applied = w.must(vec![Change::ExplainTasks { tasks: vec![task_id(1), task_id(2)], unplaced }]);
    let waiting = keep(&mut log, &w, &applied);
    let applied = w.must(vec![assign(1, 1)]);
    let placed = keep(&mut log, &w, &applied);
    let applied = w.must(vec![report(1, 1, TaskState::Failed)]);
    let failed = keep(&mut log, &w, &applied);
    let messages = |events: &[KeptEvent]| -> Vec<Option<Arc<str>>> {
        let message = |e: &KeptEvent| match &e.subject {
            Subject::Task(task) => task.message.clone(),
            other => panic!("no task: {other:?}"),
        };
        events.iter().map(message).collect()
    };
    let waits = messages(&waiting);
    assert_eq!(waits[0].as_deref(), Some("no suitable node (2 nodes are down)"));
    let same =
        |a: &Option<Arc<str>>, b: &Option<Arc<str>>| Arc::ptr_eq(a.as_ref().unwrap(), b.as_ref().unwrap());
    assert!(same(&waits[0], &waits[1]), "one text for both");
    assert_eq!(messages(&placed), [None]);
    assert_eq!(messages(&failed)[0].as_deref(), Some("said the agent"));
}

/// More events than are kept: the newest can be resumed from, the others are known to be gone.
#[test]
fn the_newest_events_are_kept_and_the_others_known_to_be_gone() {
    let mut w = World::furnished();
    let mut log = EventLog::starting_at(w.tables.index());
    let start = log.oldest();
    w.must(vec![create_task(1, 1, 0, 1), assign(1, 1)]);
    let mut ids = Vec::new();
    let surplus = 10;
    while ids.len() < limits::EVENTS_KEPT + surplus {
        let state = if ids.len() % 2 == 0 { NodeState::Down } else { NodeState::Ready };
        let status = NodeStatus { state, ..NodeStatus::default() };
        let applied = w.must(vec![Change::SetNodeStatus { node: node_id(1), status }]);
        ids.extend(applied.events.iter().map(|e| e.id));
        log.push(&applied.events, &w.tables);
    }
    let oldest = ids[surplus - 1];
    assert_eq!(log.oldest(), oldest);
    for id in [start, EventId::default(), ids[surplus - 2]] {
        assert_eq!(log.after(id, 1), Err(Gone { oldest }));
    }
    let all = log.after(oldest, usize::MAX).unwrap();
    assert!(all.iter().map(|e| e.id).eq(ids[surplus..].iter().copied()));
    let last: Vec<EventId> = log.after(ids[ids.len() - 3], 9).unwrap().iter().map(|e| e.id).collect();
    assert_eq!(last, ids[ids.len() - 2..]);
}

/// The ring is full for as long as a cluster lives: what it holds is in the memory of every daemon.
#[test]
fn a_full_ring_takes_little_memory() {
    let ring = limits::EVENTS_KEPT * size_of::<KeptEvent>();
    assert!(ring <= 12_000_000, "{} bytes an event, {ring} in all", size_of::<KeptEvent>());
}
