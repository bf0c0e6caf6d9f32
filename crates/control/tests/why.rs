//! Explanations, and what references to tasks and nodes mean.

mod common;

use std::sync::Arc;

use common::{START, cluster, command, create, global, run, spec};
use control::nodes::{self, NodeChange};
use control::why::{self, Subject};
use control::{Cluster, Kind, RequestError, service_status, services, stacks, tasks};
use model::{
    Availability, Desired, FilterKind, Labels, Lack, NamespaceId, NodeId, Refusal, Rule, Slot, Span, TaskId,
    TaskState, Unplaced, Verdict,
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
    let lack = Lack { filter: FilterKind::Constraint, text: "the label zone=east".into(), cost: 2 };
    let verdict = Verdict {
        node: here,
        hostname: "here".into(),
        refusal: Some((FilterKind::Constraint, "no label zone".into())),
        lacks: vec![lack],
    };
    cluster.set_verdicts(vec![verdict.clone()]);
    let tables = cluster.snapshot();
    let subject = why::resolve(&tables, "web", Kind::Anything, NOBODY).unwrap();
    let why = why::explain(&cluster, &tables, &subject);
    let counts: Vec<_> = why.waiting.iter().map(|w| (w.count, w.first, w.unplaced.is_some())).collect();
    assert_eq!(counts, [(2, waiting[1], true), (1, waiting[0], false)]);
    assert_eq!(why.verdicts, [verdict]);
    assert_eq!(why.facts[1], format!("2 tasks wait for a node: no suitable node ({text})"));
    let remedy = "the smallest change that would place web.2: the label zone=east on node here";
    assert_eq!(why.facts[2], remedy);
    assert_eq!(
        facts(&cluster, "web.2"),
        [
            format!("task web.2 waits for a node: no suitable node ({text})"),
            remedy.to_owned(),
            "it was made just now because the service wants 3 tasks, and nothing filled slot 2".to_owned(),
        ]
    );
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
    let placed = "why here: of the nodes that pass every filter, the one with the fewest tasks of the service is chosen, \
                  then the one with the fewest tasks in all";
    assert_eq!(
        facts(&cluster, "web.1"),
        [
            "task web.1 is running on here for 5s",
            "it was made 5s ago because the service wants 1 task, and nothing filled slot 1",
            placed,
        ]
    );
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
    let ended_at = service_status(&cluster.snapshot(), &common::service(&cluster, id)).ended_at;
    assert_eq!(
        ended_at,
        Some(START + Span::from_secs(5)),
        "a service that has just lost a task is not steady"
    );
    cluster.assign(second, here);
    cluster.report(second, TaskState::Ready, None);
    cluster.set_now(START + Span::from_secs(8));
    let ended = format!("task web.1 ({first}) failed 3s ago on here: exit status 3");
    // The story begins at 08:00.
    let starts = "in 2s (at 08:00:10 UTC)";
    let said = facts(&cluster, &first.to_string());
    assert_eq!(said[0], ended);
    let heir = format!("task {second} took its place (restart condition any) and is to start {starts}");
    assert_eq!(said.last(), Some(&heir));
    assert_eq!(
        facts(&cluster, "web.1"),
        [
            "task web.1 is ready on here for 3s".to_owned(),
            format!("it is to start {starts}"),
            format!("it replaces another: before it, {ended}"),
            placed.to_owned(),
        ]
    );
    let service = facts(&cluster, "web");
    assert_eq!(service[1], format!("task web.1 starts {starts}"));
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
    let last = |of: &str| facts(&cluster, of).pop().expect("a fact");
    assert!(last("once.1").contains("its restart condition is on-failure"), "{}", last("once.1"));
    cluster.apply(ChangeSet::of(vec![Change::Decide {
        service: id,
        rule: Rule::NotReplaced,
        task: Some(first),
        text: "3 attempts are used up".into(),
    }]));
    assert_eq!(last("once.1"), "nothing took its place: 3 attempts are used up");
    assert!(facts(&cluster, "once").contains(&"a task was not replaced: 3 attempts are used up".to_owned()));
    run(services::remove(&cluster, "once", None)).unwrap();
    assert_eq!(last(&first.to_string()), "its service was removed");
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
    assert!(!run(nodes::update(&cluster, "here", Some(written.version), drain.clone())).unwrap().changed);
    let said = facts(&cluster, "here");
    assert!(said[0].contains("drained"));
    assert_eq!(said[1], "1 of 1 left: web is ending");
    // Another request to drain keeps the deadline, unless it gives another one.
    let within = NodeChange { deadline: Some(Span::from_secs(60)), ..drain.clone() };
    assert!(run(nodes::update(&cluster, "here", None, within)).unwrap().changed);
    let said = facts(&cluster, "here");
    assert!(said[2].starts_with("whatever is left goes at once in 1m0s"), "{said:?}");
    assert!(!run(nodes::update(&cluster, "here", None, drain)).unwrap().changed);
    assert_eq!(facts(&cluster, "here")[2], said[2]);
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
        Subject::Stack(s) => format!("stack {}", s.id),
    };
    assert_eq!(kind_of("web", Kind::Anything), format!("service {web}"));
    assert_eq!(kind_of("web", Kind::Node), format!("node {here}"));
    assert_eq!(kind_of(&here.to_string(), Kind::Anything), format!("node {here}"));
    let none = why::resolve(&tables, "nope", Kind::Anything, NOBODY).unwrap_err();
    assert!(none.to_string().starts_with("there is no task, service, node or stack \"nope\""), "{none}");
    // Services until one has an id that begins as the node's does.
    let first = here.to_string()[..1].to_owned();
    let begins = |n| create(&cluster, spec(&format!("s{n}"), 1)).to_string().starts_with(&first);
    assert!((0..1000).any(begins));
    let tables = cluster.snapshot();
    let error = why::resolve(&tables, &first, Kind::Anything, NOBODY).unwrap_err();
    assert!(matches!(error, RequestError::Ambiguous { .. }), "{error}");
    assert!(why::resolve(&tables, &here.to_string()[..20], Kind::Anything, NOBODY).is_ok());
}

#[test]
fn tasks_of_a_group_are_explained_by_the_decisions_at_their_indexes() {
    let cluster = cluster();
    let (a, b) = (cluster.add_node("a"), cluster.add_node("b"));
    let id = create(&cluster, spec("web", 3));
    let revision = common::service(&cluster, id).revision;
    let decide = |rule, text: &str| Change::Decide { service: id, rule, task: None, text: text.into() };
    let tasks: Vec<TaskId> = (0..3).map(|_| TaskId(cluster.new_id())).collect();
    let made = tasks.iter().zip(0..).map(|(task, n)| Change::CreateTask {
        id: *task,
        service: id,
        slot: Slot::Number(n),
        revision,
        node: None,
        desired: Desired::Running,
        start_after: None,
    });
    let scaled = decide(Rule::ScaleUp, "3 tasks created: replicas 3, filled 0");
    cluster.apply(ChangeSet::of(made.chain([scaled]).collect()));
    let assigned = tasks.iter().zip([a, b, a]);
    let assigned = assigned.map(|(task, node)| Change::AssignTask {
        task: *task,
        node,
        ports: Box::default(),
        named: Box::default(),
    });
    let placed = decide(Rule::Placed, "3 tasks placed on 2 nodes, fewest tasks of the service first");
    cluster.apply(ChangeSet::of(assigned.chain([placed]).collect()));
    // What came later is about others.
    cluster.apply(ChangeSet::of(vec![decide(Rule::Placed, "7 tasks placed on 2 nodes")]));
    let takes =
        |node, hostname: &str| Verdict { node, hostname: hostname.into(), refusal: None, lacks: vec![] };
    cluster.set_verdicts(vec![takes(a, "a"), takes(b, "b")]);
    cluster.report(tasks[1], TaskState::Running, None);
    cluster.set_now(START + Span::from_secs(60));

    let tables = cluster.snapshot();
    let subject = why::resolve(&tables, "web.2", Kind::Anything, NOBODY).unwrap();
    let why = why::explain(&cluster, &tables, &subject);
    assert_eq!(
        why.facts,
        [
            "task web.2 is running on b for 1m0s",
            "it was made 1m0s ago because the service wants 3 tasks, and nothing filled slot 2; scale-up 1m0s ago: \
             3 tasks created: replicas 3, filled 0",
            "why b: 3 tasks placed on 2 nodes, fewest tasks of the service first; 2 of 2 nodes would take it now",
        ]
    );
    assert_eq!(why.decisions.iter().map(|d| d.rule).collect::<Vec<_>>(), [Rule::ScaleUp, Rule::Placed]);
}

#[test]
fn a_task_says_which_update_or_lost_node_made_it() {
    let cluster = cluster();
    let here = cluster.add_node("here");
    let id = create(&cluster, spec("web", 2));
    let old = cluster.add_task(id, Slot::Number(0));
    let lost = cluster.add_task(id, Slot::Number(1));
    cluster.assign(old, here);
    cluster.assign(lost, here);
    cluster.apply(ChangeSet::of(vec![Change::DirectTask { task: lost, desired: Desired::Shutdown }]));
    cluster.add_task(id, Slot::Number(1));
    let said = facts(&cluster, "web.2");
    assert!(said[1].starts_with("it replaces one that had to leave its node: before it, "), "{said:?}");
    let given_up = Change::Decide {
        service: id,
        rule: Rule::NodeLost,
        task: None,
        text: "1 task given up: node here is drained".into(),
    };
    // The same index, as when one plan does both.
    let third = TaskId(cluster.new_id());
    let revision = common::service(&cluster, id).revision;
    let fresh = cluster.snapshot().tasks_of_slot(id, Slot::Number(1)).last().expect("there").id;
    cluster.apply(ChangeSet::of(vec![
        Change::DirectTask { task: fresh, desired: Desired::Shutdown },
        Change::CreateTask {
            id: third,
            service: id,
            slot: Slot::Number(1),
            revision,
            node: None,
            desired: Desired::Running,
            start_after: None,
        },
        given_up,
    ]));
    let said = facts(&cluster, &third.to_string());
    assert!(said[1].contains("had to leave its node (1 task given up: node here is drained)"), "{said:?}");

    run(services::update(&cluster, "web", None, command(spec("web", 2), &["other"]))).unwrap();
    cluster.apply(ChangeSet::of(vec![Change::DirectTask { task: old, desired: Desired::Shutdown }]));
    cluster.add_task(id, Slot::Number(0));
    let said = facts(&cluster, "web.1");
    assert!(said[1].starts_with("it was made because of the update to revision 2: before it, "), "{said:?}");
    assert!(said[1].ends_with("of revision 1"), "{said:?}");
}

#[test]
fn attempts_that_are_used_up_and_what_is_about_to_happen() {
    let cluster = cluster();
    let here = cluster.add_node("here");
    let mut bad = spec("bad", 1);
    bad.task.replace.max_attempts = 3;
    bad.task.replace.window = Span::from_secs(60);
    let id = create(&cluster, bad);
    let first = cluster.add_task(id, Slot::Number(0));
    cluster.assign(first, here);
    cluster.report(first, TaskState::Failed, None);
    let last = || facts(&cluster, "bad.1").pop().expect("a fact");
    assert_eq!(
        last(),
        "its place is about to be taken: its restart condition is any, and the next one starts in 5s (at 08:00:05 UTC)"
    );
    cluster.apply(ChangeSet::of(vec![Change::DirectTask { task: first, desired: Desired::Complete }]));
    assert_eq!(last(), "nothing takes its place: its 3 restart attempts within 1m0s are used up");
}

#[test]
fn the_smallest_change_is_found_among_all_nodes() {
    let cluster = cluster();
    let nodes = ["a", "b", "c"].map(|name| (cluster.add_node(name), name));
    let id = create(&cluster, spec("web", 1));
    cluster.add_task(id, Slot::Number(0));
    let lack = |text: &str, cost| Lack { filter: FilterKind::Resources, text: text.into(), cost };
    let said = |lacks: [Vec<Lack>; 3]| {
        let verdicts = nodes.iter().zip(lacks).map(|((node, name), lacks)| Verdict {
            node: *node,
            hostname: (*name).into(),
            refusal: (!lacks.is_empty()).then(|| (FilterKind::Resources, "no".into())),
            lacks,
        });
        cluster.set_verdicts(verdicts.collect());
        facts(&cluster, "web")[2].clone()
    };
    let (cpu, less, label) = (lack("1 CPU more", 600), lack("0.5 CPU more", 350), lack("the label z=e", 2));
    assert_eq!(
        said([vec![cpu.clone()], vec![less.clone()], vec![less.clone(), label.clone()]]),
        "the smallest change that would place web.1: 0.5 CPU more on node b"
    );
    assert_eq!(
        said([vec![cpu.clone()], vec![label.clone()], vec![label.clone()]]),
        "the smallest change that would place web.1: the label z=e on any of the nodes b, c".replace(
            "b, c",
            &{
                let mut names = [nodes[1], nodes[2]];
                names.sort();
                format!("{}, {}", names[0].1, names[1].1)
            }
        )
    );
    let other = lack("node.hostname==x", Lack::ANOTHER_NODE);
    assert_eq!(
        said([vec![other.clone()], vec![other.clone()], vec![other]]),
        "no change to these nodes is enough; web.1 needs one with node.hostname==x"
    );
    assert_eq!(
        said([vec![], vec![label], vec![cpu]]),
        "node a would take web.1 now: it is about to be placed"
    );
}

#[test]
fn a_node_lists_its_tasks_by_service_and_slot() {
    let cluster = cluster();
    let here = cluster.add_node("here");
    let (web, api) = (create(&cluster, spec("web", 11)), create(&cluster, spec("api", 2)));
    for (service, slot) in [(web, 10), (web, 1), (api, 1), (web, 0), (api, 0)] {
        let task = cluster.add_task(service, Slot::Number(slot));
        cluster.assign(task, here);
    }
    let tables = cluster.snapshot();
    let subject = why::resolve(&tables, "here", Kind::Anything, NOBODY).unwrap();
    let held = why::explain(&cluster, &tables, &subject).tasks;
    let names: Vec<String> = held.iter().map(|t| tasks::name(&tables, t)).collect();
    assert_eq!(names, ["api.1", "api.2", "web.1", "web.2", "web.11"]);
}

#[test]
fn a_stack_says_how_each_service_is() {
    let cluster = cluster();
    let here = cluster.add_node("here");
    let deployment = stacks::Deployment {
        name: "shop".into(),
        source: "".into(),
        services: vec![spec("web", 1), spec("db", 1)],
        prune: false,
    };
    run(stacks::deploy(&cluster, deployment)).unwrap();
    let tables = cluster.snapshot();
    let names: Vec<String> = tables.services().map(|s| s.name.to_string()).collect();
    let name = |part: &str| names.iter().find(|n| n.contains(part)).expect("deployed").clone();
    let db = tables.service_by_name(NamespaceId::DEFAULT, &name("db")).expect("there").id;
    let task = cluster.add_task(db, Slot::Number(0));
    cluster.assign(task, here);
    cluster.report(task, TaskState::Running, None);
    let web = cluster.snapshot().service_by_name(NamespaceId::DEFAULT, &name("web")).expect("there").id;
    cluster.add_task(web, Slot::Number(0));
    assert_eq!(
        facts(&cluster, "shop"),
        [
            "stack shop has 2 services, and 1 of them run as asked".to_owned(),
            format!("service {} runs as asked: 1 task", name("db")),
            format!("service {} wants 1 task and runs 0", name("web")),
            "1 task waits for a node: the scheduler has not looked at it yet".to_owned(),
        ]
    );
}

#[test]
fn a_batch_service_says_how_far_it_has_come() {
    let cluster = cluster();
    let here = cluster.add_node("here");
    let mut sum = spec("sum", 0);
    sum.mode = model::Mode::Batch { completions: 3, concurrency: 1 };
    sum.task.replace.condition = model::Condition::None;
    let id = create(&cluster, sum);
    let first = cluster.add_task(id, Slot::Number(0));
    assert_eq!(
        facts(&cluster, "sum")[0],
        "batch service sum: iteration 1, 0 of 3 complete, 1 in progress, at most 1 at once"
    );
    cluster.assign(first, here);
    cluster.report(first, TaskState::Complete, None);
    assert_eq!(
        facts(&cluster, "sum"),
        ["batch service sum: iteration 1, 1 of 3 complete, 0 in progress, at most 1 at once"]
    );
    let told = facts(&cluster, "sum.1");
    assert!(told.contains(&"nothing takes its place: sum.1 is done in iteration 1".to_owned()), "{told:?}");
    let made = "because the service has 3 completions, at most 1 at once, and slot 1 was the lowest that had not begun";
    assert!(told.iter().any(|fact| fact.contains(made)), "{told:?}");
    for n in 1..3 {
        let task = cluster.add_task(id, Slot::Number(n));
        cluster.assign(task, here);
        cluster.report(task, TaskState::Failed, None);
        let text = format!("slot {}: failed; not replaced: its policy never replaces", n + 1).into();
        let decide = Change::Decide { service: id, rule: Rule::NotReplaced, task: Some(task), text };
        run(cluster
            .propose(ChangeSet::of(vec![Change::DirectTask { task, desired: Desired::Complete }, decide])))
        .unwrap();
    }
    let told = facts(&cluster, "sum");
    assert_eq!(told[0], "batch service sum: iteration 1, 1 of 3 complete, 2 given up");
    assert_eq!(
        told[1],
        "it cannot complete any more: 2 of 3 runs are given up: slot 3: failed; not replaced: its policy never replaces"
    );
    // Another iteration, and everything is to be done again.
    let again = run(services::update(&cluster, "sum", None, {
        let tables = cluster.snapshot();
        let mut spec = services::spec_of(&tables, tables.service(id).unwrap());
        spec.task.force = 1;
        spec
    }));
    again.unwrap();
    assert_eq!(
        facts(&cluster, "sum")[0],
        "batch service sum: iteration 2, 0 of 3 complete, 0 in progress, at most 1 at once"
    );
}

/// A slot in which a canary is tried has two lines of tasks; what is said of one is not said of the other.
#[test]
fn canaries_and_what_they_stand_beside_are_told_apart() {
    let cluster = cluster();
    let here = cluster.add_node("here");
    let mut web = spec("web", 1);
    web.update.canary = 1;
    let id = create(&cluster, web.clone());
    let task = || {
        let task = cluster.add_task(id, Slot::Number(0));
        cluster.assign(task, here);
        cluster.report(task, TaskState::Running, None);
        task
    };
    let says = |task: TaskId, part: &str| {
        let facts = facts(&cluster, &task.to_string());
        let found = facts.iter().any(|f| f.contains(part));
        (found, facts)
    };
    let own = task();
    run(services::update(&cluster, "web", None, command(web, &["other"]))).expect("accepted");
    let canary = task();
    for (task, part, told) in [
        (own, "a canary tries the new revision in its slot; it stays until that is promoted", true),
        (own, "its place", false),
        (canary, "it is a canary: it tries the new revision beside", true),
        (canary, "it was made because of the update to revision 2", true),
        (canary, "its place", false),
    ] {
        let (found, facts) = says(task, part);
        assert_eq!(found, told, "{part}: {facts:?}");
    }
    // Its own task fails and is followed by another one, which comes after the canary and yet not because of it.
    cluster.report(own, TaskState::Failed, Some("exit status 3"));
    let next = TaskId(cluster.new_id());
    cluster.apply(ChangeSet::of(vec![Change::CreateTask {
        id: next,
        service: id,
        slot: Slot::Number(0),
        revision: common::service(&cluster, id).previous.expect("updated"),
        node: None,
        desired: Desired::Running,
        start_after: None,
    }]));
    assert!(says(own, &format!("task {next} took its place")).0);
    assert!(says(next, &format!("it replaces another: before it, task web.1 ({own})")).0);
    cluster.assign(next, here);
    cluster.report(next, TaskState::Running, None);

    // The canary fails: while the update is not paused its policy says what comes, and then nothing does.
    cluster.report(canary, TaskState::Failed, Some("exit status 7"));
    assert!(says(canary, "its place is about to be taken").0);
    cluster.apply(ChangeSet::of(vec![Change::MoveUpdate {
        service: id,
        state: model::UpdateState::Paused,
        message: "update paused".into(),
    }]));
    for (task, part, told) in [
        (canary, "no other canary takes its place while the update is paused", true),
        (canary, "about to be taken", false),
        (canary, "it is a canary", false),
        (next, "the update tries a canary in its slot, and none is there now", true),
        (next, "took its place", false),
    ] {
        let (found, facts) = says(task, part);
        assert_eq!(found, told, "{part}: {facts:?}");
    }

    // Taken back, nobody follows the task that was there all the time.
    run(services::abort(&cluster, "web", None)).expect("accepted");
    let (found, facts) = says(next, "its place");
    assert!(!found, "{facts:?}");
}
