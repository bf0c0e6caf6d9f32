//! Explanations, and what references to tasks and nodes mean.

mod common;

use std::sync::Arc;

use common::{START, cluster, create, global, run, spec};
use control::nodes::{self, NodeChange};
use control::why::{self, Subject};
use control::{Cluster, Kind, RequestError, services, tasks};
use model::{
    Availability, Desired, FilterKind, Labels, NodeId, Refusal, Rule, Slot, Span, TaskId, TaskState,
    Unplaced, Verdict,
};
use store::{Change, ChangeSet};

const NOBODY: NodeId = NodeId::from_u128(0);

fn facts(cluster: &control::testing::MemoryCluster, reference: &str) -> Vec<String> {
    let tables = cluster.snapshot();
    let subject = why::resolve(&tables, reference, Kind::Anything, NOBODY).expect("one thing");
    why::explain(cluster, &tables, &subject).facts
}

#[test]
fn a_service_that_waits_says_why() {
    let cluster = cluster();
    let here = cluster.add_node("here");
    let id = create(&cluster, spec("web", 3));
    let waiting: Vec<TaskId> = (0..3).map(|n| cluster.add_task(id, Slot::Number(n))).collect();
    assert_eq!(
        facts(&cluster, "web"),
        [
            "service web wants 3 tasks and runs 0",
            "3 tasks wait for a node: the scheduler has not looked at it yet"
        ]
    );
    let text = "constraint node.labels.zone==east holds on none";
    let unplaced = Arc::new(Unplaced {
        refusals: vec![Refusal { filter: FilterKind::Constraint, nodes: 1, text: text.into() }],
    });
    cluster.apply(ChangeSet::of(vec![Change::ExplainTasks {
        tasks: waiting[1..].to_vec(),
        unplaced: Some(unplaced),
    }]));
    let verdict = Verdict {
        node: here,
        hostname: "here".into(),
        refusal: Some((FilterKind::Constraint, "no label zone".into())),
    };
    cluster.set_verdicts(vec![verdict.clone()]);
    let tables = cluster.snapshot();
    let subject = why::resolve(&tables, "web", Kind::Anything, NOBODY).unwrap();
    let why = why::explain(&cluster, &tables, &subject);
    let counts: Vec<_> = why.waiting.iter().map(|w| (w.count, w.first, w.unplaced.is_some())).collect();
    assert_eq!(counts, [(2, waiting[1], true), (1, waiting[0], false)]);
    assert_eq!(why.verdicts, [verdict]);
    assert_eq!(why.facts[1], format!("2 tasks wait for a node: no suitable node ({text})"));
    assert_eq!(facts(&cluster, "web.2"), [format!("task web.2 waits for a node: no suitable node ({text})")]);
}

#[test]
fn a_task_that_failed_says_how_and_what_came_after() {
    let cluster = cluster();
    let here = cluster.add_node("here");
    let id = create(&cluster, spec("web", 1));
    let first = cluster.add_task(id, Slot::Number(0));
    cluster.assign(first, here);
    cluster.report(first, TaskState::Running, None);
    cluster.set_now(START + Span::from_secs(5));
    assert_eq!(facts(&cluster, "web.1"), ["task web.1 is running on here for 5s"]);
    cluster.report(first, TaskState::Failed, Some("exit status 3"));
    let second = TaskId(cluster.new_id());
    cluster.apply(ChangeSet::of(vec![Change::CreateTask {
        id: second,
        service: id,
        slot: Slot::Number(0),
        revision: common::service(&cluster, id).revision,
        node: None,
        desired: Desired::Ready,
        start_after: Some(START + Span::from_secs(10)),
    }]));
    cluster.apply(ChangeSet::of(vec![Change::Decide {
        service: id,
        rule: Rule::Replace,
        task: Some(first),
        text: "it failed".into(),
    }]));
    cluster.assign(second, here);
    cluster.report(second, TaskState::Ready, None);
    cluster.set_now(START + Span::from_secs(8));
    let ended = format!("task web.1 ({first}) failed 3s ago on here: exit status 3");
    assert_eq!(facts(&cluster, &first.to_string()), [ended.clone(), format!("task {second} took its place")]);
    assert_eq!(
        facts(&cluster, "web.1"),
        [
            "task web.1 is ready on here for 3s".to_owned(),
            "it is to start in 2s".to_owned(),
            format!("before it, {ended}")
        ]
    );
    let service = facts(&cluster, "web");
    assert_eq!(service[1], "task web.1 starts in 2s");
    assert_eq!(service[2], format!("the last failure: {ended}"));
    let tables = cluster.snapshot();
    let subject = why::resolve(&tables, &first.to_string(), Kind::Anything, NOBODY).unwrap();
    let why = why::explain(&cluster, &tables, &subject);
    assert_eq!(why.decisions.len(), 1);
    assert_eq!(why.tasks.iter().map(|t| t.id).collect::<Vec<_>>(), [second]);
}

#[test]
fn an_end_that_stays_an_end_says_which_rule_kept_it() {
    let cluster = cluster();
    let here = cluster.add_node("here");
    let mut once = spec("once", 1);
    once.task.replace.condition = model::Condition::OnFailure;
    let id = create(&cluster, once);
    let first = cluster.add_task(id, Slot::Number(0));
    cluster.assign(first, here);
    cluster.report(first, TaskState::Complete, None);
    let said = facts(&cluster, "once.1");
    assert!(said[1].contains("its restart condition is on-failure"), "{said:?}");
    cluster.apply(ChangeSet::of(vec![Change::Decide {
        service: id,
        rule: Rule::NotReplaced,
        task: Some(first),
        text: "3 attempts are used up".into(),
    }]));
    assert_eq!(facts(&cluster, "once.1")[1], "nothing took its place: 3 attempts are used up");
    assert!(facts(&cluster, "once").contains(&"a task was not replaced: 3 attempts are used up".to_owned()));
    run(services::remove(&cluster, "once", None)).unwrap();
    let said = facts(&cluster, &first.to_string());
    assert_eq!(said[1], "its service was removed");
}

#[test]
fn a_node_says_what_it_is_for() {
    let cluster = cluster();
    let here = cluster.add_node("here");
    let id = create(&cluster, spec("web", 1));
    let first = cluster.add_task(id, Slot::Number(0));
    cluster.assign(first, here);
    let said = facts(&cluster, "here");
    assert_eq!(said[0], "node here is ready and takes new tasks");
    assert!(said[1].starts_with("1 task has a place on it"), "{said:?}");
    let drain = NodeChange { availability: Some(Availability::Drain), ..NodeChange::default() };
    let written = run(nodes::update(&cluster, "here", None, drain.clone())).unwrap();
    assert!(written.changed);
    assert!(!run(nodes::update(&cluster, "here", Some(written.version), drain)).unwrap().changed);
    assert!(facts(&cluster, "here")[0].contains("drained"));
}

#[test]
fn labels_of_nodes_are_set_added_and_removed() {
    let cluster = cluster();
    let here = cluster.add_node("here");
    let labels =
        |list: &[(&str, &str)]| -> Labels { list.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect() };
    let update = |change| run(nodes::update(&cluster, "here", None, change));
    update(NodeChange { add_labels: labels(&[("a", "1"), ("b", "2")]), ..NodeChange::default() }).unwrap();
    update(NodeChange { remove_labels: vec!["a".into()], ..NodeChange::default() }).unwrap();
    assert_eq!(cluster.snapshot().node(here).unwrap().labels, labels(&[("b", "2")]));
    let error = update(NodeChange { remove_labels: vec!["a".into()], ..NodeChange::default() }).unwrap_err();
    assert_eq!(error.to_string(), "remove_labels: \"a\" is not a label of node here");
    update(NodeChange { labels: Some(Labels::new()), ..NodeChange::default() }).unwrap();
    assert_eq!(cluster.snapshot().node(here).unwrap().labels, Labels::new());
    let stale = run(nodes::update(&cluster, "here", Some(1), NodeChange::default())).unwrap_err();
    assert_eq!(stale.field(), Some("version"));
}

#[test]
fn nodes_and_tasks_have_their_own_names() {
    let cluster = cluster();
    let (a, b) = (cluster.add_node("twin"), cluster.add_node("twin"));
    let tables = cluster.snapshot();
    let error = nodes::find(&tables, "TWIN", NOBODY).unwrap_err();
    assert!(matches!(&error, RequestError::Ambiguous { matches, .. } if matches.len() == 2), "{error}");
    assert_eq!(nodes::find(&tables, &a.to_string(), NOBODY).unwrap().id, a);
    assert_eq!(nodes::find(&tables, "self", b).unwrap().id, b);
    assert!(nodes::find(&tables, "self", NOBODY).is_err());

    let (web, agent) = (create(&cluster, spec("web", 1)), create(&cluster, global("agent")));
    let first = cluster.add_task(web, Slot::Number(0));
    cluster.apply(ChangeSet::of(vec![Change::DirectTask { task: first, desired: Desired::Shutdown }]));
    let second = cluster.add_task(web, Slot::Number(0));
    let on_a = cluster.add_task(agent, Slot::Node(a));
    let tables = cluster.snapshot();
    let find = |text: &str| tasks::find(&tables, text, NOBODY).map(|t| t.id);
    assert_eq!(find("web.1"), Ok(second), "the one that fills the slot");
    assert_eq!(find(&format!("web.1.{first}")), Ok(first));
    assert_eq!(find(&format!("web.1.{}", &first.to_string()[..12])), Ok(first), "as tables show it");
    assert!(find("web.1.zzzzzzzzzzzz").is_err());
    assert_eq!(find(&format!("agent.{a}")), Ok(on_a));
    assert_eq!(find(&first.to_string()), Ok(first));
    for nothing in ["web.0", "web.2", "web.x", "nope.1", "web."] {
        assert!(matches!(find(nothing), Err(RequestError::NotFound { .. })), "{nothing}");
    }
    assert_eq!(tasks::name(&tables, tables.task(second).unwrap()), "web.1");
}

#[test]
fn one_reference_means_one_thing() {
    let cluster = cluster();
    let here = cluster.add_node("web");
    let web = create(&cluster, spec("web", 1));
    let tables = cluster.snapshot();
    let kind_of = |text: &str, kind| match why::resolve(&tables, text, kind, NOBODY).unwrap() {
        Subject::Service(s) => format!("service {}", s.id),
        Subject::Node(n) => format!("node {}", n.id),
        Subject::Task(t) => format!("task {}", t.id),
    };
    assert_eq!(kind_of("web", Kind::Anything), format!("service {web}"));
    assert_eq!(kind_of("web", Kind::Node), format!("node {here}"));
    assert_eq!(kind_of(&here.to_string(), Kind::Anything), format!("node {here}"));
    let none = why::resolve(&tables, "nope", Kind::Anything, NOBODY).unwrap_err();
    assert!(none.to_string().starts_with("there is no task, service or node \"nope\""), "{none}");
    // Services until one has an id that begins as the node's does.
    let first = here.to_string()[..1].to_owned();
    let begins = |n| create(&cluster, spec(&format!("s{n}"), 1)).to_string().starts_with(&first);
    assert!((0..1000).any(begins));
    let tables = cluster.snapshot();
    let error = why::resolve(&tables, &first, Kind::Anything, NOBODY).unwrap_err();
    assert!(matches!(error, RequestError::Ambiguous { .. }), "{error}");
    assert!(why::resolve(&tables, &here.to_string()[..20], Kind::Anything, NOBODY).is_ok());
}
