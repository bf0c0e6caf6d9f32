//! The control plane's thread: feeds the manager what happened and carries out what it wants done.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use manager::{ConnId, Effect, Input, Manager, Step};
use model::sync::ToAgent;
use tokio::sync::mpsc;

use crate::clock::{self, ClusterClock};
use crate::proposer::{Proposal, Reply};

/// Longest sleep of the thread, so that a clock that jumps is noticed.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

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
    inputs: &Receiver<Input>,
    proposals: &mpsc::Sender<Proposal>,
    connections: &Connections,
    clock: &ClusterClock,
) {
    let mut manager = Manager::new();
    loop {
        let input = match next_input(inputs, &manager, clock) {
            Ok(input) => input,
            Err(RecvTimeoutError::Timeout) => Input::Tick,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if let (Input::Agent { conn, .. }, false) = (&input, manager.leads()) {
            let reason = "this manager does not lead".into();
            connections.send(*conn, ToAgent::SessionEnded { reason });
            continue;
        }
        if let Input::Lead(tables) | Input::Applied { tables, .. } = &input {
            clock.seen(tables.time());
        }
        let mut step = Step { now: clock.now(), steady: clock.steady(), new_id: &mut clock::new_id };
        for effect in manager.step(input, &mut step) {
            match effect {
                Effect::Send(conn, message) => connections.send(conn, message),
                Effect::Note(text) => tracing::warn!("{text}"),
                Effect::Propose(ticket, set) => {
                    let proposal = Proposal { set, reply: Reply::Plane(ticket) };
                    if proposals.blocking_send(proposal).is_err() {
                        return;
                    }
                }
            }
        }
    }
}

fn next_input(
    inputs: &Receiver<Input>,
    manager: &Manager,
    clock: &ClusterClock,
) -> Result<Input, RecvTimeoutError> {
    if manager.has_work() {
        return inputs.recv_timeout(Duration::ZERO);
    }
    let Some(wake) = manager.next_wake() else {
        return inputs.recv().map_err(|_| RecvTimeoutError::Disconnected);
    };
    let wait = wake.since(clock.now()).0;
    let wait = Duration::from_nanos(u64::try_from(wait).unwrap_or(0));
    inputs.recv_timeout(wait.min(LONGEST_SLEEP))
}
