//! The sessions of agents: registration, heartbeats, reports, and the numbered stream of assignments.
//!
//! Pull-based: what a session must be sent is the difference between what it was last sent and the tables, computed when it can
//! take more. There is no queue for each session. At most one message of assignments is unacknowledged. Silence is counted by
//! a clock that nobody sets: all moments here are by that one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::sync::{Assignments, AssignmentsKind, TaskReport, ToAgent, ToManager};
use model::{
    Description, Id, Node, NodeId, NodeState, NodeStatus, Owner, SessionId, Span, TaskId, TaskState, Time,
    limits,
};
use store::{Change, ChangeSet, Tables};

use crate::assignments::{self, Sent};

/// A connection of an agent, numbered by the edge.
pub type ConnId = u64;

/// How many missed periods mean that an agent is gone (SwarmKit's grace multiplier).
const GRACE: i64 = 3;

/// How many periods a node that was ready under the leader before has to register again (SwarmKit's multiplier for
/// unknown nodes).
const GRACE_AFTER_CHANGE: i64 = 6;

/// How long after it could not be written that a node is gone it is tried again.
const DOWN_AGAIN: Span = Span::from_secs(1);

/// Most task reports in one message of an agent; more is refused by ending the session.
const REPORTS: usize = 10_000;

/// Something the dispatcher wants done.
pub enum Act {
    /// Send this.
    Send(ConnId, ToAgent),
    /// Put this through the log; [`Dispatcher::applied`] is told when it is.
    Propose(ChangeSet, Pending),
    /// Tell this to whoever operates the cluster.
    Note(String),
}

/// What waits for a change set of the dispatcher.
#[derive(Clone, Copy, Debug)]
pub enum Pending {
    /// An agent's registration.
    Registration(SessionId),
    /// A report, to be acknowledged by its number.
    Report(SessionId, u64),
    /// What an agent with a session says of its machine.
    Description(SessionId),
    /// That a node is gone.
    Down(NodeId),
}

/// Reports about single tasks that were passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// They would have set back a task: they came late.
    pub late: u64,
    /// They say what no agent may say of a task.
    pub wrong: u64,
}

struct Session {
    node: NodeId,
    conn: ConnId,
    /// When the agent is taken for gone.
    due: Time,
    /// True once the registration is on disk.
    open: bool,
    sent: Sent,
    /// The number of the newest message of assignments.
    number: u64,
    /// True while that message is not acknowledged.
    unacknowledged: bool,
}

/// The sessions of all agents.
#[derive(Default)]
pub struct Dispatcher {
    sessions: BTreeMap<SessionId, Session>,
    of_node: BTreeMap<NodeId, SessionId>,
    due: BTreeSet<(Time, SessionId)>,
    /// Nodes that were ready under the leader before and have not registered with this one, until when.
    awaited: BTreeMap<NodeId, Time>,
    /// Nodes whose tasks the control plane changed since their agent was last looked at.
    stale: BTreeSet<NodeId>,
    /// How many reports were passed over because they would set back a task.
    late: u64,
    /// How many were passed over because no agent may say what they say.
    wrong: u64,
    /// Nodes of which that has been noted.
    noted: BTreeSet<NodeId>,
    acts: Vec<Act>,
}

impl Dispatcher {
    /// A dispatcher for a new leader: every node that is not down is awaited for a while.
    pub fn lead(tables: &Tables, steady: Time) -> Self {
        let grace = Span(heartbeat(tables).0.saturating_mul(GRACE_AFTER_CHANGE));
        let present = tables.nodes().filter(|n| n.status.state != NodeState::Down);
        let awaited = present.map(|n| (n.id, steady + grace)).collect();
        Self { awaited, ..Self::default() }
    }

    /// What the dispatcher wants done since it was last asked.
    pub fn take_acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }

    /// How many agents have an open session.
    pub fn open_sessions(&self) -> usize {
        self.sessions.values().filter(|s| s.open).count()
    }

    /// How many reports about single tasks were passed over under this leader.
    pub fn passed_over(&self) -> PassedOver {
        PassedOver { late: self.late, wrong: self.wrong }
    }

    /// A message of the agent of `node`, whose identity the edge has checked.
    pub fn receive(
        &mut self,
        tables: &Tables,
        steady: Time,
        from: From,
        message: ToManager,
        new_id: &mut dyn FnMut() -> Id,
    ) {
        match message {
            ToManager::Register { session, description } => {
                self.register(tables, steady, &from, session, description, new_id);
            }
            ToManager::Heartbeat { session } => self.heartbeat(tables, steady, &from, session),
            ToManager::Report { session, number, tasks } => {
                self.report(tables, &from, session, number, tasks);
            }
            ToManager::Applied { session, number } => self.acknowledge(&from, session, number),
        }
    }

    fn register(
        &mut self,
        tables: &Tables,
        steady: Time,
        from: &From,
        session: Option<SessionId>,
        description: Arc<Description>,
        new_id: &mut dyn FnMut() -> Id,
    ) {
        if let Some(live) = session
            && self.live(from, live).is_some()
        {
            let change = Change::DescribeNode { node: from.node, description };
            self.acts.push(Act::Propose(ChangeSet::of(vec![change]), Pending::Description(live)));
            return;
        }
        let Some(known) = tables.node(from.node) else {
            let reason = "this node is not a member of the cluster".into();
            self.acts.push(Act::Send(from.conn, ToAgent::SessionEnded { reason }));
            return;
        };
        if let Some(old) = self.of_node.get(&from.node).copied() {
            self.end(old, "another registration of this node took its place");
        }
        let id = SessionId(new_id());
        let due = steady + grace(tables);
        self.awaited.remove(&from.node);
        self.of_node.insert(from.node, id);
        self.due.insert((due, id));
        let session = Session {
            node: from.node,
            conn: from.conn,
            due,
            open: false,
            sent: Sent::default(),
            number: 0,
            unacknowledged: false,
        };
        self.sessions.insert(id, session);
        let set = registration(known, &from.address, description);
        self.acts.push(Act::Propose(set, Pending::Registration(id)));
    }

    fn heartbeat(&mut self, tables: &Tables, steady: Time, from: &From, id: SessionId) {
        if self.live(from, id).is_none() {
            return self.refuse(from);
        }
        let due = steady + grace(tables);
        if let Some(session) = self.sessions.get_mut(&id) {
            self.due.remove(&(session.due, id));
            session.due = due;
            self.due.insert((due, id));
        }
        self.acts.push(Act::Send(from.conn, ToAgent::Heartbeat { period: heartbeat(tables) }));
    }

    fn report(&mut self, tables: &Tables, from: &From, id: SessionId, number: u64, reports: Vec<TaskReport>) {
        if self.live(from, id).is_none() || reports.len() > REPORTS {
            return self.refuse(from);
        }
        let changes: Vec<Change> =
            reports.into_iter().filter_map(|report| self.report_change(tables, from.node, report)).collect();
        if changes.is_empty() {
            self.acts.push(Act::Send(from.conn, ToAgent::Reported { number }));
        } else {
            self.acts.push(Act::Propose(ChangeSet::of(changes), Pending::Report(id, number)));
        }
    }

    /// What a report changes; `None` when the task is unknown here or belongs to another node, and when the report would set
    /// it back or says what no agent may say. One such report must not take those for other tasks with it, which the
    /// store, that applies a change set whole or not at all, would do.
    fn report_change(&mut self, tables: &Tables, node: NodeId, report: TaskReport) -> Option<Change> {
        let task: TaskId = report.task.parse().ok()?;
        let known = tables.task(task).filter(|known| known.node == Some(node))?;
        if report.state == TaskState::Assigned {
            // An agent that has not begun with a task yet, and reports everything it has: that is known.
            return None;
        }
        if report.state.owner() == Owner::Control {
            self.wrong += 1;
            if self.noted.insert(node) {
                self.acts.push(Act::Note(format!(
                    "the agent of node {node} reports task {task} as {}, which no agent may; this and further such reports of it are passed over",
                    report.state
                )));
            }
            return None;
        }
        if report.state < known.status.state {
            self.late += 1;
            return None;
        }
        let mut programs = report.programs;
        programs.truncate(limits::PROGRAMS);
        Some(Change::ReportTask {
            task,
            node,
            state: report.state,
            at: report.at,
            message: report.message,
            programs: programs.into(),
        })
    }

    fn acknowledge(&mut self, from: &From, id: SessionId, number: u64) {
        if self.live(from, id).is_none() {
            return self.refuse(from);
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if number == session.number {
            session.unacknowledged = false;
            self.stale.insert(session.node);
        }
    }

    /// The session, when it is the live one of this connection.
    fn live(&self, from: &From, id: SessionId) -> Option<&Session> {
        let session = self.sessions.get(&id)?;
        (session.node == from.node && session.conn == from.conn).then_some(session)
    }

    fn refuse(&mut self, from: &From) {
        let reason = "this session is not open; register again".into();
        self.acts.push(Act::Send(from.conn, ToAgent::SessionEnded { reason }));
    }

    fn end(&mut self, id: SessionId, reason: &str) {
        let Some(session) = self.sessions.remove(&id) else { return };
        self.due.remove(&(session.due, id));
        if self.of_node.get(&session.node) == Some(&id) {
            self.of_node.remove(&session.node);
        }
        self.acts.push(Act::Send(session.conn, ToAgent::SessionEnded { reason: reason.into() }));
    }

    /// A change set of the dispatcher is on disk, or was refused.
    pub fn applied(&mut self, tables: &Tables, steady: Time, pending: Pending, refused: Option<&str>) {
        match pending {
            Pending::Registration(id) => match refused {
                Some(reason) => self.end(id, reason),
                None => self.open(tables, id),
            },
            Pending::Report(id, number) => {
                let Some(session) = self.sessions.get(&id) else { return };
                if refused.is_none() {
                    self.acts.push(Act::Send(session.conn, ToAgent::Reported { number }));
                }
            }
            // The agent says it once only: it is asked again by a new registration.
            Pending::Description(id) => {
                if let Some(reason) = refused {
                    self.end(id, reason);
                }
            }
            Pending::Down(node) => {
                if refused.is_some() && !self.of_node.contains_key(&node) {
                    self.awaited.insert(node, steady + DOWN_AGAIN);
                }
            }
        }
    }

    fn open(&mut self, tables: &Tables, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.open = true;
        let registered = ToAgent::Registered {
            session: id,
            node: session.node.to_string().into(),
            heartbeat: heartbeat(tables),
        };
        self.acts.push(Act::Send(session.conn, registered));
        let changes = assignments::complete(tables, session.node, &mut session.sent);
        session.number = 1;
        session.unacknowledged = true;
        let message = Assignments {
            session: id,
            kind: AssignmentsKind::Complete,
            applies_to: 0,
            results_in: 1,
            changes,
        };
        self.acts.push(Act::Send(session.conn, ToAgent::Assignments(message)));
    }

    /// A task of this node was changed by the control plane, or removed.
    pub fn touch(&mut self, node: NodeId) {
        if self.of_node.contains_key(&node) {
            self.stale.insert(node);
        }
    }

    /// Sends each agent whose tasks have changed the difference, if it can take more.
    pub fn pull(&mut self, tables: &Tables) {
        for node in std::mem::take(&mut self.stale) {
            let Some(id) = self.of_node.get(&node).copied() else { continue };
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            // One that is busy is looked at again when it acknowledges.
            if !session.open || session.unacknowledged {
                continue;
            }
            let changes = assignments::difference(tables, node, &mut session.sent);
            if changes.is_empty() {
                continue;
            }
            let message = Assignments {
                session: id,
                kind: AssignmentsKind::Incremental,
                applies_to: session.number,
                results_in: session.number + 1,
                changes,
            };
            session.number += 1;
            session.unacknowledged = true;
            self.acts.push(Act::Send(session.conn, ToAgent::Assignments(message)));
        }
    }

    /// Everybody has so much more time: nobody could be heard for so long, and what was said meanwhile is still to be read.
    pub fn pardon(&mut self, span: Span) {
        for session in self.sessions.values_mut() {
            session.due = session.due + span;
        }
        self.due = std::mem::take(&mut self.due).into_iter().map(|(due, id)| (due + span, id)).collect();
        for until in self.awaited.values_mut() {
            *until = *until + span;
        }
    }

    /// Takes for gone whoever has not called in time.
    pub fn expire(&mut self, tables: &Tables, steady: Time) {
        while let Some((due, id)) = self.due.first().copied() {
            if due > steady {
                break;
            }
            let node = self.sessions.get(&id).map(|s| s.node);
            self.end(id, "no heartbeat came in time");
            self.due.remove(&(due, id));
            if let Some(node) = node {
                self.down(tables, node, "heartbeat failure");
            }
        }
        let late: Vec<NodeId> =
            self.awaited.iter().filter(|(_, until)| **until <= steady).map(|(node, _)| *node).collect();
        for node in late {
            self.awaited.remove(&node);
            self.down(tables, node, "did not register after a change of leader");
        }
    }

    fn down(&mut self, tables: &Tables, node: NodeId, message: &str) {
        let Some(known) = tables.node(node) else { return };
        let status = NodeStatus { state: NodeState::Down, message: message.into(), ..known.status.clone() };
        let set = ChangeSet::of(vec![Change::SetNodeStatus { node, status }]);
        self.acts.push(Act::Propose(set, Pending::Down(node)));
    }

    /// The next moment at which somebody may have to be taken for gone.
    pub fn next_wake(&self) -> Option<Time> {
        let due = self.due.first().map(|(at, _)| *at);
        due.into_iter().chain(self.awaited.values().min().copied()).min()
    }
}

/// Who sends a message: the identity that the edge has checked.
#[derive(Clone, Debug)]
pub struct From {
    /// The node.
    pub node: NodeId,
    /// Its connection.
    pub conn: ConnId,
    /// Where it calls from; empty inside the same process.
    pub address: Arc<str>,
}

fn heartbeat(tables: &Tables) -> Span {
    tables.cluster().map_or(Span::from_secs(5), |c| c.heartbeat)
}

fn grace(tables: &Tables) -> Span {
    Span(heartbeat(tables).0.saturating_mul(GRACE))
}

/// The change set that makes a node ready: its description if that is new, and its status.
fn registration(known: &Node, address: &Arc<str>, description: Arc<Description>) -> ChangeSet {
    let node = known.id;
    let mut changes = Vec::new();
    if known.description != description {
        changes.push(Change::DescribeNode { node, description });
    }
    let status = NodeStatus {
        state: NodeState::Ready,
        message: "".into(),
        address: Arc::clone(address),
        since: known.status.since,
    };
    changes.push(Change::SetNodeStatus { node, status });
    ChangeSet::of(changes)
}
