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

/// Bytes before each entry that say which proposer of which process it came from.
pub const TAG_LEN: usize = 16;

/// What the rest of the process sees of the replicated state.
pub struct Published {
    tables: ArcSwap<Tables>,
    index: watch::Sender<Index>,
    events: RwLock<EventLog>,
    /// Whether the control plane leads.
    leads: Mutex<bool>,
}

impl Published {
    /// The empty state, before anything was replayed.
    pub fn new() -> Self {
        Self {
            tables: ArcSwap::from_pointee(Tables::new()),
            index: watch::Sender::new(0),
            events: RwLock::new(EventLog::starting_at(0)),
            leads: Mutex::new(false),
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

    /// From now on the control plane leads, and is told of what is applied. It begins with the newest state; each batch is
    /// published before it is told of, so that it is either in that state or told of after it.
    pub fn lead(&self, plane: &Sender<Input>) {
        let mut leads = self.leads.lock().unwrap_or_else(PoisonError::into_inner);
        *leads = true;
        let _ = plane.send(Input::Lead(self.tables()));
    }

    /// The control plane leads no more.
    pub fn follow(&self, plane: &Sender<Input>) {
        let mut leads = self.leads.lock().unwrap_or_else(PoisonError::into_inner);
        *leads = false;
        let _ = plane.send(Input::Follow);
    }

    /// Tells the control plane, while it leads, of what has been published. When it does not, it decides nothing, and a log that
    /// is replayed would only pile up before it.
    fn tell(&self, plane: &Sender<Input>, applied: Input) {
        let leads = self.leads.lock().unwrap_or_else(PoisonError::into_inner);
        if *leads {
            // Its thread may have ended already: then nobody needs to know.
            let _ = plane.send(applied);
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

/// Which proposals of the control plane are in which entry of this process.
#[derive(Default)]
pub struct Tags {
    tickets: Mutex<HashMap<u64, Vec<Option<Ticket>>>>,
}

impl Tags {
    /// Notes the tickets of an entry, one place for each of its change sets.
    pub fn note(&self, sequence: u64, tickets: Vec<Option<Ticket>>) {
        self.lock().insert(sequence, tickets);
    }

    /// Takes the tickets of an entry back.
    pub fn take(&self, sequence: u64) -> Option<Vec<Option<Ticket>>> {
        self.lock().remove(&sequence)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Vec<Option<Ticket>>>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The store behind the log.
pub struct Replica {
    tables: Tables,
    published: Arc<Published>,
    plane: Sender<Input>,
    /// This process, in the tags of its entries.
    boot: u64,
    tags: Arc<Tags>,
    events: Vec<Event>,
    outcomes: Vec<(Ticket, Result<(), Refused>)>,
}

impl Replica {
    /// An empty replica; the log fills it.
    pub fn new(published: Arc<Published>, plane: Sender<Input>, boot: u64, tags: Arc<Tags>) -> Self {
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
        self.published.tell(&self.plane, Input::Applied { tables, events, outcomes });
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
            let index = |input: Input| match input {
                Input::Lead(tables) => ("lead", tables.index()),
                Input::Applied { tables, .. } => ("applied", tables.index()),
                Input::Follow => ("follow", 0),
                other => panic!("nobody says {other:?}"),
            };
            told.try_iter().map(index).collect::<Vec<_>>()
        };
        (1..=3).for_each(&mut apply);
        assert_eq!(indexes(), [], "a replayed log is not told");
        published.lead(&plane);
        (4..=5).for_each(&mut apply);
        published.follow(&plane);
        apply(6);
        published.lead(&plane);
        assert_eq!(indexes(), [("lead", 3), ("applied", 4), ("applied", 5), ("follow", 0), ("lead", 6)]);
        let kept = published.events_after(EventId::default(), usize::MAX).map(|events| events.len());
        assert_eq!(kept, Ok(6), "whoever reads events has them all");
    }
}
