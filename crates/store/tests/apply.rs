//! Each change and each refusal, one by one.

mod common;

use std::sync::Arc;

use common::*;
use model::{
    Availability, Decision, Description, Desired, Labels, NamedResource, NamespaceId, NodeState, NodeStatus,
    Protocol, Role, Rule, Service, Slot, TaskId, TaskState, Time, Unplaced, UpdateState, UpdateStatus,
    limits,
};
use store::{Action, Change, ChangeSet, EventId, Object, ObjectId, Refused, Table, Tables};

#[test]
fn a_task_goes_through_its_life() {
    let mut w = World::furnished();
    w.must(vec![create_task(1, 1, 0, 1)]);
    assert_eq!(w.task(1).status.state, TaskState::Pending);
    assert_eq!(World::numbers(w.tables.tasks_waiting()), [1]);
    assert_eq!(w.tables.service_use(service_id(1)).filled(), 1);

    w.must(vec![assign_port(1, 2, 8080)]);
    let assigned = w.tables.index();
    assert_eq!(w.task(1).node, Some(node_id(2)));
    assert_eq!(w.task(1).directed, assigned);
    assert_eq!(w.tables.node_tasks_index(node_id(2)), assigned);
    assert_eq!(w.tables.tasks_waiting().count(), 0);
    let used = w.tables.node_use(node_id(2));
    assert_eq!((used.active(), used.tasks_of(service_id(1))), (1, 1));
    assert_eq!(used.reserved(), &reserve(10, 100));
    assert_eq!(used.port_holder(Protocol::Tcp, 8080), Some(task_id(1)));
    assert_eq!(used.port_holder(Protocol::Udp, 8080), None);
    assert_eq!(w.tables.nodes_by_load().collect::<Vec<_>>(), [node_id(1), node_id(3), node_id(2)]);

    w.must(vec![report(1, 2, TaskState::Running)]);
    assert_eq!(w.tables.service_use(service_id(1)).running(), 1);
    assert_eq!((w.task(1).directed, w.task(1).modified), (assigned, w.tables.index()));
    assert_eq!(w.tables.node_tasks_index(node_id(2)), assigned, "a report is no direction");
    assert_eq!((w.task(1).status.at, w.task(1).status.applied_at), (Time(77), w.tables.time()));

    w.must(vec![direct(1, Desired::Shutdown)]);
    let used = w.tables.service_use(service_id(1));
    assert_eq!((used.running(), used.filled(), used.by_state(TaskState::Running)), (0, 0, 1));
    assert_eq!(w.tables.node_use(node_id(2)).active(), 1, "held until the agent reports the end");

    w.must(vec![report(1, 2, TaskState::Shutdown)]);
    assert_eq!(w.tables.node_use(node_id(2)), w.tables.node_use(node_id(99)));
    w.must(vec![Change::DeleteTask(task_id(1))]);
    assert!(w.tables.task(task_id(1)).is_none());
    assert_eq!(w.tables.node_tasks_index(node_id(2)), w.tables.index());
    assert_eq!(w.tables.service_index(service_id(1)), w.tables.index());
    assert_eq!(w.tables.service_use(service_id(1)).total(), 0);
}

/// A change set and the sentence of its refusal, after `before` was accepted.
fn refused(before: Vec<Change>, changes: Vec<Change>, sentence: &str) {
    let mut w = World::furnished();
    w.must(vec![create_task(1, 1, 0, 1), create_task(2, 1, 1, 1)]);
    w.must(vec![assign_port(1, 1, 80)]);
    w.must(before);
    let untouched = w.tables.clone();
    match w.try_apply(changes.clone()) {
        Ok(_) => panic!("{changes:?} was accepted"),
        Err(refused) => assert_eq!(refused.to_string(), sentence, "{changes:?}"),
    }
    assert_same(&untouched, &w.tables);
}

/// Everything but index and time is the same.
fn assert_same(a: &Tables, b: &Tables) {
    assert!(a.tasks().eq(b.tasks()));
    assert!(a.services().eq(b.services()));
    assert!(a.nodes().eq(b.nodes()));
    assert!(a.jobs().eq(b.jobs()));
    assert!(a.namespaces().eq(b.namespaces()));
    assert_eq!(a.cluster(), b.cluster());
    for table in Table::ALL {
        assert_eq!(a.table_index(table), b.table_index(table), "{table:?}");
    }
}

#[test]
fn refusals_say_why_and_leave_nothing() {
    let none = Vec::new;
    let task = |n| format!("Task({})", task_id(n));
    let id = service_id(1);
    refused(none(), vec![create_task(1, 1, 5, 1)], &format!("{} exists already", task(1)));
    refused(none(), vec![create_task(3, 9, 0, 1)], &format!("Service({}) does not exist", service_id(9)));
    refused(none(), vec![create_task(3, 1, 0, 9)], &format!("Revision({}) does not exist", revision_id(9)));
    refused(
        none(),
        vec![create_task(3, 1, 10_000_000, 1)],
        &format!("{}: slot 10000000 is beyond the 10000000 of one service", task(3)),
    );
    refused(
        none(),
        vec![create_task(3, 1, 2, 1), assign(1, 2)],
        &format!("{}: it is assigned and cannot be assigned", task(1)),
    );
    refused(none(), vec![assign(2, 9)], &format!("Node({}) does not exist", node_id(9)));
    refused(
        none(),
        vec![assign_port(2, 1, 80)],
        &format!("{}: host port 80/tcp of node {} is held by task {}", task(2), node_id(1), task_id(1)),
    );
    let small = Arc::new(Description { resources: reserve(15, 150), ..Description::default() });
    refused(
        vec![Change::DescribeNode { node: node_id(1), description: small }],
        vec![assign(2, 1)],
        &format!("{}: node {} has too little left for it", task(2), node_id(1)),
    );
    refused(none(), vec![assign_port(2, 1, 0)], &format!("{}: host port 0 cannot be held", task(2)));
    refused(
        vec![direct(2, Desired::Shutdown)],
        vec![assign(2, 1)],
        &format!("{}: it is no longer wanted", task(2)),
    );
    refused(none(), vec![direct(9, Desired::Shutdown)], &format!("{} does not exist", task(9)));
    refused(
        none(),
        vec![report(1, 1, TaskState::Orphaned)],
        &format!("{}: an agent cannot report a task as orphaned", task(1)),
    );
    refused(
        none(),
        vec![end(1, TaskState::Shutdown)],
        &format!("{}: it is assigned: only its agent can say that it was shut down", task(1)),
    );
    refused(
        none(),
        vec![end(2, TaskState::Orphaned)],
        &format!("{}: it was never assigned and cannot be orphaned", task(2)),
    );
    refused(
        none(),
        vec![end(1, TaskState::Failed)],
        &format!("{}: the control plane does not end tasks as failed", task(1)),
    );
    refused(
        vec![end(2, TaskState::Shutdown)],
        vec![end(2, TaskState::Shutdown)],
        &format!("{}: it has ended already: it is shutdown", task(2)),
    );
    refused(
        none(),
        vec![Change::DeleteTask(task_id(1))],
        &format!("{}: it is assigned and still holds its node", task(1)),
    );
    refused(none(), vec![Change::CreateNode(node(1))], &format!("Node({}) exists already", node_id(1)));
    refused(none(), vec![Change::DeleteNode(node_id(9))], &format!("Node({}) does not exist", node_id(9)));
    refused(
        none(),
        vec![Change::CreateRevision(revision(7, 1, reserve(0, 0)))],
        &format!("Revision({}): no service or task refers to it", revision_id(7)),
    );
    refused(
        none(),
        vec![
            Change::CreateRevision(revision(7, 2, reserve(0, 0))),
            Change::CreateService(Box::new(service(2, "WEB", 7))),
        ],
        &format!("the name \"WEB\" is already in use by Service({id})"),
    );
    refused(
        none(),
        vec![Change::CreateService(Box::new(service(2, "db", 1)))],
        &format!("Revision({}): it is a revision of service {id}, not of {}", revision_id(1), service_id(2)),
    );
    refused(
        none(),
        vec![Change::UpdateService(Box::new(service(1, "other", 1)))],
        &format!("Service({id}): a service keeps its namespace and its name"),
    );
    refused(
        none(),
        vec![Change::DeleteService(service_id(9))],
        &format!("Service({}) does not exist", service_id(9)),
    );
}

#[test]
fn groups_refuse_what_would_break_them() {
    let group = |n| namespace(n, &format!("team-{n}"));
    let mut inside = job(2, "b");
    inside.namespace = namespace_id(1);
    let before = || vec![Change::PutNamespace(group(1)), Change::PutJob(job(1, "a"))];
    let taken = |name: &str, by| format!("the name {name:?} is already in use by {by:?}");
    refused(
        before(),
        vec![Change::PutNamespace(namespace(2, "Team-1"))],
        &taken("Team-1", ObjectId::Namespace(namespace_id(1))),
    );
    refused(before(), vec![Change::PutJob(job(2, "A"))], &taken("A", ObjectId::Job(job_id(1))));
    refused(
        before(),
        vec![Change::PutJob(inside.clone()), Change::DeleteNamespace(namespace_id(1))],
        &format!("Namespace({}) is still used by Job({})", namespace_id(1), job_id(2)),
    );
    refused(
        before(),
        vec![Change::DeleteNamespace(NamespaceId::DEFAULT)],
        &format!("Namespace({}): the default namespace cannot be removed", NamespaceId::DEFAULT),
    );
    let mut moved = job(1, "a");
    moved.namespace = namespace_id(1);
    refused(
        before(),
        vec![Change::PutJob(moved)],
        &format!("Job({}): a job stays in its namespace", job_id(1)),
    );
    let mut of_job = service(2, "db", 2);
    of_job.job = Some(job_id(1));
    refused(
        before(),
        vec![
            Change::CreateRevision(revision(2, 2, reserve(0, 0))),
            Change::CreateService(Box::new(of_job)),
            Change::DeleteJob(job_id(1)),
        ],
        &format!("Job({}) is still used by Service({})", job_id(1), service_id(2)),
    );
    let mut other = cluster("x");
    other.id = model::ClusterId(model::Id::from_u128(1));
    refused(before(), vec![Change::PutCluster(other)], "Cluster: a cluster keeps its id");
}

#[test]
fn guards_hold_or_refuse_the_set() {
    let mut w = World::furnished();
    let version = w.tables.version(ObjectId::Service(service_id(1)));
    let mut set = ChangeSet::of(vec![create_task(1, 1, 0, 1)]);
    set.guard(ObjectId::Service(service_id(1)), version);
    set.guard(ObjectId::Task(task_id(1)), 0);
    w.try_set(set.clone()).unwrap();
    let found = w.tables.index();
    assert_eq!(
        w.try_set(set),
        Err(Refused::Moved { object: ObjectId::Task(task_id(1)), expected: 0, found })
    );
}

#[test]
fn every_guard_counts() {
    let mut w = World::furnished();
    let version = |object| w.tables.version(object);
    let objects = [ObjectId::Cluster, ObjectId::Node(node_id(1)), ObjectId::Revision(revision_id(1))];
    let good: Vec<_> = objects.iter().map(|object| (*object, version(*object))).collect();
    for (stale, stale_object) in objects.iter().enumerate() {
        let mut set = ChangeSet::of(vec![create_task(1, 1, 0, 1)]);
        for (at, (object, version)) in good.iter().enumerate() {
            set.guard(*object, version + u64::from(at == stale));
        }
        let moved = w.try_set(set).unwrap_err();
        assert!(matches!(moved, Refused::Moved { object, .. } if object == *stale_object), "{moved}");
    }
}

#[test]
fn a_task_made_anew_in_one_set_is_one_update() {
    let mut w = World::furnished();
    w.must(vec![create_task(1, 1, 0, 1), create_task(2, 1, 1, 1)]);
    let anew = vec![Change::DeleteTask(task_id(1)), create_task(3, 1, 2, 1), create_task(1, 1, 5, 1)];
    let applied = w.must(anew);
    let told: Vec<_> = applied.events.iter().map(|event| (event.action, event.object.clone())).collect();
    let task = |n| Object::Task(Arc::clone(w.tables.task(task_id(n)).unwrap()));
    assert_eq!(told, [(Action::Updated, task(1)), (Action::Created, task(3))]);
    assert_eq!(World::numbers(w.tables.tasks_of_service(service_id(1))), [2, 3, 1]);
}

#[test]
fn a_node_reports_only_what_it_was_assigned() {
    let mut w = World::furnished();
    w.must(vec![Change::CreateTask {
        id: task_id(1),
        service: service_id(1),
        slot: Slot::Node(node_id(1)),
        revision: revision_id(1),
        node: Some(node_id(1)),
        desired: Desired::Running,
        start_after: None,
    }]);
    assert_eq!(w.must(vec![report(1, 1, TaskState::Running)]).events, []);
    let refused = w.try_apply(vec![assign(1, 2)]).unwrap_err().to_string();
    assert_eq!(refused, format!("Task({}): it was made for another node", task_id(1)));
    w.must(vec![assign(1, 1), report(1, 1, TaskState::Running)]);
    assert_eq!(w.tables.service_use(service_id(1)).running(), 1);
}

#[test]
fn sets_of_one_entry_stand_or_fall_alone() {
    let mut w = World::furnished();
    let bad = vec![create_task(2, 1, 1, 1), create_task(1, 1, 1, 1)];
    let applied = w.entry(vec![
        ChangeSet::of(vec![create_task(1, 1, 0, 1)]),
        ChangeSet::of(bad),
        ChangeSet::of(vec![assign(1, 1), direct(1, Desired::Shutdown)]),
    ]);
    assert_eq!(applied.results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    assert!(w.tables.task(task_id(2)).is_none());
    let index = applied.index;
    let ids: Vec<_> = applied.events.iter().map(|e| (e.id, e.action)).collect();
    assert_eq!(
        ids,
        [(EventId { index, ordinal: 0 }, Action::Created), (EventId { index, ordinal: 1 }, Action::Updated),]
    );
}

#[test]
fn a_set_makes_one_event_an_object() {
    let mut w = World::furnished();
    let applied = w.must(vec![create_task(1, 1, 0, 1), assign(1, 1), create_task(2, 1, 1, 1)]);
    let actions: Vec<_> = applied.events.iter().map(|e| e.action).collect();
    assert_eq!(actions, [Action::Created, Action::Created]);
    let Object::Task(first) = &applied.events[0].object else { panic!("a task") };
    assert_eq!((first.id, first.status.state), (task_id(1), TaskState::Assigned));

    let applied = w.must(vec![create_task(3, 1, 2, 1), Change::DeleteTask(task_id(3))]);
    assert_eq!(applied.events, [], "made and removed in one set: nothing happened");

    let applied = w.must(vec![end(2, TaskState::Shutdown), Change::DeleteTask(task_id(2))]);
    let Object::Task(last) = &applied.events[0].object else { panic!("a task") };
    assert_eq!((applied.events.len(), applied.events[0].action), (1, Action::Deleted));
    assert_eq!(last.status.state, TaskState::Pending, "as it last was in the tables");
}

#[test]
fn what_changes_nothing_moves_nothing() {
    let mut w = World::furnished();
    w.must(vec![create_task(1, 1, 0, 1), assign(1, 1)]);
    w.must(vec![report(1, 1, TaskState::Running), direct(1, Desired::Shutdown)]);
    let same = |change: Change| {
        let mut w = World { tables: w.tables.clone() };
        let before = w.tables.clone();
        let applied = w.must(vec![change.clone()]);
        assert_eq!(applied.events, [], "{change:?}");
        assert_same(&before, &w.tables);
    };
    same(direct(1, Desired::Running));
    same(direct(1, Desired::Shutdown));
    same(report(1, 1, TaskState::Starting));
    same(report(1, 1, TaskState::Running));
    same(report(1, 2, TaskState::Failed));
    same(report(9, 2, TaskState::Failed));
    same(Change::PutCluster(cluster("test")));
    same(Change::UpdateService(Box::new(service(1, "web", 1))));
    same(Change::SetNode {
        node: node_id(1),
        role: Role::Worker,
        availability: Availability::Active,
        drain_until: None,
        labels: Labels::new(),
    });
    let task = vec![task_id(1), task_id(5)];
    same(Change::ExplainTasks { tasks: task, unplaced: Some(Arc::new(Unplaced::default())) });
}

#[test]
fn an_ended_task_only_gets_its_details() {
    let mut w = World::furnished();
    w.must(vec![create_task(1, 1, 0, 1), assign(1, 1), report(1, 1, TaskState::Failed)]);
    assert_eq!(w.must(vec![report(1, 1, TaskState::Rejected)]).events, []);
    assert_eq!(w.must(vec![report(1, 1, TaskState::Complete)]).events, []);
    let mut late = report(1, 1, TaskState::Failed);
    if let Change::ReportTask { programs, message, at, .. } = &mut late {
        programs[0].exit_code = Some(3);
        *message = Some("another word".into());
        *at = Time(99);
    }
    assert_eq!(w.must(vec![late]).events.len(), 1);
    let task = w.task(1);
    assert_eq!(task.exit_code(), Some(3));
    assert_eq!((task.status.at, task.status.message.as_deref()), (Time(77), Some("said the agent")));
}

#[test]
fn removing_a_node_orphans_its_tasks() {
    let mut w = World::furnished();
    w.must(vec![create_task(1, 1, 0, 1), create_task(2, 1, 1, 1), create_task(3, 1, 2, 1)]);
    w.must(vec![assign_port(1, 1, 80), assign(2, 1), assign(3, 2)]);
    w.must(vec![report(2, 1, TaskState::Complete)]);
    let applied = w.must(vec![Change::DeleteNode(node_id(1))]);
    assert_eq!(applied.events.len(), 2);
    let state = |n| w.task(n).status.state;
    assert_eq!(
        [state(1), state(2), state(3)],
        [TaskState::Orphaned, TaskState::Complete, TaskState::Assigned]
    );
    assert_eq!(w.tables.nodes_by_load().collect::<Vec<_>>(), [node_id(3), node_id(2)]);
    assert_eq!(w.tables.node_use(node_id(1)).active(), 0);
    assert_eq!(World::numbers(w.tables.tasks_of_node(node_id(1))), [1, 2]);
    assert_eq!(w.tables.node_tasks_index(node_id(1)), w.tables.index());
    assert_eq!(w.must(vec![report(1, 1, TaskState::Failed)]).events, [], "an orphan stays one");
    w.must(vec![Change::DeleteTask(task_id(1)), Change::DeleteTask(task_id(2))]);
    assert_eq!(w.tables.node_tasks_index(node_id(1)), 0, "nothing is known of it any more");
    w.must(vec![Change::CreateNode(node(1))]);
    assert_eq!(w.tables.node_tasks_index(node_id(1)), 0, "nor when it joins again");
}

#[test]
fn a_revision_lives_as_long_as_something_refers_to_it() {
    let mut w = World::furnished();
    let there = |w: &World, n| w.tables.revision(revision_id(n)).is_some();
    w.must(vec![create_task(1, 1, 0, 1)]);
    let mut updated = service(1, "web", 2);
    updated.previous = Some(revision_id(1));
    w.must(vec![
        Change::CreateRevision(revision(2, 1, reserve(0, 0))),
        Change::UpdateService(Box::new(updated)),
    ]);
    w.must(vec![Change::UpdateService(Box::new(service(1, "web", 2)))]);
    assert!(there(&w, 1), "its task has it");
    w.must(vec![end(1, TaskState::Shutdown), Change::DeleteTask(task_id(1))]);
    assert!(!there(&w, 1) && there(&w, 2));
    w.must(vec![create_task(2, 1, 0, 2), Change::DeleteService(service_id(1))]);
    assert!(there(&w, 2));
    assert_eq!(w.tables.services_with_tasks().collect::<Vec<_>>(), [service_id(1)]);
    assert_eq!(w.tables.service_index(service_id(1)), w.tables.index());
    assert!(matches!(w.try_apply(vec![create_task(3, 1, 0, 2)]), Err(Refused::Missing(_))));
    assert!(matches!(
        w.try_apply(vec![
            Change::CreateRevision(revision(3, 1, reserve(0, 0))),
            Change::CreateService(Box::new(service(1, "web", 3)))
        ]),
        Err(Refused::Exists(_))
    ));
    w.must(vec![Change::DeleteTask(task_id(2))]);
    assert!(!there(&w, 2));
    assert_eq!(w.tables.service_index(service_id(1)), 0);
}

#[test]
fn names_are_free_again_and_undone_in_any_order() {
    let mut w = World::furnished();
    w.must(vec![Change::PutJob(job(1, "a")), Change::PutJob(job(2, "b"))]);
    let swap = vec![Change::PutJob(job(1, "c")), Change::PutJob(job(2, "a")), Change::PutJob(job(1, "B"))];
    let mut failing = swap.clone();
    failing.push(Change::DeleteJob(job_id(9)));
    w.try_apply(failing).unwrap_err();
    let holder = |w: &World, name| w.tables.job_by_name(NamespaceId::DEFAULT, name).map(|j| j.id);
    assert_eq!((holder(&w, "A"), holder(&w, "b"), holder(&w, "c")), (Some(job_id(1)), Some(job_id(2)), None));
    w.must(swap);
    assert_eq!((holder(&w, "A"), holder(&w, "b"), holder(&w, "c")), (Some(job_id(2)), Some(job_id(1)), None));
    w.must(vec![Change::DeleteService(service_id(1))]);
    w.must(vec![
        Change::CreateRevision(revision(2, 2, reserve(0, 0))),
        Change::CreateService(Box::new(service(2, "Web", 2))),
    ]);
    let found = w.tables.service_by_name(NamespaceId::DEFAULT, "wEB").map(|s| s.id);
    assert_eq!(found, Some(service_id(2)));
}

#[test]
fn slots_tell_what_fills_them() {
    let mut w = World::furnished();
    w.must((1..=4).map(|n| create_task(n, 1, n - 1, 1)).collect());
    w.must(vec![create_task(5, 1, 1, 1), create_task(6, 1, 1, 1)]);
    let used = w.tables.service_use(service_id(1));
    assert_eq!((used.filled(), used.doubled(), used.total(), used.by_revision(revision_id(1))), (4, 1, 6, 6));
    assert_eq!((used.first_empty(0), used.highest_filled()), (4, Some(3)));
    assert_eq!(World::numbers(w.tables.tasks_of_slot(service_id(1), Slot::Number(1))), [2, 5, 6]);
    assert_eq!(World::numbers(w.tables.tasks_of_service(service_id(1))), [1, 2, 5, 6, 3, 4]);
    w.must(vec![direct(2, Desired::Shutdown), direct(5, Desired::Remove), end(3, TaskState::Shutdown)]);
    let used = w.tables.service_use(service_id(1));
    assert_eq!((used.filled(), used.doubled(), used.first_empty(0)), (3, 0, 2));
}

#[test]
fn a_delayed_task_waits_for_its_moment() {
    let mut w = World::furnished();
    let delayed = |n, at| {
        let mut change = create_task(n, 1, n, 1);
        if let Change::CreateTask { desired, start_after, .. } = &mut change {
            (*desired, *start_after) = (Desired::Ready, Some(Time(at)));
        }
        change
    };
    w.must(vec![delayed(1, 900), delayed(2, 500), delayed(3, 700)]);
    w.must(vec![direct(3, Desired::Running), end(1, TaskState::Shutdown)]);
    assert_eq!(w.tables.tasks_delayed().collect::<Vec<_>>(), [(Time(500), task_id(2))]);
    assert_eq!(w.task(3).start_after, None);
}

#[test]
fn nodes_change_by_those_who_may() {
    let mut w = World::furnished();
    let since = w.tables.node(node_id(1)).unwrap().status.since;
    let status = |state, message: &str| Change::SetNodeStatus {
        node: node_id(1),
        status: NodeStatus { state, message: message.into(), address: "10.0.0.1".into(), since: Time(1) },
    };
    w.must(vec![status(NodeState::Ready, "hello")]);
    assert_eq!(w.tables.node(node_id(1)).unwrap().status.since, since, "still in the same state");
    w.must(vec![status(NodeState::Down, "")]);
    assert_eq!(w.tables.node(node_id(1)).unwrap().status.since, w.tables.time());
    assert_eq!(w.tables.table_index(Table::Nodes), w.tables.index());
}

#[test]
fn long_messages_are_clipped_at_a_character() {
    let mut w = World::furnished();
    w.must(vec![create_task(1, 1, 0, 1)]);
    let long = format!("x{}", "ü".repeat(limits::MESSAGE_LEN));
    let message: Arc<str> = long.as_str().into();
    w.must(vec![Change::EndTask { task: task_id(1), state: TaskState::Shutdown, message }]);
    let kept = w.task(1).status.message.as_deref().unwrap();
    assert_eq!(kept.len(), limits::MESSAGE_LEN - 1);
    assert!(long.starts_with(kept));
}

#[test]
fn the_last_decisions_are_kept() {
    let mut w = World::furnished();
    let decide = |n: u32, text: &str| Change::Decide {
        service: service_id(n),
        rule: Rule::ScaleUp,
        task: Some(TaskId::default()),
        text: text.into(),
    };
    w.must(vec![decide(9, "nobody")]);
    for n in 0..20 {
        w.must(vec![decide(1, &n.to_string())]);
    }
    let texts: Vec<_> = w.tables.decisions(service_id(1)).map(|d: &Decision| d.text.to_string()).collect();
    assert_eq!(texts, (4..20).map(|n| n.to_string()).collect::<Vec<_>>());
    let last = w.tables.decisions(service_id(1)).last().unwrap();
    assert_eq!((last.index, last.at), (w.tables.index(), w.tables.time()));
    w.must(vec![Change::DeleteService(service_id(1))]);
    assert_eq!(w.tables.decisions(service_id(1)).count(), 0);
}

#[test]
fn time_never_goes_back() {
    let mut w = World::furnished();
    let before = w.tables.time();
    let entry = store::Entry {
        feature_level: 1,
        time: Time(1),
        sets: vec![ChangeSet::of(vec![create_task(1, 1, 0, 1)])],
    };
    let applied = w.tables.apply(w.tables.index() + 5, &entry);
    assert_eq!((applied.time, w.task(1).created_at), (before, before));
}

#[test]
fn what_is_laid_over_is_not_settled() {
    let w = World::furnished();
    let mut view = w.tables.clone();
    view.speculate(&ChangeSet::of(vec![create_task(1, 1, 0, 1)]), Time(5)).unwrap();
    let task = Arc::clone(view.task(task_id(1)).unwrap());
    assert!(!view.is_settled(task.modified) && !view.is_settled(task.directed));
    assert_eq!((view.index(), view.settled()), (w.tables.index(), w.tables.index()));
    let mut next = ChangeSet::of(vec![assign(1, 1)]);
    next.guard(ObjectId::Task(task_id(1)), task.modified);
    view.speculate(&next, Time(5)).unwrap();
    assert!(view.task(task_id(1)).unwrap().modified > task.modified);
    assert_eq!(view.node_use(node_id(1)).active(), 1);
    let refused = view.speculate(&ChangeSet::of(vec![create_task(2, 1, 0, 1), assign(1, 2)]), Time(5));
    assert!(refused.is_err() && view.task(task_id(2)).is_none());
    assert!(w.tables.task(task_id(1)).is_none(), "the committed tables know nothing of it");
}

#[test]
fn a_crash_loop_leaves_room_for_what_matters() {
    let mut w = World::furnished();
    let decide = |rule: Rule, task: Option<u32>, text: &str| Change::Decide {
        service: service_id(1),
        rule,
        task: task.map(task_id),
        text: text.into(),
    };
    for slot in 0..12 {
        w.must(vec![create_task(slot + 1, 1, slot, 1)]);
    }
    for n in 0..7 {
        w.must(vec![decide(Rule::Update, None, &format!("update {n}"))]);
    }
    for n in 0..214 {
        w.must(vec![decide(Rule::Replace, Some(1), &format!("failed {n}"))]);
        w.must(vec![decide(Rule::Placed, Some(1), &format!("placed on node-{}", n % 3))]);
        w.must(vec![decide(Rule::Placed, None, "2 tasks placed on 2 nodes")]);
    }
    let told = |w: &World| -> Vec<(String, u32)> {
        w.tables.decisions(service_id(1)).map(|d| (d.text.to_string(), d.times)).collect()
    };
    let all = told(&w);
    assert_eq!(all[..7], (0..7).map(|n| (format!("update {n}"), 1)).collect::<Vec<_>>());
    let loops = [("failed 213", 214), ("placed on node-0", 214), ("2 tasks placed on 2 nodes", 214)];
    assert_eq!(all[7..], loops.map(|(text, n)| (text.to_owned(), n)));
    let placed = w.tables.decisions(service_id(1)).find(|d| d.task.is_some()).expect("kept");
    assert_eq!(placed.slot, Some(Slot::Number(0)));

    // Many slots fail: they push out each other, and nothing else.
    for n in 0..48 {
        w.must(vec![decide(Rule::Replace, Some(n % 12 + 1), "it failed")]);
    }
    let all = told(&w);
    assert_eq!(all.len(), 7 + limits::ROUTINE_DECISIONS_KEPT);
    assert_eq!(all[6].0, "update 6");
    // What is not routine may have all the room there is.
    for n in 7..30 {
        w.must(vec![decide(Rule::ScaleUp, None, &format!("update {n}"))]);
    }
    assert_eq!(told(&w).len(), limits::DECISIONS_KEPT);
    assert!(told(&w).iter().all(|(text, _)| text.starts_with("update")));
}

/// An update begins with another revision, and goes one way.
#[test]
fn an_update_goes_one_way() {
    let mut w = World::furnished();
    let move_to = |state| Change::MoveUpdate { service: service_id(1), state, message: "m".into() };
    let roll_back =
        |automatic| Change::RollBack { service: service_id(1), automatic, message: "because".into() };
    let status = |w: &World| w.tables.service(service_id(1)).expect("it is there").update_status.clone();
    w.try_apply(vec![move_to(UpdateState::Completed)]).unwrap_err();
    w.try_apply(vec![roll_back(false)]).unwrap_err();

    let mut updated = service(1, "web", 21);
    updated.previous = Some(revision_id(1));
    // Whatever it says, it is the store that keeps the state.
    updated.update_status = Some(UpdateStatus {
        state: UpdateState::Completed,
        began: 77,
        started_at: Time(7),
        completed_at: Time(8),
        automatic: true,
        since: Time(9),
        canary: 5,
        unproven: None,
        newest: 99,
        message: "forged".into(),
    });
    w.must(vec![
        Change::CreateRevision(revision(21, 1, reserve(0, 0))),
        Change::UpdateService(Box::new(updated.clone())),
    ]);
    let began = status(&w).expect("it began");
    assert_eq!(
        (began.state, began.automatic, began.completed_at),
        (UpdateState::Updating, false, Time::ZERO)
    );
    assert_eq!(began.began, w.tables.index());
    updated.mode = model::Mode::Replicated { replicas: 9 };
    w.must(vec![Change::UpdateService(Box::new(updated))]);
    assert_eq!(status(&w), Some(began.clone()), "the same revision goes on");

    for state in [UpdateState::Updating, UpdateState::RollbackCompleted, UpdateState::RollbackPaused] {
        w.try_apply(vec![move_to(state)]).unwrap_err();
    }
    w.must(vec![move_to(UpdateState::Paused)]);
    w.try_apply(vec![move_to(UpdateState::Completed)]).unwrap_err();
    w.try_apply(vec![roll_back(true)]).unwrap_err();
    w.must(vec![roll_back(false)]);
    let back = w.tables.service(service_id(1)).expect("it is there").clone();
    assert_eq!((back.revision, back.previous), (revision_id(1), Some(revision_id(21))));
    w.must(vec![move_to(UpdateState::RollbackCompleted)]);
    let done = status(&w).expect("it is kept");
    assert!(done.completed_at > Time::ZERO && done.began > began.began && !done.automatic);
}

/// Canaries are those that the policy had when the revision began; only a promotion or a rollback ends them.
#[test]
fn canaries_are_promoted_or_aborted() {
    let mut w = World::furnished();
    let move_to = |state| Change::MoveUpdate { service: service_id(1), state, message: "m".into() };
    let promote = || Change::Promote { service: service_id(1), message: "as asked".into() };
    let roll_back =
        |automatic| Change::RollBack { service: service_id(1), automatic, message: "because".into() };
    let now = |w: &World| w.tables.service(service_id(1)).expect("it is there").clone();
    let status = |w: &World| now(w).update_status.clone().expect("an update");
    w.try_apply(vec![promote()]).unwrap_err();
    let update = |w: &mut World, n: u32, canary: u32| {
        let mut new = (*now(w)).clone();
        new.mode = model::Mode::Replicated { replicas: 3 };
        new.update.canary = canary;
        new.revise(revision_id(n));
        w.must(vec![
            Change::CreateRevision(revision(n, 1, reserve(0, 0))),
            Change::UpdateService(Box::new(new)),
        ]);
    };
    update(&mut w, 21, 2);
    assert_eq!((status(&w).canary, now(&w).canaries()), (2, 2));
    let mut other = (*now(&w)).clone();
    other.update.canary = 0;
    w.must(vec![Change::UpdateService(Box::new(other))]);
    assert_eq!(status(&w).canary, 2, "the update keeps what it began with");
    w.must(vec![move_to(UpdateState::Canary)]);
    w.try_apply(vec![move_to(UpdateState::Completed)]).unwrap_err();
    let began = status(&w).began;
    w.must(vec![promote()]);
    let promoted = status(&w);
    assert_eq!((promoted.state, promoted.canary), (UpdateState::Updating, 0));
    assert!(promoted.began > began && promoted.unproven == Some(revision_id(21)), "{promoted:?}");
    w.try_apply(vec![promote()]).unwrap_err();
    w.try_apply(vec![move_to(UpdateState::Canary)]).unwrap_err();
    w.must(vec![move_to(UpdateState::Completed)]);
    assert_eq!(status(&w).unproven, None);

    // From the pause that follows a deadline they can still be promoted; a rollback aborts them.
    update(&mut w, 22, 1);
    w.must(vec![move_to(UpdateState::Canary), move_to(UpdateState::Paused)]);
    assert!(now(&w).tries_canaries());
    w.must(vec![roll_back(false)]);
    assert!(now(&w).is_aborted() && now(&w).canaries() == 0);
    assert_eq!(now(&w).revision, revision_id(21));
    // Back to what came through needs no canaries, and a rollback never has any.
    update(&mut w, 23, 2);
    let mut back = (*now(&w)).clone();
    back.update.canary = 2;
    back.revise(revision_id(21));
    w.must(vec![Change::UpdateService(Box::new(back))]);
    assert_eq!((status(&w).canary, status(&w).unproven), (0, Some(revision_id(23))));
    update(&mut w, 24, 2);
    assert_eq!(now(&w).previous, Some(revision_id(21)), "what last came through");
    w.must(vec![move_to(UpdateState::Canary), roll_back(true)]);
    assert!(now(&w).is_aborted() && status(&w).automatic);
}

/// A set that makes a task and removes its service and its node, and is refused after that: for a moment neither seems to be
/// known any more.
#[test]
fn what_is_refused_leaves_the_indexes_and_decisions_of_services_and_nodes() {
    let mut w = World::furnished();
    let decide =
        Change::Decide { service: service_id(1), rule: Rule::ScaleUp, task: None, text: "because".into() };
    w.must(vec![create_task(1, 1, 0, 1), assign(1, 1), decide]);
    w.must(vec![end(1, TaskState::Orphaned), Change::DeleteTask(task_id(1))]);
    let facts = |tables: &Tables| {
        let (service, node) = (service_id(1), node_id(1));
        let decisions = tables.decisions(service).count();
        (tables.service_index(service), tables.node_tasks_index(node), decisions)
    };
    let before = facts(&w.tables);
    assert!(before.0 > 0 && before.1 > 0 && before.2 == 1, "{before:?}");
    let labels = Labels::from([("zone".into(), "east".into())]);
    let set = vec![
        Change::UpdateService(Box::new(Service { labels: labels.clone(), ..service(1, "web", 1) })),
        Change::SetNode {
            node: node_id(1),
            role: Role::Worker,
            availability: Availability::Active,
            drain_until: None,
            labels,
        },
        create_task(2, 1, 0, 1),
        assign(2, 1),
        Change::DeleteService(service_id(1)),
        Change::DeleteNode(node_id(1)),
        Change::DeleteNode(node_id(9)),
    ];
    w.try_apply(set).expect_err("there is no such node");
    assert_eq!(facts(&w.tables), before);
}

#[test]
fn a_task_that_was_made_anew_by_what_is_refused_is_the_old_one_again() {
    let mut w = World::furnished();
    w.must(vec![create_task(1, 1, 0, 1)]);
    let before = w.tables.clone();
    let set = vec![Change::DeleteTask(task_id(1)), create_task(1, 1, 1, 1), Change::DeleteTask(task_id(9))];
    w.try_apply(set).expect_err("there is no such task");
    assert_eq!(w.tables.service_use(service_id(1)), before.service_use(service_id(1)));
    let of_slot = |n| World::numbers(w.tables.tasks_of_slot(service_id(1), Slot::Number(n)));
    assert_eq!((of_slot(0), of_slot(1)), (vec![1], vec![]));
    assert_eq!(World::numbers(w.tables.tasks_waiting()), [1]);
}

#[test]
fn a_task_made_anew_elsewhere_is_seen_where_it_was() {
    let mut w = World::furnished();
    let make = Change::CreateRevision(revision(2, 2, reserve(1, 1)));
    w.must(vec![make, Change::CreateService(Box::new(service(2, "db", 2)))]);
    w.must(vec![create_task(1, 1, 0, 1), assign(1, 1)]);
    let anew = create_task(1, 2, 0, 2);
    w.must(vec![end(1, TaskState::Orphaned), Change::DeleteTask(task_id(1)), anew]);
    let now = w.tables.index();
    assert_eq!([1, 2].map(|n| w.tables.service_index(service_id(n))), [now; 2]);
    assert_eq!(w.tables.node_tasks_index(node_id(1)), now);
}

#[test]
fn named_resources_are_held_once_and_as_many_as_are_reserved() {
    let one = |value: &str| NamedResource { kind: "gpu".into(), value: value.into() };
    let mut w = World::furnished();
    let described = |cards: &[&str]| {
        let mut description = Description { resources: reserve(1_000, 1_000), ..Description::default() };
        description.resources.generic.insert("gpu".into(), cards.len() as i64);
        description.named.insert("gpu".into(), cards.iter().map(|card| (*card).into()).collect());
        Change::DescribeNode { node: node_id(1), description: Arc::new(description) }
    };
    w.must(vec![described(&["a", "b", "c"])]);
    let mut two = reserve(1, 1);
    two.generic.insert("gpu".into(), 2);
    let mut cards = service(7, "cards", 7);
    cards.revision = revision_id(7);
    w.must(vec![Change::CreateRevision(revision(7, 7, two)), Change::CreateService(Box::new(cards))]);
    w.must(vec![create_task(71, 7, 0, 7), create_task(72, 7, 1, 7)]);
    let give = |task: u32, cards: &[&str]| Change::AssignTask {
        task: task_id(task),
        node: node_id(1),
        ports: Box::default(),
        named: cards.iter().map(|card| one(card)).collect(),
    };
    for (cards, problem) in [
        (&["a"][..], "it reserves 2 gpu and is given 1"),
        (&["a", "b", "c"], "it reserves 2 gpu and is given 3"),
        (&["a", "a"], "gpu a is given twice"),
        (&["a", "d"], "has no gpu d"),
    ] {
        let said = w.try_apply(vec![give(71, cards)]).expect_err(problem).to_string();
        assert!(said.contains(problem), "{said}");
    }
    w.must(vec![give(71, &["a", "c"])]);
    let holders: Vec<String> =
        w.tables.node_use(node_id(1)).named().map(|(one, _)| one.value.to_string()).collect();
    assert_eq!(holders, ["a", "c"]);
    w.must(vec![described(&["a", "b", "c", "d"])]);
    let said = w.try_apply(vec![give(72, &["b", "c"])]).expect_err("c is held").to_string();
    assert!(said.contains(&format!("is held by task {}", task_id(71))), "{said}");
    w.must(vec![give(72, &["b", "d"]), report(71, 1, TaskState::Failed)]);
    assert_eq!(w.tables.node_use(node_id(1)).holder_of(&one("a")), None, "given back with the end");
    assert_eq!(w.task(71).named.len(), 2, "which it had is still known");
}

/// Whatever was thought when it was decided, what runs makes no room for others where it has to run.
#[test]
fn room_is_made_within_the_budget() {
    let mut w = World::furnished();
    let mut web = Service::clone(w.tables.service(service_id(1)).expect("it is there"));
    web.disruption.min_healthy = model::Amount::Count(1);
    w.must(vec![Change::UpdateService(Box::new(web))]);
    for n in 1..=3 {
        w.must(vec![create_task(n, 1, n - 1, 1), assign(n, 1)]);
    }
    w.must(vec![report(1, 1, TaskState::Running), report(2, 1, TaskState::Running)]);
    let preempt = |n: u32| Change::PreemptTask { task: task_id(n), reason: "ended to make room".into() };
    let said = w.try_apply(vec![preempt(1), preempt(2)]).expect_err("none would run").to_string();
    assert!(said.contains("1 tasks of its service run, and 1 have to"), "{said}");
    assert_eq!(w.task(1).desired, Desired::Running, "all of them or none");
    w.must(vec![preempt(1), preempt(3)]);
    assert_eq!(w.task(1).dismissed.as_deref(), Some("ended to make room"));
    assert_eq!(w.task(3).desired, Desired::Shutdown, "what does not run is no loss");
    w.must(vec![preempt(1)]);
}

#[test]
fn a_task_is_dismissed_once_and_says_why() {
    let mut w = World::furnished();
    w.must(vec![create_task(1, 1, 0, 1), assign(1, 1)]);
    let dismiss = |reason: &str| Change::DismissTask { task: task_id(1), reason: reason.into() };
    let index = w.tables.index();
    w.must(vec![dismiss("too small")]);
    assert_eq!((w.task(1).desired, w.task(1).dismissed.as_deref()), (Desired::Shutdown, Some("too small")));
    assert!(w.task(1).directed > index);
    w.must(vec![dismiss("another reason")]);
    assert_eq!(w.task(1).dismissed.as_deref(), Some("too small"));
    let said = w.try_apply(vec![Change::DismissTask { task: task_id(99), reason: "".into() }]);
    assert_eq!(said.err(), Some(Refused::Missing(ObjectId::Task(task_id(99)))));
}

#[test]
fn a_batch_service_has_so_many_slots_in_progress() {
    let mut w = World::new();
    let mut batch = service(1, "sums", 1);
    batch.mode = model::Mode::Batch { completions: 4, concurrency: 2 };
    let make = Change::CreateRevision(revision(1, 1, reserve(1, 1)));
    w.must(vec![Change::CreateNode(node(1)), make, Change::CreateService(Box::new(batch))]);
    w.must(vec![create_task(1, 1, 0, 1), create_task(2, 1, 1, 1), assign(1, 1), assign(2, 1)]);
    let says = |w: &mut World, changes: Vec<Change>| match w.try_apply(changes) {
        Ok(_) => "accepted".to_owned(),
        Err(refused) => refused.to_string(),
    };
    let full = |n| format!("Task({}): 2 slots are in progress, as many as may be at once", task_id(n));
    assert_eq!(says(&mut w, vec![create_task(3, 1, 2, 1)]), full(3));
    // One that has ended and of which nobody has decided keeps its place, and only its own slot may have it.
    w.must(vec![report(1, 1, TaskState::Failed)]);
    assert_eq!(says(&mut w, vec![create_task(3, 1, 2, 1)]), full(3));
    w.must(vec![create_task(3, 1, 0, 1), direct(1, Desired::Shutdown), assign(3, 1)]);
    // What is done makes room, and runs no more.
    w.must(vec![report(3, 1, TaskState::Complete), create_task(4, 1, 2, 1)]);
    let done = format!("Task({}): slot 1 is done", task_id(5));
    assert_eq!(says(&mut w, vec![create_task(5, 1, 0, 1)]), done);
    let back = Change::RollBack { service: service_id(1), automatic: false, message: "x".into() };
    let never = format!("Service({}): a batch service is not rolled back", service_id(1));
    assert_eq!(says(&mut w, vec![back]), never);
    // Another revision is no update, and has its own account.
    let mut next = service(1, "sums", 2);
    next.mode = model::Mode::Batch { completions: 4, concurrency: 3 };
    w.must(vec![
        Change::CreateRevision(revision(2, 1, reserve(1, 1))),
        Change::UpdateService(Box::new(next)),
        create_task(6, 1, 0, 2),
    ]);
    assert_eq!(w.tables.service(service_id(1)).and_then(|s| s.update_status.clone()), None);
}
