//! The way into the log: what is proposed at the same time shares an entry, and several entries are on their way at once.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use consensus::Consensus;
use control::ProposeError;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use manager::Input;
use model::Index;
use store::{ChangeSet, Entry, FEATURE_LEVEL, codec};
use tokio::sync::{mpsc, oneshot};

use crate::clock::ClusterClock;
use crate::leading::{Heard, is_current};
use crate::replica::{PlaneTicket, Replica, TAG_LEN, Tags};

/// Most change sets in one entry.
const SETS: usize = 256;

/// Most changes in one entry, unless one set alone has more.
const CHANGES: usize = 8_192;

/// Most entries on their way at once.
const PIPELINE: usize = 16;

/// Largest entry in bytes; the consensus engine is told the same.
pub const ENTRY_BYTES: usize = 8 << 20;

/// A change set on its way into the log, and who wants to know.
pub struct Proposal {
    /// What to do.
    pub set: ChangeSet,
    /// Who wants to know what became of it.
    pub reply: Reply,
}

/// Who wants to know what became of a proposal.
pub enum Reply {
    /// The control plane: told through the applied entry itself.
    Plane(PlaneTicket),
    /// A request.
    Caller(oneshot::Sender<Result<Index, ProposeError>>),
}

/// Takes proposals until nobody can make any more.
pub struct Proposer {
    /// The log.
    pub consensus: Consensus<Replica>,
    /// Where the control plane listens.
    pub plane: Sender<Heard>,
    /// This process, in the tags of its entries.
    pub boot: u64,
    /// What the replica looks tickets up in.
    pub tags: Arc<Tags>,
    /// Counts the entries of this process.
    pub sequence: u64,
    /// The time of entries.
    pub clock: ClusterClock,
}

impl Proposer {
    /// Runs until the channel is closed and everything taken from it is answered.
    pub async fn run(mut self, mut proposals: mpsc::Receiver<Proposal>) {
        let mut under_way = FuturesUnordered::new();
        let mut open = true;
        while open || !under_way.is_empty() {
            tokio::select! {
                biased;
                Some(()) = under_way.next(), if !under_way.is_empty() => {}
                batch = take(&mut proposals), if open && under_way.len() < PIPELINE => {
                    open = !batch.is_empty();
                    let batch = self.without_stale(batch);
                    for (bytes, sequence, replies) in self.entries(batch) {
                        under_way.push(submit(self.consensus.clone(), self.plane.clone(), Arc::clone(&self.tags), bytes, sequence, replies));
                    }
                }
            }
        }
    }

    /// Packs proposals into as few entries as their sizes allow.
    fn entries(&mut self, batch: Vec<Proposal>) -> Vec<(Vec<u8>, u64, Vec<Reply>)> {
        if batch.is_empty() {
            return Vec::new();
        }
        let (sets, replies): (Vec<ChangeSet>, Vec<Reply>) =
            batch.into_iter().map(|p| (p.set, p.reply)).unzip();
        let entry = Entry { feature_level: FEATURE_LEVEL, time: self.clock.now(), sets };
        let body = codec::encode_entry(&entry);
        if let Err(problem) = fits(&body) {
            let mut first: Vec<Proposal> =
                entry.sets.into_iter().zip(replies).map(|(set, reply)| Proposal { set, reply }).collect();
            if first.len() == 1 {
                self.refuse(first, &problem);
                return Vec::new();
            }
            let second = first.split_off(first.len() / 2);
            let mut all = self.entries(first);
            all.extend(self.entries(second));
            return all;
        }
        self.sequence += 1;
        let tickets = replies.iter().map(|r| if let Reply::Plane(t) = r { Some(*t) } else { None }).collect();
        self.tags.note(self.sequence, tickets);
        let mut bytes = Vec::with_capacity(TAG_LEN + body.len());
        bytes.extend_from_slice(&self.boot.to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&body);
        vec![(bytes, self.sequence, replies)]
    }

    /// Drops the plans of terms that are over: whoever made them has forgotten them, and leads anew or no more.
    fn without_stale(&self, batch: Vec<Proposal>) -> Vec<Proposal> {
        let now = *self.consensus.leadership().borrow();
        let (kept, stale) = batch.into_iter().partition(|proposal| match proposal.reply {
            Reply::Plane((term, _)) => is_current(term, now),
            Reply::Caller(_) => true,
        });
        let stale: Vec<Proposal> = stale;
        for proposal in stale {
            if let Reply::Plane(ticket) = proposal.reply {
                self.lose(ticket);
            }
        }
        kept
    }

    fn lose(&self, ticket: PlaneTicket) {
        let _ = self.plane.send(lost(ticket));
    }

    fn refuse(&self, proposals: Vec<Proposal>, problem: &str) {
        for proposal in proposals {
            match proposal.reply {
                Reply::Plane(ticket) => {
                    tracing::error!(problem, "the control plane made a change set that cannot be logged");
                    self.lose(ticket);
                }
                Reply::Caller(caller) => {
                    let _ = caller.send(Err(ProposeError::Unavailable(problem.to_owned())));
                }
            }
        }
    }
}

/// Whether an entry may enter the log: what no manager could read must never get there.
fn fits(body: &[u8]) -> Result<(), String> {
    if body.len() + TAG_LEN > ENTRY_BYTES {
        return Err(format!(
            "the change has {} bytes, more than the {ENTRY_BYTES} that an entry may have",
            body.len()
        ));
    }
    codec::check_entry(body).map_err(|e| e.to_string())
}

/// What is queued, at least one proposal; nothing once the channel is closed.
async fn take(proposals: &mut mpsc::Receiver<Proposal>) -> Vec<Proposal> {
    let Some(first) = proposals.recv().await else { return Vec::new() };
    let mut changes = first.set.changes.len();
    let mut batch = vec![first];
    while batch.len() < SETS && changes < CHANGES {
        let Ok(next) = proposals.try_recv() else { break };
        changes += next.set.changes.len();
        batch.push(next);
    }
    batch
}

async fn submit(
    consensus: Consensus<Replica>,
    plane: Sender<Heard>,
    tags: Arc<Tags>,
    bytes: Vec<u8>,
    sequence: u64,
    replies: Vec<Reply>,
) {
    match consensus.propose(bytes).await {
        Ok(committed) => {
            for (reply, result) in replies.into_iter().zip(committed.reply) {
                if let Reply::Caller(caller) = reply {
                    let _ = caller.send(result.map(|()| committed.index).map_err(ProposeError::Refused));
                }
            }
        }
        Err(error) => {
            tags.take(sequence);
            for reply in replies {
                match reply {
                    Reply::Plane(ticket) => drop(plane.send(lost(ticket))),
                    Reply::Caller(caller) => drop(caller.send(Err(translate(&error)))),
                }
            }
        }
    }
}

/// A proposal did not reach the log, or nobody knows.
fn lost((term, ticket): PlaneTicket) -> Heard {
    Heard::of(term, Input::Lost(ticket))
}

fn translate(error: &consensus::ProposeError) -> ProposeError {
    use consensus::ProposeError as From;
    match error {
        From::NotLeader { .. } | From::TooLarge { .. } | From::NoQuorum(_) => {
            ProposeError::Unavailable(error.to_string())
        }
        From::Unknown { .. } | From::Stopped(_) => ProposeError::Unknown(error.to_string()),
    }
}
