//! The world: a clock that jumps to what happens next, managers with the ideal log between them, machines, and the wires from these to those.
//!
//! Here is the queue of what is going to happen. `world/managers.rs` has the side of the log, `world/machines.rs` that of the agents,
//! `world/people.rs` requests and faults, `world/judge.rs` the checkers.

mod judge;
mod machines;
mod managers;
mod people;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use model::sync::{ToAgent, ToManager};
use model::{Availability, Cluster, ClusterId, Labels, Meta, Node, NodeId, NodeStatus, Role, Span, Time};
use store::{Change, ChangeSet, Tables};

use crate::checkers::{self, Checker, Hosts};
use crate::host::{Host, Name};
use crate::log::{Log, Term};
use crate::random::Random;
use crate::script::{Net, Place};
use crate::trace::Trace;

pub use judge::Broken;
use machines::Wire;
use managers::Seat;
use people::Request;

/// Something that is going to happen. What belongs to a life that is over happens to nobody.
enum Happening {
    /// A leader writes what its proposers have queued.
    Flush(usize, u64),
    /// The oldest entry of the leader of this term has reached a majority.
    Commit(Term),
    /// The leader of this term looks for the majority that it misses.
    Resume(Term),
    /// A manager hears how far the log is, and who leads.
    Learn(usize),
    /// A manager is woken.
    Tick(usize, u64),
    /// A proposal is given up by the leader of this term.
    Lost(usize, Term, manager::Ticket),
    /// The managers look whether they need a leader.
    Elect,
    /// A message arrives at the manager's end of a wire.
    Up(u64, ToManager),
    /// A message arrives at the agent's end of a wire.
    Down(u64, ToAgent),
    /// The agent of a machine reaches a manager, or none.
    Dial(NodeId, u64, u64),
    /// The agent learns that its wire is there.
    Connected(u64),
    /// The agent learns that its wire is broken.
    Cut(u64),
    /// Nothing of a wire is under way any more.
    Forget(u64),
    /// A machine's disk or driver does this.
    Work(NodeId, u64, u64),
    /// A program ends.
    End(NodeId, Name, Option<i32>),
    /// An agent is woken.
    Wake(NodeId, u64),
    /// A request is made, for the so-manieth time.
    Ask(u64, u32),
    /// A fault ends.
    Boot(Place),
}

/// What happens when; of the same moment, what was decided first.
struct Due {
    at: Time,
    number: u64,
    what: Happening,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A simulated cluster.
pub struct World {
    now: Time,
    random: Random,
    queue: BinaryHeap<Reverse<Due>>,
    happened: u64,
    log: Log,
    seats: Vec<Seat>,
    /// When the last entry under way will be committed: they are committed in order.
    committed_by: Time,
    /// The term whose leader waits for a majority.
    stalled: Option<Term>,
    hosts: Hosts,
    /// Machines that were removed for ever.
    scrapped: BTreeSet<u32>,
    wires: BTreeMap<u64, Wire>,
    next_wire: u64,
    net: Net,
    cuts: BTreeSet<(Place, Place)>,
    requests: BTreeMap<u64, Request>,
    next_request: u64,
    checkers: Vec<Box<dyn Checker>>,
    /// The last index that the checkers have seen.
    checked: model::Index,
    broken: Vec<Broken>,
    trace: Trace,
    /// How often managers were woken in this second.
    ticks: (i64, u32),
}

impl World {
    /// Where the clock begins: any moment that is far enough from zero.
    pub const BEGIN: Time = Time(1_000_000_000_000_000);

    /// So many managers, of which one is about to lead, and a cluster without machines. With `exact` the fingerprint is of every value of every
    /// effect.
    pub fn new(seed: u64, managers: u32, exact: bool) -> Self {
        let mut world = Self {
            now: Self::BEGIN,
            random: Random::new(seed),
            queue: BinaryHeap::new(),
            happened: 0,
            log: Log::default(),
            seats: (0..managers.max(1)).map(|_| Seat::new()).collect(),
            committed_by: Time::ZERO,
            stalled: None,
            hosts: Hosts::new(),
            scrapped: BTreeSet::new(),
            wires: BTreeMap::new(),
            next_wire: 1,
            net: Net::default(),
            cuts: BTreeSet::new(),
            requests: BTreeMap::new(),
            next_request: 1,
            checkers: checkers::all(),
            checked: 0,
            broken: Vec::new(),
            trace: Trace::new(exact),
            ticks: (0, 0),
        };
        let id = ClusterId(world.random.id());
        world.elect();
        world.propose_first(ChangeSet::of(vec![Change::PutCluster(Cluster::new(id, "default"))]));
        world
    }

    /// The time now.
    pub fn now(&self) -> Time {
        self.now
    }

    /// How long the world has existed.
    pub fn age(&self) -> Span {
        self.now.since(Self::BEGIN)
    }

    /// The state as the leader has it, or whoever has applied most.
    pub fn tables(&self) -> &Tables {
        let furthest = self.seats.iter().max_by_key(|s| s.tables.index());
        let seat = self.log.leader().and_then(|n| self.seats.get(n)).or(furthest);
        &seat.unwrap_or(&self.seats[0]).tables
    }

    /// The machines.
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// The promises that were broken so far.
    pub fn broken(&self) -> &[Broken] {
        &self.broken
    }

    /// The fingerprint of everything that managers and agents wanted done, and how much that was.
    pub fn fingerprint(&self) -> (u64, u64) {
        (self.trace.fingerprint(), self.trace.effects())
    }

    /// How many things have happened.
    pub fn happened(&self) -> u64 {
        self.happened
    }

    /// Lets so much time pass; stops early when a promise is broken.
    pub fn run_for(&mut self, span: Span) {
        let until = self.now + span;
        while self.broken.is_empty() {
            let Some(Reverse(due)) = self.queue.pop() else { break };
            if due.at > until {
                self.queue.push(Reverse(due));
                break;
            }
            self.now = self.now.max(due.at);
            self.happen(due.what);
        }
        if self.broken.is_empty() {
            self.now = until;
        }
    }

    fn at(&mut self, time: Time, what: Happening) {
        self.happened += 1;
        self.queue.push(Reverse(Due { at: time.max(self.now), number: self.happened, what }));
    }

    fn after(&mut self, span: Span, what: Happening) {
        self.at(self.now + span, what);
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Flush(seat, life) => self.flush(seat, life),
            Happening::Commit(term) => self.commit(term),
            Happening::Resume(term) => self.resume(term),
            Happening::Learn(seat) => self.learn(seat),
            Happening::Tick(seat, life) => self.tick(seat, life),
            Happening::Lost(seat, term, ticket) => self.lose_proposal(seat, term, ticket),
            Happening::Elect => self.elect(),
            Happening::Up(wire, message) => self.arrive_up(wire, message),
            Happening::Down(wire, message) => self.arrive_down(wire, message),
            Happening::Dial(node, life, connection) => self.reach(node, life, connection),
            Happening::Connected(wire) => self.connected(wire),
            Happening::Cut(wire) => self.tell_cut(wire),
            Happening::Forget(wire) => {
                self.wires.remove(&wire);
            }
            Happening::Work(node, life, number) => self.work(node, life, number),
            Happening::End(node, name, code) => self.end(node, &name, code),
            Happening::Wake(node, life) => self.wake(node, life),
            Happening::Ask(request, attempt) => self.ask(request, attempt),
            Happening::Boot(place) => self.boot(place),
        }
    }

    /// True when nothing reaches from one place to the other.
    fn is_cut(&self, a: Place, b: Place) -> bool {
        !self.cuts.is_empty() && self.cuts.contains(&(a.min(b), a.max(b)))
    }

    /// How long a message takes.
    fn delay(&mut self) -> Span {
        let (low, high) = self.net.delay;
        self.random.span(low, high)
    }
}

/// The machine with this number is this node.
pub fn node_id(number: u32) -> NodeId {
    NodeId::from_u128(number.into())
}

/// A node that joins.
fn member(number: u32, host: &Host, labels: Labels) -> Node {
    Node {
        id: node_id(number),
        meta: Meta::default(),
        role: Role::Worker,
        availability: Availability::Active,
        drain_until: None,
        labels,
        description: std::sync::Arc::clone(&host.description),
        status: NodeStatus::default(),
    }
}
