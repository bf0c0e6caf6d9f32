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
use store::{Event, EventId, EventLog, FEATURE_LEVEL, Gone, Refused, Tables, codec};
use tokio::sync::watch;

/// Bytes before each entry that say which proposer of which process it came from.
pub const TAG_LEN: usize = 16;

/// What the rest of the process sees of the replicated state.
pub struct Published {
    tables: ArcSwap<Tables>,
    index: watch::Sender<Index>,
    events: RwLock<EventLog>,
}

impl Published {
    /// The empty state, before anything was replayed.
    pub fn new() -> Self {
        Self {
            tables: ArcSwap::from_pointee(Tables::new()),
            index: watch::Sender::new(0),
            events: RwLock::new(EventLog::starting_at(0)),
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
    pub fn events_after(&self, id: EventId, limit: usize) -> Result<Vec<Event>, Gone> {
        self.events.read().unwrap_or_else(PoisonError::into_inner).after(id, limit)
    }

    fn publish(&self, tables: &Tables, events: Vec<Event>) -> Arc<Tables> {
        let shared = Arc::new(tables.clone());
        // Events first: whoever is woken by the index finds them.
        self.events.write().unwrap_or_else(PoisonError::into_inner).push(events);
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
        let tables = self.published.publish(&self.tables, events.clone());
        // The control plane's thread may have ended already: then nobody needs to know.
        let _ = self.plane.send(Input::Applied { tables, events, outcomes });
    }

    fn freeze(&self) -> Box<dyn Frozen> {
        Box::new(FrozenTables(self.tables.clone()))
    }

    fn install(&mut self, _index: u64, reader: &mut dyn io::Read) -> Result<(), String> {
        self.tables = codec::read_snapshot(reader).map_err(|error| error.to_string())?;
        self.events.clear();
        self.published.reset(&self.tables);
        self.published.publish(&self.tables, Vec::new());
        Ok(())
    }
}

struct FrozenTables(Tables);

impl Frozen for FrozenTables {
    fn write(self: Box<Self>, out: &mut dyn io::Write) -> io::Result<()> {
        codec::write_snapshot(&self.0, out)
    }
}
