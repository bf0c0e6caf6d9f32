//! The manager itself: inputs in, effects out, one step at a time.

use std::sync::Arc;

use model::sync::{ToAgent, ToManager};
use model::{Id, Index, NodeId, Span, Time};
use orchestrator::{Cx, Key, all_keys, keys_of, keys_of_refused, reconcile};
use store::{ChangeSet, Event, Object, Refused, Tables};

use crate::dispatcher::{Act, ConnId, Dispatcher, From, PassedOver, Pending};
use crate::evening::Evening;
use crate::flight::Flight;
use crate::work::Work;

/// Numbers the manager's proposals within one leadership.
pub type Ticket = u64;

/// Most plans in flight at once: enough to keep the log busy, few enough that laying them over a new state is cheap.
const IN_FLIGHT: usize = 64;

/// Most keys reconciled in one step, so that messages of agents never wait long.
const KEYS_A_STEP: usize = 256;

/// Keys marked at a time when everything is looked through.
const SWEEP_SLICE: usize = 512;

/// How often everything is looked through although no event asked for it. It must find nothing.
const SWEEP_EVERY: Span = Span::from_secs(300);

/// Something that happened.
#[derive(Debug)]
pub enum Input {
    /// This manager leads from now on, beginning at this state.
    Lead(Arc<Tables>),
    /// It leads no longer: whatever was in flight is forgotten.
    Follow,
    /// Entries were applied.
    Applied {
        /// The state after them.
        tables: Arc<Tables>,
        /// What they did, in order.
        events: Vec<Event>,
        /// The outcomes of this manager's own proposals among them.
        outcomes: Vec<(Ticket, Result<(), Refused>)>,
    },
    /// A proposal did not reach the log, or nobody knows.
    Lost(Ticket),
    /// A message of an agent whose identity was checked.
    Agent {
        /// The node.
        node: NodeId,
        /// Its connection.
        conn: ConnId,
        /// Where it calls from.
        address: Arc<str>,
        /// What it says.
        message: ToManager,
    },
    /// The manager could not run for so long: its machine was busy or asleep, or it was stopped. Nobody could be heard meanwhile.
    Stalled(Span),
    /// Time has passed, or there is work left.
    Tick,
}

/// Something to be done.
#[derive(Debug)]
pub enum Effect {
    /// Put this change set through the log and say what became of it under this number.
    Propose(Ticket, ChangeSet),
    /// Send this to an agent.
    Send(ConnId, ToAgent),
    /// Tell this sentence to whoever operates the cluster.
    Note(String),
}

/// What a step needs from outside: the clock and chance.
pub struct Step<'a> {
    /// The time now, as it goes into the log.
    pub now: Time,
    /// The time by a clock that nobody sets, from any beginning: how long agents have been silent is counted by it.
    pub steady: Time,
    /// Makes fresh ids.
    pub new_id: &'a mut dyn FnMut() -> Id,
}

/// Why a proposal was made: what to do when its outcome is known.
enum Origin {
    Plan { key: Key, more: bool },
    Placement,
    Dispatch(Pending),
}

struct Leader {
    flight: Flight<Origin>,
    work: Work,
    dispatcher: Dispatcher,
    /// True when something happened that may let a waiting task be placed, or a reason change.
    placing: bool,
    /// True when something in flight kept the last pass from judging a task: it is judged when that has landed.
    held: bool,
    /// How far the look through everything has come; `None` when it is done.
    sweep: Option<Option<Key>>,
    next_sweep: Time,
    evening: Evening,
}

/// The control plane. Does nothing until it leads.
#[derive(Default)]
pub struct Manager {
    leader: Option<Leader>,
    /// How far the log's clock was ahead of the steady one at the last step.
    ahead: Span,
}

impl Manager {
    /// A manager that does not lead yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// True while it leads.
    pub fn leads(&self) -> bool {
        self.leader.is_some()
    }

    /// The index of the state that decisions are based on; 0 while it does not lead.
    pub fn index(&self) -> Index {
        self.leader.as_ref().map_or(0, |l| l.flight.committed().index())
    }

    /// How many reports about single tasks were passed over since it leads.
    pub fn passed_over(&self) -> PassedOver {
        self.leader.as_ref().map_or_else(PassedOver::default, |l| l.dispatcher.passed_over())
    }

    /// True when another step at once would do more work.
    pub fn has_work(&self) -> bool {
        self.leader.as_ref().is_some_and(Leader::has_work)
    }

    /// The next moment at which a step is due although nothing happens.
    pub fn next_wake(&self) -> Option<Time> {
        let leader = self.leader.as_ref()?;
        // A look through everything that cannot go on, because too much is in flight, waits for that and for no moment: the next
        // one is not due before it is done.
        let sweep = leader.sweep.is_none().then_some(leader.next_sweep);
        let evening = leader.evening.next_wake(leader.flight.committed());
        // Should the log's clock have been set ahead meanwhile, this is too early, and harmless.
        let silence = leader.dispatcher.next_wake().map(|at| at + self.ahead);
        [leader.work.next_wake(), silence, sweep, evening].into_iter().flatten().min()
    }

    /// Takes in what happened and does a bounded amount of work.
    pub fn step(&mut self, input: Input, step: &mut Step<'_>) -> Vec<Effect> {
        self.ahead = step.now.since(step.steady);
        match input {
            Input::Lead(tables) => self.leader = Some(Leader::new(tables, step)),
            Input::Follow => self.leader = None,
            other => {
                let Some(leader) = &mut self.leader else { return Vec::new() };
                leader.take_in(other, step);
            }
        }
        let mut effects = Vec::new();
        if let Some(leader) = &mut self.leader {
            leader.run(step, &mut effects);
        }
        effects
    }
}

impl Leader {
    fn new(tables: Arc<Tables>, step: &Step<'_>) -> Self {
        Self {
            dispatcher: Dispatcher::lead(&tables, step.steady),
            flight: Flight::over(tables),
            work: Work::default(),
            placing: true,
            held: false,
            sweep: Some(None),
            next_sweep: step.now + SWEEP_EVERY,
            evening: Evening::begin(step.now),
        }
    }

    fn has_work(&self) -> bool {
        let room = self.flight.len() < IN_FLIGHT;
        room && (self.work.is_due() || self.placing || self.sweep.is_some())
    }

    fn take_in(&mut self, input: Input, step: &mut Step<'_>) {
        match input {
            Input::Applied { tables, events, outcomes } => self.applied(tables, &events, outcomes, step),
            Input::Lost(ticket) => self.lost(ticket, step),
            Input::Agent { node, conn, address, message } => {
                let from = From { node, conn, address };
                let tables = Arc::clone(self.flight.committed());
                self.dispatcher.receive(&tables, step.steady, from, message, step.new_id);
            }
            Input::Stalled(span) => self.dispatcher.pardon(span),
            Input::Tick | Input::Lead(_) | Input::Follow => {}
        }
    }

    fn applied(
        &mut self,
        tables: Arc<Tables>,
        events: &[Event],
        outcomes: Vec<(Ticket, Result<(), Refused>)>,
        step: &Step<'_>,
    ) {
        // The state first: what lands below may look at it. What has landed is in it or was refused, so that only the rest
        // is laid over it again.
        let mut landed = Vec::with_capacity(outcomes.len());
        for (ticket, outcome) in outcomes {
            if let Some((set, origin)) = self.flight.land(ticket) {
                landed.push((set, origin, outcome));
            }
        }
        // What was applied before this manager began to lead arrives late, and is known already.
        if tables.index() >= self.flight.committed().index() {
            self.flight.settle(tables, step.now);
        }
        for (set, origin, outcome) in landed {
            let refused = outcome.err().map(|r| r.to_string());
            self.landed(&set, origin, refused.as_deref(), step);
        }
        for event in events {
            keys_of(event, self.flight.view(), &mut |key| self.work.mark(key));
            self.placing |= scheduler::relevant(event, self.flight.view());
            if let Object::Task(task) = &event.object
                && let Some(node) = task.node
            {
                self.dispatcher.touch(node);
            }
        }
    }

    fn lost(&mut self, ticket: Ticket, step: &Step<'_>) {
        let Some((set, origin)) = self.flight.land(ticket) else { return };
        self.flight.settle(Arc::clone(self.flight.committed()), step.now);
        self.landed(&set, origin, Some("the proposal did not reach the log"), step);
    }

    /// The outcome of a proposal is known, and the view is without it or has it for good.
    fn landed(&mut self, set: &ChangeSet, origin: Origin, refused: Option<&str>, step: &Step<'_>) {
        self.placing |= std::mem::take(&mut self.held);
        if refused.is_some() {
            // While it was in flight, what it would have changed was left alone; nothing has happened to it, so no event says
            // that it must be looked at again.
            keys_of_refused(set, self.flight.view(), &mut |key| self.work.mark(key));
            self.placing = true;
        }
        match origin {
            Origin::Plan { key, more } if refused.is_none() => self.work.applied(key, more),
            Origin::Plan { key, .. } => self.work.refused(key, step.now),
            Origin::Placement => {}
            Origin::Dispatch(pending) => {
                let tables = Arc::clone(self.flight.committed());
                self.dispatcher.applied(&tables, step.steady, pending, refused);
            }
        }
    }

    fn run(&mut self, step: &mut Step<'_>, effects: &mut Vec<Effect>) {
        self.dispatcher.expire(&Arc::clone(self.flight.committed()), step.steady);
        self.work.wake_until(step.now);
        self.sweep_on(step.now);
        self.reconcile(step, effects);
        self.place(step.now, effects);
        self.even_out(step.now, effects);
        self.dispatcher.pull(&Arc::clone(self.flight.committed()));
        for act in self.dispatcher.take_acts() {
            match act {
                Act::Send(conn, message) => effects.push(Effect::Send(conn, message)),
                Act::Note(text) => effects.push(Effect::Note(text)),
                Act::Propose(set, pending) => {
                    self.propose(set, Origin::Dispatch(pending), step.now, effects);
                }
            }
        }
    }

    /// Marks the next slice of everything there is, while such a look through is under way.
    fn sweep_on(&mut self, now: Time) {
        if self.sweep.is_none() && self.next_sweep <= now {
            self.sweep = Some(None);
            self.next_sweep = now + SWEEP_EVERY;
        }
        let Some(after) = self.sweep else { return };
        if self.work.is_due() {
            return;
        }
        let keys = all_keys(self.flight.view(), after, SWEEP_SLICE);
        self.sweep = keys.last().map(|last| Some(*last));
        for key in keys {
            self.work.mark(key);
        }
    }

    fn reconcile(&mut self, step: &mut Step<'_>, effects: &mut Vec<Effect>) {
        for _ in 0..KEYS_A_STEP {
            if self.flight.len() >= IN_FLIGHT {
                return;
            }
            let Some(key) = self.work.take() else { return };
            let mut cx = Cx { now: step.now, new_id: &mut *step.new_id };
            let plan = reconcile(self.flight.view(), key, &mut cx);
            self.work.wake(key, plan.wake_at);
            if plan.set.changes.is_empty() {
                continue;
            }
            self.work.hold(key);
            self.propose(plan.set, Origin::Plan { key, more: plan.more }, step.now, effects);
        }
    }

    fn place(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if !self.placing || self.flight.len() >= IN_FLIGHT {
            return;
        }
        let placements = scheduler::schedule(self.flight.view(), &scheduler::Limits::default());
        self.placing = placements.more;
        self.held = placements.held;
        for set in placements.sets {
            self.propose(set, Origin::Placement, now, effects);
        }
    }

    /// Begins a round of rebalancing, when that is asked for and due and the cluster is at rest.
    fn even_out(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let rests = self.flight.len() == 0 && !self.has_work();
        if let Some(set) = self.evening.round(self.flight.committed(), now, rests) {
            self.propose(set, Origin::Placement, now, effects);
        }
    }

    fn propose(&mut self, set: ChangeSet, origin: Origin, now: Time, effects: &mut Vec<Effect>) {
        let ticket = self.flight.launch(set.clone(), origin, now);
        effects.push(Effect::Propose(ticket, set));
    }
}
