//! The managers' side: proposals, the log, leaders that come and go, managers that fall behind and come back.

use std::sync::Arc;

use manager::{Effect, Input, LogClock, Manager, Step, Ticket};
use model::{Index, Span, Time};
use store::{ChangeSet, Entry, FEATURE_LEVEL, Refused, Tables, codec};

use super::{Happening, World};
use crate::checkers::Applied;
use crate::log::{Origin, Term, Written};
use crate::script::Place;

/// After so many entries a manager writes a snapshot.
const SNAPSHOT_EVERY: Index = 400;

/// So many entries before the leader's snapshot are still handed out.
const SERVED: Index = 40;

/// Every so many entries managers are compared.
const COMPARE_EVERY: Index = 128;

/// A manager that is woken so often in one second does not sleep at all.
const TICKS: u32 = 20_000;

/// How often a leader without a majority looks for one.
const STALLED: Span = Span::from_millis(200);

/// Most change sets in one entry, as the real proposer has a limit.
const PACKED: usize = 64;

/// A manager's place: what it has in memory and on disk.
pub struct Seat {
    pub up: bool,
    /// Counts its starts.
    pub life: u64,
    pub manager: Manager,
    pub tables: Tables,
    /// The term in which it believes to lead.
    pub leads: Option<Term>,
    /// Its newest snapshot on disk, with its index.
    pub snapshot: (Index, Vec<u8>),
    queue: Vec<(Origin, ChangeSet)>,
    flushing: bool,
    learning: bool,
    wake: Option<Time>,
    /// How far its machine's clock is from the world's.
    clock: Span,
    /// The time that it puts into the log.
    shown: LogClock,
}

impl Seat {
    /// A manager that has nothing yet.
    pub fn new() -> Self {
        Self {
            up: true,
            life: 1,
            manager: Manager::new(),
            tables: Tables::new(),
            leads: None,
            snapshot: (0, Vec::new()),
            queue: Vec::new(),
            flushing: false,
            learning: false,
            wake: None,
            clock: Span::ZERO,
            shown: LogClock::default(),
        }
    }

    /// The time as this manager knows it.
    pub fn time(&mut self, now: Time) -> Time {
        self.shown.seen(self.tables.time());
        self.shown.now(now + self.clock, now)
    }

    /// Its machine's clock is set ahead or back.
    pub fn jump(&mut self, by: Span, now: Time) {
        self.time(now);
        self.clock = Span(self.clock.0.saturating_add(by.0));
    }

    /// True while something waits to be written.
    pub fn is_busy(&self) -> bool {
        self.flushing || !self.queue.is_empty()
    }
}

impl World {
    /// The manager who leads in the newest term, if it is up and reaches a majority.
    pub fn leader(&self) -> Option<usize> {
        let leader = self.log.leader()?;
        let seat = &self.seats[leader];
        let leads = seat.up && seat.leads == Some(self.log.term());
        (leads && self.has_majority(leader)).then_some(leader)
    }

    fn has_majority(&self, seat: usize) -> bool {
        let reached = (0..self.seats.len()).filter(|other| self.reaches(seat, *other)).count();
        self.seats[seat].up && reached * 2 > self.seats.len()
    }

    fn reaches(&self, a: usize, b: usize) -> bool {
        a == b || self.seats[b].up && !self.is_cut(manager(a), manager(b))
    }

    /// Something happened to the managers: if they have no leader, they will want one.
    pub fn look_for_leader(&mut self) {
        if self.leader().is_none() {
            let patience = self.random.span(Span::from_millis(800), Span::from_millis(2500));
            self.after(patience, Happening::Elect);
        }
    }

    /// Elects a leader if there is none and a majority finds together.
    pub(super) fn elect(&mut self) {
        if self.leader().is_some() {
            return;
        }
        let able: Vec<usize> = (0..self.seats.len()).filter(|n| self.has_majority(*n)).collect();
        if !able.is_empty() {
            let new = *self.random.pick(&able);
            self.make_leader(new);
        }
    }

    /// Another manager leads from now on, for no reason. The old one hears of it in a moment.
    pub fn depose(&mut self) {
        let old = self.log.leader();
        let able: Vec<usize> =
            (0..self.seats.len()).filter(|n| Some(*n) != old && self.has_majority(*n)).collect();
        if !able.is_empty() {
            let new = *self.random.pick(&able);
            self.make_leader(new);
        }
    }

    fn make_leader(&mut self, new: usize) {
        let adopted = self.random.below(self.log.under_way() as u64 + 1) as usize;
        for origin in self.log.lead(new, adopted) {
            self.lose_origin(origin);
        }
        self.committed_by = self.now;
        self.catch_up(new);
        let term = self.log.term();
        let tables = Arc::new(self.seats[new].tables.clone());
        self.seats[new].leads = Some(term);
        self.seats[new].queue.clear();
        self.step(new, Input::Lead(tables));
        self.spread_word();
    }

    /// Everybody will hear how things stand.
    pub fn spread_word(&mut self) {
        for seat in 0..self.seats.len() {
            if self.seats[seat].learning {
                continue;
            }
            self.seats[seat].learning = true;
            // Now and then one is slow, so that it falls behind what is still handed out.
            let slow = self.random.once_in(200);
            let lag = if slow { Span::from_secs(20) } else { self.delay() };
            self.after(lag, Happening::Learn(seat));
        }
    }

    pub(super) fn learn(&mut self, seat: usize) {
        self.seats[seat].learning = false;
        let Some(leader) = self.log.leader() else { return };
        if !self.seats[seat].up || !self.reaches(seat, leader) || seat == leader {
            return;
        }
        if self.seats[seat].leads.is_some() {
            self.seats[seat].leads = None;
            for (origin, _) in std::mem::take(&mut self.seats[seat].queue) {
                self.lose_origin(origin);
            }
            self.step(seat, Input::Follow);
        }
        self.catch_up(seat);
    }

    /// What became of a change set is not known to whoever waits for it.
    fn lose_origin(&mut self, origin: Origin) {
        if let Origin::Request(request) = origin {
            self.ask_again(request, Span::from_millis(700));
        }
    }

    /// Applies whatever is committed, through a snapshot where entries are no longer handed out.
    pub(super) fn catch_up(&mut self, seat: usize) {
        while self.broken.is_empty() {
            let next = self.seats[seat].tables.index() + 1;
            if next > self.log.last() {
                return;
            }
            let leader = self.log.leader().filter(|l| *l != seat && self.seats[*l].snapshot.0 >= next);
            match leader {
                Some(leader) if next < self.log.served() => self.install(seat, leader),
                _ => self.apply(seat, next),
            }
        }
    }

    fn install(&mut self, seat: usize, leader: usize) {
        let (index, bytes) = self.seats[leader].snapshot.clone();
        match codec::read_snapshot(&mut bytes.as_slice()) {
            Ok(tables) => {
                self.seats[seat].tables = tables;
                self.seats[seat].snapshot = (index, bytes);
                self.compare(seat);
            }
            Err(problem) => self.break_promise("a snapshot can be read", problem.to_string()),
        }
    }

    fn apply(&mut self, seat: usize, index: Index) {
        let Some(Written { entry, origins }) = self.log.entry(index).cloned() else {
            return self.break_promise("the log keeps what is needed", format!("entry {index} is gone"));
        };
        let before = (index > self.checked).then(|| self.seats[seat].tables.clone());
        let applied = self.seats[seat].tables.apply(index, &entry);
        if let Some(before) = before {
            self.checked = index;
            let moment = Applied {
                index,
                before: &before,
                after: &self.seats[seat].tables,
                entry: &entry,
                results: &applied.results,
                events: &applied.events,
                hosts: &self.hosts,
            };
            super::judge::applied(&mut self.checkers, &moment, self.now, &mut self.broken);
        }
        if index.is_multiple_of(COMPARE_EVERY) {
            self.compare(seat);
        }
        self.keep_snapshot(seat);
        if self.seats[seat].leads == Some(self.log.term()) {
            self.tell_outcomes(seat, index, &entry, &origins, applied);
        }
    }

    fn tell_outcomes(
        &mut self,
        seat: usize,
        index: Index,
        entry: &Entry,
        origins: &[Origin],
        applied: store::Applied,
    ) {
        let term = self.log.term();
        let mut outcomes: Vec<(Ticket, Result<(), Refused>)> = Vec::new();
        for ((origin, result), set) in origins.iter().zip(applied.results).zip(&entry.sets) {
            match origin {
                Origin::Plane(of, ticket) if *of == term => outcomes.push((*ticket, result)),
                Origin::Plane(..) => {}
                Origin::Request(request) => self.answer(*request, index, set, result),
            }
        }
        let tables = Arc::new(self.seats[seat].tables.clone());
        self.step(seat, Input::Applied { tables, events: applied.events, outcomes });
    }

    /// Tells the checkers what this manager has.
    pub(super) fn compare(&mut self, seat: usize) {
        let (index, digest) = (self.seats[seat].tables.index(), codec::digest(&self.seats[seat].tables));
        self.judge(|checker, broken| checker.state(seat, index, digest, broken));
    }

    fn keep_snapshot(&mut self, seat: usize) {
        let index = self.seats[seat].tables.index();
        if index < self.seats[seat].snapshot.0 + SNAPSHOT_EVERY {
            return;
        }
        let mut bytes = Vec::new();
        if let Err(problem) = codec::write_snapshot(&self.seats[seat].tables, &mut bytes) {
            return self.break_promise("a snapshot can be written", problem.to_string());
        }
        self.seats[seat].snapshot = (index, bytes);
        if self.log.leader() == Some(seat) {
            let dropped = self.seats.iter().map(|s| s.snapshot.0).min().unwrap_or(0);
            self.log.compact(index.saturating_sub(SERVED), dropped);
        }
    }

    /// A manager dies. What it has on disk stays: everything it has applied.
    pub fn crash_manager(&mut self, seat: usize) {
        if !self.seats[seat].up {
            return;
        }
        let here = &mut self.seats[seat];
        here.up = false;
        here.life += 1;
        here.leads = None;
        here.manager = Manager::new();
        here.queue.clear();
        (here.flushing, here.wake) = (false, None);
        self.break_wires_of(seat);
        self.look_for_leader();
    }

    /// A manager starts with what it has on disk: its snapshot, and the entries after it.
    pub(super) fn boot_manager(&mut self, seat: usize) {
        if self.seats[seat].up {
            return;
        }
        let known = self.seats[seat].tables.index();
        let (_, bytes) = &self.seats[seat].snapshot;
        let mut tables = match bytes[..] {
            [] => Tables::new(),
            _ => match codec::read_snapshot(&mut bytes.as_slice()) {
                Ok(tables) => tables,
                Err(problem) => return self.break_promise("a snapshot can be read", problem.to_string()),
            },
        };
        while tables.index() < known {
            let next = tables.index() + 1;
            let decoded = self.log.entry(next).map(|w| codec::decode_entry(&codec::encode_entry(&w.entry)));
            match decoded {
                Some(Ok(entry)) => tables.apply(next, &entry),
                Some(Err(problem)) => return self.break_promise("an entry can be read", problem.to_string()),
                None => return self.break_promise("the log keeps what is needed", format!("entry {next}")),
            };
        }
        let old = codec::digest(&self.seats[seat].tables);
        if codec::digest(&tables) != old {
            self.break_promise("a manager comes back with what it had", format!("at index {known}"));
        }
        self.seats[seat].tables = tables;
        self.seats[seat].up = true;
        self.look_for_leader();
        self.spread_word();
    }

    /// Something happened to a manager.
    pub(super) fn step(&mut self, seat: usize, input: Input) {
        let (now, steady) = (self.seats[seat].time(self.now), self.now);
        let random = &mut self.random;
        let mut new_id = || random.id();
        let mut step = Step { now, steady, new_id: &mut new_id };
        let effects = self.seats[seat].manager.step(input, &mut step);
        for effect in effects {
            self.trace.note(self.now.0, seat as u64, &effect);
            match effect {
                Effect::Propose(ticket, set) => {
                    let Some(term) = self.seats[seat].leads else { continue };
                    self.propose(seat, Origin::Plane(term, ticket), set);
                }
                Effect::Send(conn, message) => self.send_down(conn, message),
                // Agents of this world say nothing that would be worth one.
                Effect::Note(text) => unreachable!("{text}"),
            }
        }
        self.see_to_wake(seat);
    }

    fn see_to_wake(&mut self, seat: usize) {
        let now = self.now;
        let here = &mut self.seats[seat];
        let wake = if here.manager.has_work() {
            now
        } else {
            match here.manager.next_wake() {
                // Time that has passed already costs a step that takes a little while.
                Some(wake) => now + wake.since(here.time(now)).max(Span(10_000)),
                None => return,
            }
        };
        if here.wake.is_none_or(|known| wake < known) {
            here.wake = Some(wake);
            let life = here.life;
            self.at(wake, Happening::Tick(seat, life));
        }
    }

    pub(super) fn tick(&mut self, seat: usize, life: u64) {
        if self.seats[seat].life != life {
            return;
        }
        if self.seats[seat].wake.is_some_and(|wake| wake <= self.now) {
            self.seats[seat].wake = None;
        }
        let second = self.now.0 / 1_000_000_000;
        self.ticks = if self.ticks.0 == second { (second, self.ticks.1 + 1) } else { (second, 1) };
        if self.ticks.1 == TICKS {
            self.break_promise(
                "a manager sleeps until something is due",
                format!("{TICKS} wakes in a second"),
            );
        }
        self.step(seat, Input::Tick);
    }

    /// Queues a change set with the proposer of a manager. One that a leader loses while it leads has not happened: that nobody knows
    /// what became of a proposal is the fate of deposed leaders alone.
    pub(super) fn propose(&mut self, seat: usize, origin: Origin, set: ChangeSet) {
        if let Origin::Plane(term, ticket) = origin
            && self.random.in_million(self.net.lost)
        {
            let span = self.delay();
            return self.after(span, Happening::Lost(seat, term, ticket));
        }
        let here = &mut self.seats[seat];
        here.queue.push((origin, set));
        if !here.flushing {
            here.flushing = true;
            let life = here.life;
            let write = self.random.span(Span(300_000), Span::from_millis(2));
            self.after(write, Happening::Flush(seat, life));
        }
    }

    pub(super) fn lose_proposal(&mut self, seat: usize, term: Term, ticket: Ticket) {
        if self.seats[seat].leads == Some(term) {
            self.step(seat, Input::Lost(ticket));
        }
    }

    pub(super) fn flush(&mut self, seat: usize, life: u64) {
        let here = &mut self.seats[seat];
        if here.life != life {
            return;
        }
        here.flushing = false;
        let Some(term) = here.leads else { return };
        let now = here.time(self.now);
        let packed = here.queue.len().min(PACKED);
        let (origins, sets): (Vec<_>, Vec<_>) = here.queue.drain(..packed).unzip();
        if !here.queue.is_empty() {
            here.flushing = true;
            self.after(Span::from_millis(1), Happening::Flush(seat, life));
        }
        if sets.is_empty() {
            return;
        }
        let entry = Arc::new(Entry { feature_level: FEATURE_LEVEL, time: now, sets });
        if !self.log.append(term, Written { entry, origins: origins.clone() }) {
            // A leader who does not know that it is deposed waits in vain.
            origins.into_iter().for_each(|origin| self.lose_origin(origin));
            return;
        }
        let replicated = self.random.span(Span::from_millis(1), Span::from_millis(6));
        self.committed_by = self.committed_by.max(self.now + replicated);
        self.at(self.committed_by, Happening::Commit(term));
    }

    pub(super) fn commit(&mut self, term: Term) {
        let Some(leader) = self.log.leader().filter(|_| term == self.log.term()) else { return };
        if !self.has_majority(leader) {
            // It goes on when a majority is there again, unless there is another leader by then.
            if self.stalled != Some(term) {
                self.stalled = Some(term);
                self.after(STALLED, Happening::Resume(term));
            }
        } else if self.stalled != Some(term) && self.log.commit(term).is_some() {
            self.catch_up(leader);
            self.spread_word();
        }
    }

    /// A leader that waits for a majority looks for one, and commits all that is under way when it is there.
    pub(super) fn resume(&mut self, term: Term) {
        let Some(leader) = self.log.leader().filter(|_| term == self.log.term()) else { return };
        if !self.has_majority(leader) {
            return self.after(STALLED, Happening::Resume(term));
        }
        self.stalled = None;
        while self.log.commit(term).is_some() {
            self.catch_up(leader);
        }
        self.spread_word();
    }

    /// The first change of a new cluster.
    pub(super) fn propose_first(&mut self, set: ChangeSet) {
        if let Some(leader) = self.leader() {
            self.propose(leader, Origin::Request(0), set);
        }
    }
}

/// The place of the manager with this number from 0.
pub fn manager(seat: usize) -> Place {
    Place::Manager(seat as u32 + 1)
}
