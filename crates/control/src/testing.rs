//! A cluster in memory, for tests: tables, a log of events, and nobody who acts on them. Only with the feature `testing`.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use model::{
    Availability, Description, Desired, Forecast, Id, Index, Labels, Meta, Node, NodeId, NodeState,
    NodeStatus, Rebalance, Resources, Role, ServiceId, Slot, TaskId, TaskState, Time, Verdict,
};
use store::{Change, ChangeSet, Entry, EventId, EventLog, FEATURE_LEVEL, Gone, KeptEvent, Tables};

use crate::whatif::Wish;
use crate::{BoxFuture, Cluster, Info, LogError, LogItem, LogQuery, LogStream, ProposeError, RequestError};

/// A cluster in memory. Each proposal is applied at once, in an entry of its own.
#[derive(Default)]
pub struct MemoryCluster {
    state: Mutex<State>,
    next_id: AtomicU64,
}

#[derive(Default)]
struct State {
    tables: Arc<Tables>,
    events: EventLog,
    waiting: Vec<Waker>,
    now: Time,
    proposed: u64,
    /// Answers that the next proposals get instead of being applied.
    failures: VecDeque<ProposeError>,
    /// Run before the next proposals are applied: what another client does in between.
    meddlers: VecDeque<ChangeSet>,
    verdicts: Vec<Verdict>,
    forecast: Forecast,
    rebalance: Rebalance,
    logs: Vec<LogItem>,
    info: Info,
}

impl MemoryCluster {
    /// An empty one, whose clock stands at this moment.
    pub fn new(now: Time) -> Self {
        let cluster = Self::default();
        cluster.state().now = now;
        cluster
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the clock.
    pub fn set_now(&self, now: Time) {
        self.state().now = now;
    }

    /// How many proposals were made.
    pub fn proposed(&self) -> u64 {
        self.state().proposed
    }

    /// The next proposal is answered so, and not applied.
    pub fn fail_next(&self, error: ProposeError) {
        self.state().failures.push_back(error);
    }

    /// Somebody else's change set is applied just before the next proposal.
    pub fn meddle_next(&self, set: ChangeSet) {
        self.state().meddlers.push_back(set);
    }

    /// What every node says from now on.
    pub fn set_verdicts(&self, verdicts: Vec<Verdict>) {
        self.state().verdicts = verdicts;
    }

    /// What every wish comes to from now on.
    pub fn set_forecast(&self, forecast: Forecast) {
        self.state().forecast = forecast;
    }

    /// Which moves are found from now on.
    pub fn set_rebalance(&self, rebalance: Rebalance) {
        self.state().rebalance = rebalance;
    }

    /// What every log has from now on.
    pub fn set_logs(&self, logs: Vec<LogItem>) {
        self.state().logs = logs;
    }

    /// Which node this daemon is.
    pub fn set_node(&self, node: NodeId) {
        self.state().info.node = node;
    }

    /// Adds a node that is ready, with room for 4 CPUs and 8 GiB.
    pub fn add_node(&self, hostname: &str) -> NodeId {
        let id = NodeId(self.new_id());
        let resources = Resources { nano_cpus: 4_000_000_000, memory: 8 << 30, ..Resources::default() };
        let description = Description { hostname: hostname.into(), resources, ..Description::default() };
        self.apply(ChangeSet::of(vec![Change::CreateNode(Node {
            id,
            meta: Meta::default(),
            role: Role::Worker,
            availability: Availability::Active,
            drain_until: None,
            labels: Labels::new(),
            description: Arc::new(description),
            status: NodeStatus { state: NodeState::Ready, ..NodeStatus::default() },
        })]));
        id
    }

    /// Adds a task that waits for a node.
    ///
    /// # Panics
    /// There is no such service.
    pub fn add_task(&self, service: ServiceId, slot: Slot) -> TaskId {
        let id = TaskId(self.new_id());
        let revision = self.snapshot().service(service).expect("the service of a test is there").revision;
        self.apply(ChangeSet::of(vec![Change::CreateTask {
            id,
            service,
            slot,
            revision,
            node: if let Slot::Node(node) = slot { Some(node) } else { None },
            desired: Desired::Running,
            start_after: None,
        }]));
        id
    }

    /// Gives a task its node.
    pub fn assign(&self, task: TaskId, node: NodeId) {
        self.apply(ChangeSet::of(vec![Change::AssignTask {
            task,
            node,
            ports: Box::default(),
            named: Box::default(),
        }]));
    }

    /// Reports what a task has reached, as its agent would.
    ///
    /// # Panics
    /// There is no such task, or it has no node.
    pub fn report(&self, task: TaskId, state: TaskState, message: Option<&str>) {
        let node = self.snapshot().task(task).and_then(|t| t.node).expect("the task of a test has a node");
        self.apply(ChangeSet::of(vec![Change::ReportTask {
            task,
            node,
            state,
            at: self.now(),
            message: message.map(Into::into),
            programs: Box::default(),
        }]));
    }

    /// Applies a change set that must be accepted, as the cluster itself would.
    ///
    /// # Panics
    /// It was refused.
    pub fn apply(&self, set: ChangeSet) -> Index {
        let (result, wakers) = self.state().apply(set);
        wakers.into_iter().for_each(Waker::wake);
        result.expect("the change set of a test is accepted")
    }
}

impl State {
    /// Applies a set; whoever waits is to be woken once the lock is released, for a refused entry moves the index as well.
    fn apply(&mut self, set: ChangeSet) -> (Result<Index, ProposeError>, Vec<Waker>) {
        let index = self.tables.index() + 1;
        let mut tables = (*self.tables).clone();
        let entry = Entry { feature_level: FEATURE_LEVEL, time: self.now, sets: vec![set] };
        let applied = tables.apply(index, &entry);
        self.events.push(&applied.events, &tables);
        self.tables = Arc::new(tables);
        let refused = applied.results.into_iter().find_map(Result::err);
        (refused.map_or(Ok(index), |refused| Err(refused.into())), std::mem::take(&mut self.waiting))
    }
}

impl Cluster for MemoryCluster {
    fn snapshot(&self) -> Arc<Tables> {
        Arc::clone(&self.state().tables)
    }

    fn propose(&self, set: ChangeSet) -> BoxFuture<'_, Result<Index, ProposeError>> {
        Box::pin(async move {
            let (result, wakers) = {
                let mut state = self.state();
                state.proposed += 1;
                if let Some(error) = state.failures.pop_front() {
                    return Err(error);
                }
                let mut wakers = Vec::new();
                if let Some(other) = state.meddlers.pop_front() {
                    let (result, woken) = state.apply(other);
                    result?;
                    wakers = woken;
                }
                let (result, woken) = state.apply(set);
                wakers.extend(woken);
                (result, wakers)
            };
            wakers.into_iter().for_each(Waker::wake);
            result
        })
    }

    fn beyond(&self, after: Index) -> BoxFuture<'_, Index> {
        Box::pin(Beyond { cluster: self, after })
    }

    fn events_after(&self, id: EventId, limit: usize) -> Result<Vec<KeptEvent>, Gone> {
        self.state().events.after(id, limit)
    }

    fn now(&self) -> Time {
        self.state().now
    }

    fn new_id(&self) -> Id {
        // Spread over the whole range, so that short prefixes tell ids apart as they do in life.
        let n = u128::from(self.next_id.fetch_add(1, Ordering::Relaxed)) + 1;
        Id::from_u128(n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
    }

    fn verdicts(&self, _: TaskId) -> Vec<Verdict> {
        self.state().verdicts.clone()
    }

    fn forecast(&self, mut wish: Wish) -> BoxFuture<'_, Result<Forecast, RequestError>> {
        let tables = self.snapshot();
        Box::pin(async move {
            Ok(match wish(&tables, &mut || self.new_id())? {
                Some(_) => Forecast { index: tables.index(), ..self.state().forecast.clone() },
                None => Forecast::nothing(tables.index()),
            })
        })
    }

    fn rebalance(&self, threshold: u32) -> BoxFuture<'_, Result<Rebalance, RequestError>> {
        let index = self.snapshot().index();
        let rebalance = Rebalance { index, threshold, ..self.state().rebalance.clone() };
        Box::pin(std::future::ready(Ok(rebalance)))
    }

    fn logs(&self, query: LogQuery) -> BoxFuture<'_, Result<Box<dyn LogStream>, LogError>> {
        let mut lines: VecDeque<LogItem> = self.state().logs.clone().into();
        let tail = query.tail.map_or(usize::MAX, |n| n as usize);
        lines.drain(..lines.len().saturating_sub(tail));
        if let Some(since) = query.since {
            lines.retain(|item| !matches!(item, LogItem::Line(line) if line.at < since));
        }
        Box::pin(async move { Ok(Box::new(Lines { lines, follow: query.follow }) as Box<dyn LogStream>) })
    }

    fn info(&self) -> Info {
        Info { leads: true, version: "0.1.0".into(), hostname: "here".into(), ..self.state().info.clone() }
    }
}

struct Beyond<'a> {
    cluster: &'a MemoryCluster,
    after: Index,
}

impl Future for Beyond<'_> {
    type Output = Index;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Index> {
        let mut state = self.cluster.state();
        let index = state.tables.index();
        if index > self.after {
            return Poll::Ready(index);
        }
        state.waiting.push(cx.waker().clone());
        Poll::Pending
    }
}

struct Lines {
    lines: VecDeque<LogItem>,
    follow: bool,
}

impl LogStream for Lines {
    fn next(&mut self) -> BoxFuture<'_, Option<LogItem>> {
        let next = self.lines.pop_front();
        if next.is_none() && self.follow {
            return Box::pin(std::future::pending());
        }
        Box::pin(std::future::ready(next))
    }
}
