//! The replicated machine: the store behind the log, and where its state is published.
//!
//! The thread that applies is the only writer. After each batch it publishes the tables (one atomic pointer), moves the index that
//! blocking readers wait on, and hands what happened, in order, to the control plane's thread.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use arc_swap::ArcSwap;
use consensus::{Frozen, Machine};
use manager::{Input, Ticket};
use model::Index;
use store::{Event, EventId, EventLog, FEATURE_LEVEL, Gone, KeptEvent, Refused, Tables, codec};
use tokio::sync::watch;

use crate::leading::{Heard, Term};

/// Bytes before each entry that say which proposer of which process it came from.
pub const TAG_LEN: usize = 16;

/// What the rest of the process sees of the replicated state.
pub struct Published {
    tables: ArcSwap<Tables>,
    index: watch::Sender<Index>,
    events: RwLock<EventLog>,
    /// The term in which the control plane leads.
    leads_in: Mutex<Option<Term>>,
}

impl Published {
    /// The empty state, before anything was replayed.
    pub fn new() -> Self {
        Self {
            tables: ArcSwap::from_pointee(Tables::new()),
            index: watch::Sender::new(0),
            events: RwLock::new(EventLog::starting_at(0)),
            leads_in: Mutex::new(None),
        }
    }

    /// The newest state.
    pub fn tables(&self) -> Arc<Tables> {
        self.tables.load_full()
    }

    /// Resolves once the state is beyond `after`.
    pub async fn beyond(&self, after: Index) -> Index {
        let mut watched = self.index.subscribe();
        let found = watched.wait_for(|index| *index > after).await.map(|index| *index);
        // The sender lives in `self`, so that waiting cannot fail.
        found.unwrap_or(after)
    }

    /// At most `limit` events after `id`.
    pub fn events_after(&self, id: EventId, limit: usize) -> Result<Vec<KeptEvent>, Gone> {
        self.events.read().unwrap_or_else(PoisonError::into_inner).after(id, limit)
    }

    /// From now on the control plane leads, in this term, and is told of what is applied. It begins with the newest state; each batch is
    /// published before it is told of, so that it is either in that state or told of after it.
    pub fn lead(&self, term: Term, plane: &Sender<Heard>) {
        let mut leads_in = self.leads_in.lock().unwrap_or_else(PoisonError::into_inner);
        *leads_in = Some(term);
        let _ = plane.send(Heard::of(term, Input::Lead(self.tables())));
    }

    /// The control plane leads no more.
    pub fn follow(&self, plane: &Sender<Heard>) {
        let mut leads_in = self.leads_in.lock().unwrap_or_else(PoisonError::into_inner);
        *leads_in = None;
        let _ = plane.send(Input::Follow.into());
    }

    /// Tells the control plane, while it leads, of what has been published. When it does not, it decides nothing, and a log that
    /// is replayed would only pile up before it.
    /// Of outcomes it is told those of its own term.
    fn tell(&self, plane: &Sender<Heard>, tables: Arc<Tables>, events: Vec<Event>, outcomes: Vec<Outcome>) {
        let leads_in = self.leads_in.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(term) = *leads_in {
            let ours = outcomes.into_iter().filter(|((of, _), _)| *of == term);
            let outcomes = ours.map(|((_, ticket), result)| (ticket, result)).collect();
            // Its thread may have ended already: then nobody needs to know.
            let _ = plane.send(Heard::of(term, Input::Applied { tables, events, outcomes }));
        }
    }

    fn publish(&self, tables: &Tables, events: &[Event]) -> Arc<Tables> {
        let shared = Arc::new(tables.clone());
        // Events first: whoever is woken by the index finds them.
        self.events.write().unwrap_or_else(PoisonError::into_inner).push(events, tables);
        self.tables.store(Arc::clone(&shared));
        self.index.send_replace(tables.index());
        shared
    }

    fn reset(&self, tables: &Tables) {
        *self.events.write().unwrap_or_else(PoisonError::into_inner) = EventLog::starting_at(tables.index());
    }
}

/// A proposal of the control plane, by the term in which it was made.
pub type PlaneTicket = (Term, Ticket);

/// What became of a proposal.
type Outcome = (PlaneTicket, Result<(), Refused>);

/// Which proposals of the control plane are in which entry of this process.
#[derive(Default)]
pub struct Tags {
    tickets: Mutex<HashMap<u64, Vec<Option<PlaneTicket>>>>,
}

impl Tags {
    /// Notes the tickets of an entry, one place for each of its change sets.
    pub fn note(&self, sequence: u64, tickets: Vec<Option<PlaneTicket>>) {
        self.lock().insert(sequence, tickets);
    }

    /// Takes the tickets of an entry back.
    pub fn take(&self, sequence: u64) -> Option<Vec<Option<PlaneTicket>>> {
        self.lock().remove(&sequence)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Vec<Option<PlaneTicket>>>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The store behind the log.
pub struct Replica {
    tables: Tables,
    published: Arc<Published>,
    plane: Sender<Heard>,
    /// This process, in the tags of its entries.
    boot: u64,
    tags: Arc<Tags>,
    events: Vec<Event>,
    outcomes: Vec<Outcome>,
}

impl Replica {
    /// An empty replica; the log fills it.
    pub fn new(published: Arc<Published>, plane: Sender<Heard>, boot: u64, tags: Arc<Tags>) -> Self {
        Self { tables: Tables::new(), published, plane, boot, tags, events: Vec::new(), outcomes: Vec::new() }
    }

    fn note_outcomes(&mut self, tag: &[u8], results: &[Result<(), Refused>]) {
        let word = |at: usize| tag[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        if word(0) != self.boot {
            return;
        }
        let Some(tickets) = self.tags.take(word(8)) else { return };
        for (ticket, result) in tickets.into_iter().zip(results) {
            if let Some(ticket) = ticket {
                self.outcomes.push((ticket, result.clone()));
            }
        }
    }
}

impl Machine for Replica {
    type Reply = Vec<Result<(), Refused>>;

    fn apply(&mut self, index: u64, bytes: &[u8]) -> Self::Reply {
        let (tag, bytes) = bytes.split_at_checked(TAG_LEN).unwrap_or((&[0; TAG_LEN], bytes));
        // An entry that every manager acknowledged must be applied by every manager: one that cannot is of no
        // use, and going on would make it differ from the others.
        let entry = match codec::decode_entry(bytes) {
            Ok(entry) if entry.feature_level <= FEATURE_LEVEL => entry,
            Ok(entry) => panic!(
                "entry {index} of the log needs feature level {}, this program knows {FEATURE_LEVEL}: use a newer quelea",
                entry.feature_level
            ),
            Err(error) => panic!("entry {index} of the log cannot be read: {error}"),
        };
        let applied = self.tables.apply(index, &entry);
        self.note_outcomes(tag, &applied.results);
        self.events.extend(applied.events);
        applied.results
    }

    fn batch_end(&mut self, _index: u64) {
        let events = std::mem::take(&mut self.events);
        let outcomes = std::mem::take(&mut self.outcomes);
        let tables = self.published.publish(&self.tables, &events);
        self.published.tell(&self.plane, tables, events, outcomes);
    }

    fn freeze(&self) -> Box<dyn Frozen> {
        Box::new(FrozenTables(self.tables.clone()))
    }

    fn install(&mut self, _index: u64, reader: &mut dyn io::Read) -> Result<(), String> {
        self.tables = codec::read_snapshot(reader).map_err(|error| error.to_string())?;
        self.events.clear();
        self.published.reset(&self.tables);
        self.published.publish(&self.tables, &[]);
        Ok(())
    }
}

struct FrozenTables(Tables);

impl Frozen for FrozenTables {
    fn write(self: Box<Self>, out: &mut dyn io::Write) -> io::Result<()> {
        codec::write_snapshot(&self.0, out)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use model::{Cluster, ClusterId, Time};
    use store::{Change, ChangeSet, Entry};

    use super::*;

    fn entry(name: &str) -> Vec<u8> {
        let cluster = Cluster::new(ClusterId::from_u128(1), name);
        let sets = vec![ChangeSet::of(vec![Change::PutCluster(cluster)])];
        let entry = Entry { feature_level: FEATURE_LEVEL, time: Time::ZERO, sets };
        [vec![0; TAG_LEN], codec::encode_entry(&entry)].concat()
    }

    #[test]
    fn the_control_plane_is_told_of_what_is_not_in_the_state_that_it_begins_with() {
        let (plane, told) = mpsc::channel();
        let published = Arc::new(Published::new());
        let mut replica = Replica::new(Arc::clone(&published), plane.clone(), 7, Arc::default());
        let mut apply = |index: u64| {
            replica.apply(index, &entry(&format!("name-{index}")));
            replica.batch_end(index);
        };
        let indexes = || {
            let index = |heard: Heard| match heard.input {
                Input::Lead(tables) => ("lead", tables.index()),
                Input::Applied { tables, .. } => ("applied", tables.index()),
                Input::Follow => ("follow", 0),
                other => panic!("nobody says {other:?}"),
            };
            told.try_iter().map(index).collect::<Vec<_>>()
        };
        (1..=3).for_each(&mut apply);
        assert_eq!(indexes(), [], "a replayed log is not told");
        published.lead(1, &plane);
        (4..=5).for_each(&mut apply);
        published.follow(&plane);
        apply(6);
        published.lead(2, &plane);
        assert_eq!(indexes(), [("lead", 3), ("applied", 4), ("applied", 5), ("follow", 0), ("lead", 6)]);
        let kept = published.events_after(EventId::end_of(0), usize::MAX).map(|events| events.len());
        assert_eq!(kept, Ok(6), "whoever reads events has them all");
    }

    #[test]
    fn what_became_of_plans_is_told_in_the_term_in_which_they_were_made() {
        let (plane, told) = mpsc::channel();
        let published = Arc::new(Published::new());
        let tags = Arc::new(Tags::default());
        let mut replica = Replica::new(Arc::clone(&published), plane.clone(), 7, Arc::clone(&tags));
        published.lead(2, &plane);
        for (sequence, term) in [(1, 2), (2, 1)] {
            tags.note(sequence, vec![Some((term, 40))]);
            let mut bytes = entry("name");
            bytes[..8].copy_from_slice(&7_u64.to_le_bytes());
            bytes[8..TAG_LEN].copy_from_slice(&sequence.to_le_bytes());
            replica.apply(sequence, &bytes);
            replica.batch_end(sequence);
        }
        let outcomes = |heard: Heard| match heard.input {
            Input::Applied { outcomes, .. } => Some(outcomes.len()),
            _ => None,
        };
        assert_eq!(told.try_iter().filter_map(outcomes).collect::<Vec<_>>(), [1, 0]);
    }
}
