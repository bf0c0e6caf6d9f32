//! The control plane's thread: feeds the manager what happened and carries out what it wants done.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use manager::{ConnId, Effect, Input, Manager, Step};
use model::sync::ToAgent;
use model::{Span, Time};
use tokio::sync::mpsc;

use crate::clock::{self, ClusterClock};
use crate::leading::{Heard, Term};
use crate::proposer::{Proposal, Reply};

/// Longest sleep of the thread, so that a clock that jumps is noticed.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// A thread that comes back so much later than it wanted to has been kept from running.
const STALL: Span = Span::from_millis(250);

/// The agents that are connected, by connection.
#[derive(Clone, Default)]
pub struct Connections {
    senders: Arc<Mutex<BTreeMap<ConnId, mpsc::UnboundedSender<ToAgent>>>>,
}

impl Connections {
    /// Adds a connection; what the manager says to it arrives at the receiver.
    pub fn open(&self, conn: ConnId) -> mpsc::UnboundedReceiver<ToAgent> {
        // Unbounded by type, bounded by the dispatcher: one unacknowledged message of assignments for each session, and one
        // answer for each message received.
        let (sender, receiver) = mpsc::unbounded_channel();
        self.senders.lock().unwrap_or_else(PoisonError::into_inner).insert(conn, sender);
        receiver
    }

    fn send(&self, conn: ConnId, message: ToAgent) {
        let senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = senders.get(&conn) {
            // An agent that has gone is noticed by its missing heartbeats.
            let _ = sender.send(message);
        }
    }
}

/// Runs the control plane until every sender of inputs is gone or the log takes no more proposals.
pub fn run(
    inputs: &Receiver<Heard>,
    proposals: &mpsc::Sender<Proposal>,
    connections: &Connections,
    clock: &ClusterClock,
) {
    let mut plane = Plane { manager: Manager::new(), leads_in: None, proposals, connections, clock };
    let mut seen = clock.steady();
    loop {
        let wait = longest_wait(&plane.manager, clock);
        let heard = match next_input(inputs, wait) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout) => Input::Tick.into(),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let before = std::mem::replace(&mut seen, clock.steady());
        let stalled = stalled(before, seen, wait);
        let taken = stalled.is_none_or(|span| plane.take(Input::Stalled(span)).is_ok());
        if !taken || plane.hear(heard).is_err() {
            return;
        }
    }
}

/// How long the thread was kept from running, if that is worth a word: it came back so much later than it wanted to.
fn stalled(before: Time, now: Time, wait: Option<Duration>) -> Option<Span> {
    let wait = i64::try_from(wait?.as_nanos()).unwrap_or(i64::MAX);
    Some(Span(now.since(before).0.saturating_sub(wait))).filter(|late| *late > STALL)
}

struct Plane<'a> {
    manager: Manager,
    /// The term in which it leads.
    leads_in: Option<Term>,
    proposals: &'a mpsc::Sender<Proposal>,
    connections: &'a Connections,
    clock: &'a ClusterClock,
}

/// The log takes no more proposals.
struct Closed;

impl Plane<'_> {
    /// Takes what was heard, unless it belongs to a term that is over.
    fn hear(&mut self, heard: Heard) -> Result<(), Closed> {
        if !heard.concerns(self.leads_in) {
            return Ok(());
        }
        match &heard.input {
            Input::Lead(_) => self.leads_in = heard.term,
            Input::Follow => self.leads_in = None,
            _ => {}
        }
        self.take(heard.input)
    }

    /// Lets the manager take an input, and carries out what it wants done.
    fn take(&mut self, input: Input) -> Result<(), Closed> {
        if let (Input::Agent { conn, .. }, false) = (&input, self.manager.leads()) {
            let reason = "this manager does not lead".into();
            self.connections.send(*conn, ToAgent::SessionEnded { reason });
            return Ok(());
        }
        if let Input::Lead(tables) | Input::Applied { tables, .. } = &input {
            self.clock.seen(tables.time());
        }
        let (now, steady) = (self.clock.now(), self.clock.steady());
        let mut step = Step { now, steady, new_id: &mut clock::new_id };
        for effect in self.manager.step(input, &mut step) {
            match effect {
                Effect::Send(conn, message) => self.connections.send(conn, message),
                Effect::Note(text) => tracing::warn!("{text}"),
                Effect::Propose(ticket, set) => {
                    // Nobody plans before it leads.
                    let term = self.leads_in.unwrap_or_default();
                    let proposal = Proposal { set, reply: Reply::Plane((term, ticket)) };
                    self.proposals.blocking_send(proposal).map_err(|_| Closed)?;
                }
            }
        }
        Ok(())
    }
}

/// How long the thread may sleep at most; `None`: until something happens.
fn longest_wait(manager: &Manager, clock: &ClusterClock) -> Option<Duration> {
    if manager.has_work() {
        return Some(Duration::ZERO);
    }
    let wait = manager.next_wake()?.since(clock.now()).0;
    Some(Duration::from_nanos(u64::try_from(wait).unwrap_or(0)).min(LONGEST_SLEEP))
}

fn next_input(inputs: &Receiver<Heard>, wait: Option<Duration>) -> Result<Heard, RecvTimeoutError> {
    match wait {
        Some(wait) => inputs.recv_timeout(wait),
        None => inputs.recv().map_err(|_| RecvTimeoutError::Disconnected),
    }
}
