//! Sessions, heartbeats, reports and the stream of assignments, seen from an agent's side.

use std::sync::Arc;

use manager::{Effect, Input, Manager, Step};
use model::sync::{AssignmentChange, Assignments, AssignmentsKind, TaskReport, ToAgent, ToManager};
use model::{
    Availability, Cluster, ClusterId, Description, DriverInfo, DriverKind, Id, Labels, Meta, Mode,
    NamespaceId, Node, NodeId, NodeState, NodeStatus, ProgramSpec, Revision, RevisionId, Role, Service,
    ServiceId, SessionId, Span, TaskSpec, TaskState, Time, UpdatePolicy,
};
use store::{Change, ChangeSet, Entry, FEATURE_LEVEL, Tables};

const NODE: NodeId = NodeId::from_u128(1);
const SERVICE: ServiceId = ServiceId::from_u128(9);

/// A manager that leads, over a log that commits at once.
struct Plane {
    manager: Manager,
    tables: Tables,
    now: Time,
    /// What has really passed.
    steady: Time,
    ids: u128,
    sent: Vec<(u64, ToAgent)>,
    notes: Vec<String>,
}

impl Plane {
    fn new() -> Self {
        let mut plane = Self {
            manager: Manager::new(),
            tables: Tables::new(),
            now: Time(1_000_000_000),
            steady: Time(0),
            ids: 1000,
            sent: Vec::new(),
            notes: Vec::new(),
        };
        let first = vec![
            Change::PutCluster(Cluster::new(ClusterId::from_u128(1), "default")),
            Change::CreateNode(node()),
        ];
        plane.apply(Vec::new(), vec![ChangeSet::of(first)]);
        let tables = Arc::new(plane.tables.clone());
        plane.input(Input::Lead(tables));
        plane
    }

    /// Applies change sets as one entry and tells the manager, until nothing more is proposed.
    fn apply(&mut self, tickets: Vec<u64>, sets: Vec<ChangeSet>) {
        let entry = Entry { feature_level: FEATURE_LEVEL, time: self.now, sets };
        let applied = self.tables.apply(self.tables.index() + 1, &entry);
        let outcomes = tickets.into_iter().zip(applied.results).collect();
        let tables = Arc::new(self.tables.clone());
        self.input(Input::Applied { tables, events: applied.events, outcomes });
    }

    fn input(&mut self, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let (mut tickets, mut sets) = (Vec::new(), Vec::new());
            let ids = &mut self.ids;
            let mut new_id = || {
                *ids += 1;
                Id::from_u128(*ids)
            };
            let mut step = Step { now: self.now, steady: self.steady, new_id: &mut new_id };
            for effect in self.manager.step(input, &mut step) {
                match effect {
                    Effect::Send(conn, message) => self.sent.push((conn, message)),
                    Effect::Note(text) => self.notes.push(text),
                    Effect::Propose(ticket, set) => {
                        tickets.push(ticket);
                        sets.push(set);
                    }
                }
            }
            if !sets.is_empty() {
                self.apply(tickets, sets);
            } else if self.manager.has_work() {
                next = Some(Input::Tick);
            }
        }
    }

    fn say(&mut self, conn: u64, message: ToManager) -> Vec<(u64, ToAgent)> {
        self.sent.clear();
        self.input(Input::Agent { node: NODE, conn, address: "10.0.0.1".into(), message });
        std::mem::take(&mut self.sent)
    }

    /// Registers on a connection; the session and the complete set.
    fn register(&mut self, conn: u64) -> (SessionId, Assignments) {
        let sent =
            self.say(conn, ToManager::Register { session: None, description: Arc::new(description()) });
        let mut session = None;
        let mut complete = None;
        for (to, message) in sent {
            match message {
                ToAgent::Registered { session: id, node, .. } => {
                    assert_eq!((to, &*node), (conn, NODE.to_string().as_str()));
                    session = Some(id);
                }
                ToAgent::Assignments(assignments) => {
                    assert!(session.is_some(), "the session comes before its assignments");
                    complete = Some(assignments);
                }
                _ => {}
            }
        }
        (session.expect("registered"), complete.expect("a complete set"))
    }

    fn scale(&mut self, replicas: u32) -> Vec<Assignments> {
        self.sent.clear();
        let set = match self.tables.service(SERVICE) {
            None => service(replicas),
            Some(service) => {
                let mut service = Service::clone(service);
                service.mode = Mode::Replicated { replicas };
                ChangeSet::of(vec![Change::UpdateService(Box::new(service))])
            }
        };
        self.apply(Vec::new(), vec![set]);
        assignments(&self.sent)
    }

    fn pass(&mut self, span: Span) {
        self.sent.clear();
        self.now = self.now + span;
        self.steady = self.steady + span;
        self.input(Input::Tick);
    }

    fn state(&self) -> NodeState {
        self.tables.node(NODE).expect("it is a member").status.state
    }
}

fn assignments(sent: &[(u64, ToAgent)]) -> Vec<Assignments> {
    let only = |(_, m): &(u64, ToAgent)| match m {
        ToAgent::Assignments(a) => Some(a.clone()),
        _ => None,
    };
    sent.iter().filter_map(only).collect()
}

fn ended(sent: &[(u64, ToAgent)], conn: u64) -> bool {
    sent.iter().any(|(to, m)| *to == conn && matches!(m, ToAgent::SessionEnded { .. }))
}

fn updates(assignments: &Assignments) -> Vec<Arc<str>> {
    let only = |c: &AssignmentChange| match c {
        AssignmentChange::Update(a) => Some(Arc::clone(&a.task)),
        AssignmentChange::Remove(_) => None,
    };
    assignments.changes.iter().filter_map(only).collect()
}

fn description() -> Description {
    let driver = DriverInfo { name: "mock".into(), healthy: true, notes: Vec::new() };
    Description { hostname: "alpha".into(), drivers: vec![driver], ..Description::default() }
}

fn node() -> Node {
    Node {
        id: NODE,
        meta: Meta::default(),
        role: Role::Worker,
        availability: Availability::Active,
        drain_until: None,
        labels: Labels::new(),
        description: Arc::new(Description::default()),
        status: NodeStatus::default(),
    }
}

fn service(replicas: u32) -> ChangeSet {
    let programs = vec![ProgramSpec::new(DriverKind::Mock, Vec::new())];
    let revision = Revision {
        id: RevisionId::from_u128(9),
        service: SERVICE,
        number: 1,
        created_at: Time::ZERO,
        created: 0,
        task: Arc::new(TaskSpec { programs, ..TaskSpec::default() }),
    };
    let service = Service {
        id: SERVICE,
        meta: Meta::default(),
        namespace: NamespaceId::DEFAULT,
        job: None,
        name: "web".into(),
        labels: Labels::new(),
        mode: Mode::Replicated { replicas },
        update: UpdatePolicy::default(),
        rollback: UpdatePolicy::default(),
        revision: revision.id,
        previous: None,
        update_status: None,
        priority: 50,
        steering: Default::default(),
        disruption: Default::default(),
    };
    ChangeSet::of(vec![Change::CreateRevision(revision), Change::CreateService(Box::new(service))])
}

fn report(session: SessionId, number: u64, task: &Arc<str>, state: TaskState) -> ToManager {
    let report =
        TaskReport { task: Arc::clone(task), state, at: Time(5), message: None, programs: Vec::new() };
    ToManager::Report { session, number, tasks: vec![report] }
}

#[test]
fn a_registered_node_is_ready_and_described() {
    let mut plane = Plane::new();
    assert_eq!(plane.state(), NodeState::Unknown);
    let (_, complete) = plane.register(1);
    assert_eq!((complete.kind, complete.applies_to, complete.results_in), (AssignmentsKind::Complete, 0, 1));
    assert!(complete.changes.is_empty(), "an empty set tells the agent to drop what it has");
    assert_eq!(plane.state(), NodeState::Ready);
    let known = plane.tables.node(NODE).expect("a member");
    assert_eq!((&*known.description.hostname, &*known.status.address), ("alpha", "10.0.0.1"));
}

#[test]
fn a_stranger_is_refused() {
    let mut plane = Plane::new();
    plane.sent.clear();
    let message = ToManager::Register { session: None, description: Arc::new(description()) };
    plane.input(Input::Agent { node: NodeId::from_u128(77), conn: 5, address: "".into(), message });
    assert!(ended(&plane.sent, 5));
    assert!(plane.tables.node(NodeId::from_u128(77)).is_none());
}

#[test]
fn differences_are_numbered_and_wait_for_each_other() {
    let mut plane = Plane::new();
    let (session, _) = plane.register(1);
    assert!(plane.scale(2).is_empty(), "the complete set is not acknowledged yet");
    let first = assignments(&plane.say(1, ToManager::Applied { session, number: 1 }));
    assert_eq!(first.len(), 1);
    assert_eq!(
        (first[0].kind, first[0].applies_to, first[0].results_in),
        (AssignmentsKind::Incremental, 1, 2)
    );
    assert_eq!(updates(&first[0]).len(), 2);
    assert!(plane.scale(3).is_empty() && plane.scale(5).is_empty(), "one message at a time");
    let second = assignments(&plane.say(1, ToManager::Applied { session, number: 2 }));
    assert_eq!(updates(&second[0]).len(), 3, "what happened meanwhile comes as one difference");
    assert_eq!((second[0].applies_to, second[0].results_in), (2, 3));
    assert!(plane.say(1, ToManager::Applied { session, number: 3 }).is_empty(), "nothing is sent twice");
}

#[test]
fn a_report_is_acknowledged_once_it_is_applied_and_is_not_echoed() {
    let mut plane = Plane::new();
    let (session, _) = plane.register(1);
    plane.scale(1);
    let task = updates(&assignments(&plane.say(1, ToManager::Applied { session, number: 1 }))[0])[0].clone();
    plane.say(1, ToManager::Applied { session, number: 2 });
    let sent = plane.say(1, report(session, 7, &task, TaskState::Running));
    assert!(sent.iter().any(|(_, m)| matches!(m, ToAgent::Reported { number: 7 })));
    assert!(assignments(&sent).is_empty(), "a status is not sent back to who reported it");
    let id = task.parse().expect("an id");
    assert_eq!(plane.tables.task(id).expect("it is there").status.state, TaskState::Running);
    // A report that comes late changes nothing, and is acknowledged all the same.
    let sent = plane.say(1, report(session, 8, &task, TaskState::Starting));
    assert!(sent.iter().any(|(_, m)| matches!(m, ToAgent::Reported { number: 8 })));
    assert_eq!(plane.tables.task(id).expect("it is there").status.state, TaskState::Running);
    // So is one about a task that nobody knows.
    let sent = plane.say(1, report(session, 9, &"nonsense".into(), TaskState::Failed));
    assert!(sent.iter().any(|(_, m)| matches!(m, ToAgent::Reported { number: 9 })));
}

#[test]
fn a_removed_task_is_told_by_its_id_alone() {
    let mut plane = Plane::new();
    let (session, _) = plane.register(1);
    plane.scale(1);
    let task = updates(&assignments(&plane.say(1, ToManager::Applied { session, number: 1 }))[0])[0].clone();
    plane.say(1, ToManager::Applied { session, number: 2 });
    plane.say(1, report(session, 1, &task, TaskState::Running));
    let stop = plane.scale(0);
    assert_eq!(updates(&stop[0]), vec![Arc::clone(&task)], "first it is told to end");
    plane.say(1, ToManager::Applied { session, number: 3 });
    let sent = plane.say(1, report(session, 2, &task, TaskState::Shutdown));
    assert_eq!(assignments(&sent)[0].changes, vec![AssignmentChange::Remove(task)]);
    assert_eq!(plane.tables.tasks().count(), 0);
}

#[test]
fn a_newer_registration_displaces_the_session() {
    let mut plane = Plane::new();
    let (old, _) = plane.register(1);
    plane.scale(2);
    let sent = plane.say(2, ToManager::Register { session: None, description: Arc::new(description()) });
    assert!(ended(&sent, 1), "the old connection is told");
    let complete = assignments(&sent);
    assert_eq!((complete[0].kind, updates(&complete[0]).len()), (AssignmentsKind::Complete, 2));
    assert!(ended(&plane.say(1, ToManager::Heartbeat { session: old }), 1), "the old session is refused");
    assert!(ended(&plane.say(2, ToManager::Heartbeat { session: old }), 2), "on any connection");
    assert_eq!(plane.state(), NodeState::Ready);
}

#[test]
fn a_silent_node_is_down_after_three_periods_and_comes_back() {
    let mut plane = Plane::new();
    let (session, _) = plane.register(1);
    let period = plane.tables.cluster().expect("there is one").heartbeat;
    for _ in 0..4 {
        plane.pass(period);
        let sent = plane.say(1, ToManager::Heartbeat { session });
        assert!(sent.iter().any(|(_, m)| matches!(m, ToAgent::Heartbeat { period: p } if *p == period)));
    }
    plane.pass(Span(period.0 * 3 - 1));
    assert_eq!(plane.state(), NodeState::Ready);
    plane.pass(Span(2));
    assert_eq!(plane.state(), NodeState::Down);
    assert!(ended(&plane.sent, 1));
    let message = &plane.tables.node(NODE).expect("a member").status.message;
    assert_eq!(&**message, "heartbeat failure");
    plane.register(2);
    assert_eq!(plane.state(), NodeState::Ready);
}

#[test]
fn a_clock_that_is_set_makes_nobody_silent() {
    let mut plane = Plane::new();
    let (session, _) = plane.register(1);
    plane.now = plane.now + Span::from_secs(7200);
    plane.pass(Span::from_secs(1));
    assert_eq!(plane.state(), NodeState::Ready);
    plane.say(1, ToManager::Heartbeat { session });
    plane.pass(Span::from_secs(14));
    assert_eq!(plane.state(), NodeState::Ready);
    let wake = plane.manager.next_wake().expect("it waits for the next heartbeat");
    assert_eq!(wake, plane.now + Span::from_secs(1), "by the log's clock");
    // Set back, it gives no more patience.
    plane.now = plane.now - Span::from_secs(7200);
    plane.pass(Span::from_secs(2));
    assert_eq!(plane.state(), NodeState::Down);
}

#[test]
fn time_in_which_the_manager_did_not_run_is_no_silence() {
    let mut plane = Plane::new();
    let (session, _) = plane.register(1);
    plane.pass(Span::from_secs(1));
    // Stopped for long, and back: what the agent said meanwhile is still to be read.
    (plane.now, plane.steady) = (plane.now + Span::from_secs(18), plane.steady + Span::from_secs(18));
    plane.input(Input::Stalled(Span::from_secs(18)));
    plane.pass(Span::from_secs(13));
    assert_eq!(plane.state(), NodeState::Ready);
    plane.say(1, ToManager::Heartbeat { session });
    plane.pass(Span::from_secs(14));
    assert_eq!(plane.state(), NodeState::Ready);
    plane.pass(Span::from_secs(2));
    assert_eq!(plane.state(), NodeState::Down, "and then it is silent");
}

#[test]
fn a_new_leader_waits_for_the_nodes_that_were_there() {
    let mut plane = Plane::new();
    plane.register(1);
    let period = plane.tables.cluster().expect("there is one").heartbeat;
    plane.manager = Manager::new();
    let tables = Arc::new(plane.tables.clone());
    plane.input(Input::Lead(tables));
    plane.pass(Span(period.0 * 6 - 1));
    assert_eq!(plane.state(), NodeState::Ready, "it may still come");
    plane.pass(Span(1));
    assert_eq!(plane.state(), NodeState::Down);
}

#[test]
fn a_follower_says_nothing_and_proposes_nothing() {
    let mut plane = Plane::new();
    plane.register(1);
    plane.input(Input::Follow);
    plane.sent.clear();
    assert!(!plane.manager.leads() && plane.manager.next_wake().is_none());
    assert!(plane.scale(3).is_empty());
    assert_eq!(plane.tables.tasks().count(), 0);
}

#[test]
fn a_report_that_no_agent_may_make_does_not_take_others_with_it() {
    let mut plane = Plane::new();
    let (session, _) = plane.register(1);
    plane.scale(2);
    let tasks = updates(&assignments(&plane.say(1, ToManager::Applied { session, number: 1 }))[0]);
    plane.say(1, ToManager::Applied { session, number: 2 });
    let state = |plane: &Plane, task: &Arc<str>| {
        plane.tables.task(task.parse().expect("an id")).expect("it is there").status.state
    };
    let (bad, good) = (&tasks[0], &tasks[1]);
    let mut number = 0;
    for wrong in [TaskState::Pending, TaskState::Orphaned, TaskState::Remove, TaskState::New] {
        for reported in [TaskState::Preparing, TaskState::Running] {
            number += 1;
            let both = [(bad, wrong), (good, reported)].map(|(task, state)| TaskReport {
                task: Arc::clone(task),
                state,
                at: Time(5),
                message: None,
                programs: Vec::new(),
            });
            let sent = plane.say(1, ToManager::Report { session, number, tasks: both.to_vec() });
            let told = sent.iter().any(|(_, m)| matches!(m, ToAgent::Reported { number: n } if *n == number));
            assert!(told, "{wrong}: {sent:?}");
            // The second time round the good one is late, and nothing is written.
            assert!(state(&plane, good) >= reported, "{wrong}");
            assert_eq!(state(&plane, bad), TaskState::Assigned, "{wrong}");
        }
    }
    let index = plane.tables.index();
    plane.say(1, report(session, 99, good, TaskState::Starting));
    assert_eq!(plane.tables.index(), index, "what would set a task back is not even written");
    let passed_over = plane.manager.passed_over();
    assert_eq!((passed_over.wrong, passed_over.late), (8, 4));
    assert_eq!(plane.notes.len(), 1, "it is noted once: {:?}", plane.notes);
    assert!(plane.notes[0].contains("as pending, which no agent may"), "{:?}", plane.notes);
}
