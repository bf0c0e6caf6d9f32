//! A small cluster for stories: real tables, the reconcilers, and beside them a scheduler and agents that
//! do the simplest thing. The clock stands still until a story moves it.
//!
//! What a task does is the command of its spec: `runs`, `exits CODE AFTER_MS`, `rejects`, `stuck` (never
//! gets ready), with `STOP_MS` in the environment for how long it takes to end when told to.

#![allow(dead_code, reason = "each test file uses its own part of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{
    Amount, Availability, Cluster, ClusterId, Constraint, Description, Desired, Disruption, DriverKind, Id,
    Index, Labels, Leave, LeaveReason, Meta, Mode, NamedResource, NamespaceId, Node, NodeId, NodeState,
    NodeStatus, ProgramSpec, ProgramState, ProgramStatus, ReplacePolicy, Resources, Revision, RevisionId,
    Role, Service, ServiceId, Slot, Span, Task, TaskId, TaskSpec, TaskState, Time, UpdateOrder, UpdatePolicy,
    UpdateState,
};
use orchestrator::{Cx, Key, PLAN_OBJECTS, all_keys, keys_of, keys_of_refused, reconcile};
use store::{Change, ChangeSet, Entry, Tables};

pub const MS: i64 = 1_000_000;
pub const SECOND: Span = Span::from_secs(1);

pub struct World {
    pub tables: Tables,
    pub now: Time,
    index: Index,
    ids: u128,
    marked: BTreeSet<Key>,
    wakes: BTreeMap<Key, Time>,
    stopping: BTreeMap<TaskId, Time>,
    /// How many plans are in flight at once.
    pub pipeline: usize,
    /// Whether each quiet moment is checked by a sweep over all keys.
    pub sweeps: bool,
    /// What others have in flight before the next plans are made: laid over their view, and then (true)
    /// applied before them, or (false) refused.
    pub flying: Vec<(ChangeSet, bool)>,
    /// What takes effect, unseen by them, between the making of the next plans and their own turn.
    pub intruding: Vec<ChangeSet>,
    /// How many plans were refused because the world had moved.
    pub refused: usize,
    /// Every change set that a reconciler made, in order.
    pub planned: Vec<ChangeSet>,
    /// Whether a slot may be filled by two tasks although no policy of its service says start-first.
    pub allow_doubles: bool,
    /// How many tasks one node has room for.
    pub room: usize,
    /// Looked at whenever plans have been applied.
    pub watch: Option<fn(&World)>,
}

/// A spec whose tasks do `command`.
pub fn spec(command: &str) -> TaskSpec {
    let words = command.split(' ').map(Arc::from).collect();
    let replace = ReplacePolicy { delay: Span::ZERO, ..ReplacePolicy::default() };
    TaskSpec { programs: vec![ProgramSpec::new(DriverKind::Mock, words)], replace, ..TaskSpec::default() }
}

pub fn with(mut spec: TaskSpec, change: impl FnOnce(&mut TaskSpec)) -> TaskSpec {
    change(&mut spec);
    spec
}

pub fn constrained(command: &str, constraint: &str) -> TaskSpec {
    let constraint: Constraint = constraint.parse().expect("a constraint");
    with(spec(command), |s| s.placement.constraints.push(constraint))
}

pub fn replicas(replicas: u32) -> Mode {
    Mode::Replicated { replicas }
}

impl World {
    /// A cluster with nodes of these names, all ready.
    pub fn new(nodes: &[&str]) -> Self {
        let mut world = Self {
            tables: Tables::new(),
            now: Time(1_000_000 * MS),
            index: 0,
            ids: 1000,
            marked: BTreeSet::new(),
            wakes: BTreeMap::new(),
            stopping: BTreeMap::new(),
            pipeline: 4,
            sweeps: true,
            flying: Vec::new(),
            intruding: Vec::new(),
            refused: 0,
            planned: Vec::new(),
            allow_doubles: false,
            room: usize::MAX,
            watch: None,
        };
        world.apply(vec![Change::PutCluster(Cluster::new(ClusterId::from_u128(1), "test"))]);
        for name in nodes {
            world.join(name);
        }
        world
    }

    fn id(&mut self) -> Id {
        self.ids += 1;
        Id::from_u128(self.ids)
    }

    // ---- what operators and machines do

    pub fn join(&mut self, name: &str) -> NodeId {
        let id = NodeId(self.id());
        let node = Node {
            id,
            meta: Meta::default(),
            role: Role::Worker,
            availability: Availability::Active,
            drain_until: None,
            labels: Labels::new(),
            description: Arc::new(Description {
                hostname: name.into(),
                resources: Resources { nano_cpus: 1_000, ..Resources::default() },
                ..Description::default()
            }),
            status: NodeStatus { state: NodeState::Ready, ..NodeStatus::default() },
        };
        self.apply(vec![Change::CreateNode(node)]);
        id
    }

    pub fn create(&mut self, mode: Mode, task: TaskSpec) -> ServiceId {
        self.create_with(mode, task, UpdatePolicy::default())
    }

    pub fn create_with(&mut self, mode: Mode, task: TaskSpec, update: UpdatePolicy) -> ServiceId {
        let id = ServiceId(self.id());
        let revision = RevisionId(self.id());
        let service = Service {
            id,
            meta: Meta::default(),
            namespace: NamespaceId::DEFAULT,
            job: None,
            name: format!("s{}", self.ids).into(),
            labels: Labels::new(),
            mode,
            update,
            rollback: UpdatePolicy::default(),
            revision,
            previous: None,
            update_status: None,
            priority: 50,
            steering: Default::default(),
            disruption: Default::default(),
        };
        let changes = vec![
            Change::CreateRevision(new_revision(revision, id, 1, task)),
            Change::CreateService(Box::new(service)),
        ];
        self.apply(changes);
        id
    }

    pub fn change_service(&mut self, id: ServiceId, change: impl FnOnce(&mut Service)) {
        let mut service = (**self.tables.service(id).expect("the service")).clone();
        change(&mut service);
        self.apply(vec![Change::UpdateService(Box::new(service))]);
    }

    /// A budget: so many tasks go on running, so many more than wanted may exist.
    pub fn budget(&mut self, id: ServiceId, min_healthy: &str, max_surge: u32) {
        let min_healthy = Amount::parse(min_healthy).expect("an amount");
        self.change_service(id, |s| s.disruption = Disruption { min_healthy, max_surge });
    }

    /// Somebody says that the task of a slot is better off on another node.
    pub fn better_on(&mut self, id: ServiceId, slot: u32, node: &str) {
        let task = self.filling(id, Slot::Number(slot)).expect("a task in the slot").id;
        let leave =
            Leave { why: LeaveReason::Rebalance, to: Some(self.node_named(node).id), since: Time::ZERO };
        self.apply(vec![Change::LeaveTask { task, leave: Some(leave) }]);
    }

    pub fn scale(&mut self, id: ServiceId, n: u32) {
        self.change_service(id, |s| s.mode = replicas(n));
    }

    pub fn update(&mut self, id: ServiceId, task: TaskSpec) {
        let mut service = (**self.tables.service(id).expect("the service")).clone();
        let number = self.tables.revision(service.revision).expect("its revision").number + 1;
        let number = number.max(service.previous.map_or(0, |id| self.number(id) + 1));
        service.revise(RevisionId(self.id()));
        let revision = new_revision(service.revision, id, number, task);
        self.apply(vec![Change::CreateRevision(revision), Change::UpdateService(Box::new(service))]);
    }

    pub fn roll_back(&mut self, id: ServiceId) {
        self.apply(vec![Change::RollBack { service: id, automatic: false, message: "as requested".into() }]);
    }

    pub fn promote(&mut self, id: ServiceId) {
        self.apply(vec![Change::Promote { service: id, message: "canaries promoted as requested".into() }]);
    }

    /// A rollback, when there is something to go back to.
    pub fn roll_back_if_there(&mut self, id: ServiceId) {
        if self.tables.service(id).is_some_and(|s| s.previous.is_some()) {
            self.roll_back(id);
        }
    }

    fn number(&self, revision: RevisionId) -> u64 {
        self.tables.revision(revision).expect("the revision").number
    }

    /// The state of a service's update with its message: `updating: update in progress`.
    pub fn update_state(&self, id: ServiceId) -> String {
        let service = self.tables.service(id).expect("the service");
        let status = service.update_status.as_ref();
        status.map_or_else(String::new, |s| format!("{}: {}", s.state, s.message))
    }

    pub fn state_of(&self, id: ServiceId) -> Option<UpdateState> {
        self.tables.service(id).expect("the service").update_status.as_ref().map(|s| s.state)
    }

    pub fn policies(&mut self, id: ServiceId, update: UpdatePolicy, rollback: UpdatePolicy) {
        self.change_service(id, |s| (s.update, s.rollback) = (update, rollback));
    }

    pub fn delete(&mut self, id: ServiceId) {
        self.apply(vec![Change::DeleteService(id)]);
    }

    pub fn node_named(&self, name: &str) -> Arc<Node> {
        let found = self.tables.nodes().find(|n| &*n.description.hostname == name);
        Arc::clone(found.expect("a node of this name"))
    }

    pub fn set_node(&mut self, name: &str, change: impl FnOnce(&mut Node)) {
        let mut node = (*self.node_named(name)).clone();
        change(&mut node);
        let (role, availability, labels) = (node.role, node.availability, node.labels);
        let drain_until = node.drain_until;
        self.apply(vec![Change::SetNode { node: node.id, role, availability, drain_until, labels }]);
    }

    pub fn availability(&mut self, name: &str, availability: Availability) {
        self.set_node(name, |n| n.availability = availability);
    }

    pub fn label(&mut self, name: &str, key: &str, value: &str) {
        let (key, value) = (key.into(), value.into());
        self.set_node(name, |n| drop(n.labels.insert(key, value)));
    }

    /// The agent of a node says this of its machine now.
    pub fn describe(&mut self, name: &str, change: impl FnOnce(&mut Description)) {
        let node = self.node_named(name);
        let mut description = Description::clone(&node.description);
        change(&mut description);
        self.apply(vec![Change::DescribeNode { node: node.id, description: Arc::new(description) }]);
    }

    pub fn state(&mut self, name: &str, state: NodeState) {
        let node = self.node_named(name).id;
        self.apply(vec![Change::SetNodeStatus {
            node,
            status: NodeStatus { state, ..NodeStatus::default() },
        }]);
    }

    pub fn remove_node(&mut self, name: &str) {
        let node = self.node_named(name).id;
        self.apply(vec![Change::DeleteNode(node)]);
    }

    pub fn change_cluster(&mut self, change: impl FnOnce(&mut Cluster)) {
        let mut cluster = (**self.tables.cluster().expect("a cluster")).clone();
        change(&mut cluster);
        self.apply(vec![Change::PutCluster(cluster)]);
    }

    /// The running task of a slot fails with this exit code.
    pub fn kill(&mut self, service: ServiceId, slot: u32, code: i32) -> TaskId {
        let task = self.filling(service, Slot::Number(slot)).expect("a task in the slot");
        self.report(&task, TaskState::Failed, Some(code));
        task.id
    }

    pub fn filling(&self, service: ServiceId, slot: Slot) -> Option<Arc<Task>> {
        self.tables.tasks_of_slot(service, slot).find(|t| t.fills_slot()).cloned()
    }

    // ---- the machinery

    /// Applies change sets as one entry and marks what their events concern.
    pub fn apply_sets(&mut self, sets: Vec<ChangeSet>) -> Vec<bool> {
        self.index += 1;
        let entry = Entry { feature_level: store::FEATURE_LEVEL, time: self.now, sets };
        let applied = self.tables.apply(self.index, &entry);
        for event in &applied.events {
            keys_of(event, &self.tables, &mut |key| {
                self.marked.insert(key);
            });
        }
        applied.results.into_iter().map(|r| r.is_ok()).collect()
    }

    pub fn apply(&mut self, changes: Vec<Change>) {
        let fine = self.apply_sets(vec![ChangeSet::of(changes)]);
        assert_eq!(fine, [true], "a change of the story itself was refused");
    }

    /// Reconciles marked keys, with up to `pipeline` plans in flight, until none is left.
    pub fn reconcile_marked(&mut self) {
        for round in 0.. {
            assert!(
                round < 20_000,
                "the reconcilers never come to rest: {:?}: {:?}",
                self.marked.first(),
                self.planned.last()
            );
            let keys: Vec<Key> = self.marked.iter().copied().take(self.pipeline).collect();
            if keys.is_empty() {
                return;
            }
            let mut view = self.tables.clone();
            let others = std::mem::take(&mut self.flying);
            let others: Vec<(ChangeSet, bool)> =
                others.into_iter().filter(|(set, _)| view.speculate(set, self.now).is_ok()).collect();
            let mut plans = Vec::new();
            for key in keys {
                self.marked.remove(&key);
                let plan = self.look_at(&view, key);
                self.wakes.remove(&key);
                if let Some(at) = plan.wake_at {
                    assert!(at > self.now, "{key:?} wants to be woken at once");
                    self.wakes.insert(key, at);
                }
                if plan.set.changes.is_empty() {
                    assert!(!plan.more, "{key:?} has more to do but does nothing");
                    continue;
                }
                view.speculate(&plan.set, self.now).expect("a plan fits the view it was made for");
                self.planned.push(plan.set.clone());
                plans.push((key, plan));
            }
            self.apply_flight(others, plans);
            self.check_slots();
        }
    }

    /// One entry: what others had in flight, what intrudes, then the plans.
    fn apply_flight(&mut self, others: Vec<(ChangeSet, bool)>, plans: Vec<(Key, orchestrator::Plan)>) {
        let (fine, unlucky): (Vec<_>, Vec<_>) = others.into_iter().partition(|(_, fine)| *fine);
        let mut sets: Vec<ChangeSet> = fine.into_iter().map(|(set, _)| set).collect();
        sets.append(&mut self.intruding);
        let before = sets.len();
        sets.extend(plans.iter().map(|(_, plan)| plan.set.clone()));
        let results = self.apply_sets(sets.clone());
        let mut refused: Vec<&ChangeSet> = unlucky.iter().map(|(set, _)| set).collect();
        refused.extend(sets.iter().zip(&results).filter(|(_, fine)| !**fine).map(|(set, _)| set));
        for set in refused {
            keys_of_refused(set, &self.tables, &mut |key| {
                self.marked.insert(key);
            });
        }
        for ((key, plan), fine) in plans.into_iter().zip(&results[before..]) {
            self.refused += usize::from(!fine);
            if plan.more || !fine {
                self.marked.insert(key);
            }
        }
    }

    pub fn look_at(&mut self, view: &Tables, key: Key) -> orchestrator::Plan {
        let ids = &mut self.ids;
        let mut new_id = || {
            *ids += 1;
            Id::from_u128(*ids)
        };
        let plan = reconcile(view, key, &mut Cx { now: self.now, new_id: &mut new_id });
        let objects = plan.set.changes.iter().filter(|c| !matches!(c, Change::Decide { .. })).count();
        assert!(objects <= PLAN_OBJECTS + 8, "{key:?} changes {objects} objects at once");
        assert!(plan.is_quiet() || plan.set.changes.iter().any(|c| !matches!(c, Change::Decide { .. })));
        plan
    }

    /// No slot is filled twice, but by a start-first update or a move, by two at most; and beside those by a canary.
    fn check_slots(&self) {
        // Mostly a counter tells that there is nothing to see.
        for service in self.tables.services().filter(|s| self.tables.service_use(s.id).doubled() > 0) {
            let start_first = |p: &UpdatePolicy| p.order == UpdateOrder::StartFirst;
            let moved = !service.disruption.is_none()
                || self.tables.tasks_of_service(service.id).any(|t| t.leave.is_some());
            let doubles =
                self.allow_doubles || moved || start_first(&service.update) || start_first(&service.rollback);
            let canary =
                service.update.canary > 0 || service.update_status.as_ref().is_some_and(|u| u.canary > 0);
            let mut filling: BTreeMap<Slot, usize> = BTreeMap::new();
            for task in self.tables.tasks_of_service(service.id).filter(|t| t.fills_slot()) {
                *filling.entry(task.slot).or_default() += 1;
            }
            let most = 1 + usize::from(doubles) + usize::from(canary);
            let fine = filling.values().all(|n| *n <= most);
            assert!(fine, "a slot is filled more than {most} times: {}", self.show(service.id));
        }
        if let Some(watch) = self.watch {
            watch(self);
        }
    }

    /// The manager dies and another one takes over: it knows the store and nothing else.
    pub fn take_over(&mut self) {
        self.marked.clear();
        self.wakes.clear();
        let view = self.tables.clone();
        let mut after = None;
        loop {
            let keys = all_keys(&view, after, 5);
            after = keys.last().copied();
            self.marked.extend(&keys);
            if keys.len() < 5 {
                return;
            }
        }
    }

    /// Everything that happens without the clock moving on: reconcilers, scheduler, agents, until all are
    /// quiet. Then a sweep over all keys must find nothing.
    pub fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "the cluster never comes to rest");
            self.reconcile_marked();
            let busy = self.schedule() | self.run_agents();
            if !busy && self.marked.is_empty() {
                break;
            }
        }
        if self.sweeps {
            self.sweep();
        }
    }

    pub fn sweep(&mut self) {
        let view = self.tables.clone();
        let mut after = None;
        let mut seen = BTreeSet::new();
        loop {
            let keys = all_keys(&view, after, 7);
            for key in &keys {
                assert!(after < Some(*key) && seen.insert(*key), "keys come in order, each once: {key:?}");
                after = Some(*key);
                let plan = self.look_at(&view, *key);
                if !plan.is_quiet() {
                    let show =
                        |s: &Arc<Service>| format!("{} ({})", self.show(s.id), self.update_state(s.id));
                    let shown: Vec<String> = view.services().map(show).collect();
                    panic!("the sweep finds {key:?}: {:#?}\n{}", plan.set, shown.join("\n"));
                }
            }
            if keys.len() < 7 {
                return;
            }
        }
    }

    /// Lets time pass, with everything that happens meanwhile.
    pub fn pass(&mut self, span: Span) {
        let end = self.now + span;
        self.settle();
        while let Some(next) = self.next_moment().filter(|at| *at <= end) {
            self.now = self.now.max(next);
            let due: Vec<Key> =
                self.wakes.iter().filter(|(_, at)| **at <= self.now).map(|(k, _)| *k).collect();
            for key in due {
                self.wakes.remove(&key);
                self.marked.insert(key);
            }
            self.settle();
        }
        self.now = end;
    }

    fn next_moment(&self) -> Option<Time> {
        let ends = self.tables.tasks().filter_map(|task| self.agent_moment(task)).filter(|at| *at > self.now);
        ends.chain(self.wakes.values().copied()).min()
    }

    // ---- the scheduler

    fn schedule(&mut self) -> bool {
        let mut busy = false;
        while let Some(change) = self.placement() {
            self.apply(vec![change]);
            busy = true;
        }
        busy
    }

    /// The next task that waits and can be placed: of all nodes that take it the one with fewest of its
    /// service.
    pub fn placement(&self) -> Option<Change> {
        for task in self.tables.tasks_waiting() {
            let spec = Arc::clone(&self.tables.revision(task.revision).expect("its revision").task);
            let reserves = spec.reservation();
            let fits = |node: &Node| {
                node.takes_tasks()
                    && self.tables.node_use(node.id).active() < u32::try_from(self.room).unwrap_or(u32::MAX)
                    && task.node.is_none_or(|id| id == node.id)
                    && spec.placement.constraints.iter().all(|c| c.holds(node))
                    && (spec.placement.platforms.is_empty()
                        || spec.placement.platforms.iter().any(|p| p.runs_on(&node.description.platform)))
                    && spec.mounts.iter().all(|mount| {
                        let users = self.tables.node_use(node.id).users(&mount.volume);
                        let volume = node.description.volumes.get(&mount.volume);
                        volume.is_some_and(|volume| volume.lack(users, mount.read_only).is_none())
                    })
                    && node.description.resources.fits(self.tables.node_use(node.id).reserved(), &reserves)
            };
            let of_service = |id: NodeId| {
                let tasks = self.tables.tasks_of_node(id);
                tasks.filter(|t| t.service == task.service && t.holds_reservation()).count()
            };
            let nodes = self.tables.nodes().filter(|n| fits(n));
            let Some(node) = nodes.map(|n| n.id).min_by_key(|id| (of_service(*id), *id)) else { continue };
            return Some(Change::AssignTask {
                task: task.id,
                node,
                ports: Box::default(),
                named: self.names_for(node, &reserves),
            });
        }
        None
    }

    /// The named resources that a task gets: the first ones that are free.
    fn names_for(&self, node: NodeId, reserves: &Resources) -> Box<[NamedResource]> {
        let (node, used) = self.tables.node_with_use(node).expect("the node");
        let mut given: BTreeMap<Arc<str>, i64> = BTreeMap::new();
        let free = node.description.each_named().filter(|one| used.holder_of(one).is_none());
        free.filter(|one| {
            let given = given.entry(Arc::clone(&one.kind)).or_default();
            *given += 1;
            *given <= reserves.generic.get(&one.kind).copied().unwrap_or(0)
        })
        .collect()
    }

    // ---- the agents

    fn words(&self, task: &Task) -> Vec<Arc<str>> {
        self.tables.revision(task.revision).expect("its revision").task.programs[0].command.clone()
    }

    fn reachable(&self, task: &Task) -> bool {
        let node = task.node.and_then(|id| self.tables.node(id));
        task.holds_reservation() && node.is_some_and(|n| n.status.state == NodeState::Ready)
    }

    /// When an agent does something about a task by itself.
    fn agent_moment(&self, task: &Task) -> Option<Time> {
        if !self.reachable(task) {
            return None;
        }
        if !task.desired.is_wanted() {
            return Some(self.stopping.get(&task.id).copied().unwrap_or(self.now) + self.stop_time(task));
        }
        let words = self.words(task);
        if task.status.state != TaskState::Running || &*words[0] != "exits" {
            return None;
        }
        Some(task.status.applied_at + Span::from_millis(words[2].parse().expect("milliseconds")))
    }

    fn stop_time(&self, task: &Task) -> Span {
        let spec = &self.tables.revision(task.revision).expect("its revision").task;
        let text = spec.programs[0].env.get("STOP_MS");
        Span::from_millis(text.map_or(0, |t| t.parse().expect("milliseconds")))
    }

    fn run_agents(&mut self) -> bool {
        let tasks: Vec<Arc<Task>> = self.tables.tasks().filter(|t| self.reachable(t)).cloned().collect();
        let mut busy = false;
        for task in tasks {
            busy |= self.run_agent(&task);
        }
        busy
    }

    /// One step of one task; true when there was one to take.
    fn run_agent(&mut self, task: &Arc<Task>) -> bool {
        if !task.desired.is_wanted() {
            self.stopping.entry(task.id).or_insert(self.now);
        }
        let due = self.agent_moment(task).is_some_and(|at| at <= self.now);
        let words = self.words(task);
        let next = match (task.status.state, task.desired) {
            (_, Desired::Shutdown | Desired::Remove) if due => TaskState::Shutdown,
            (_, Desired::Shutdown | Desired::Remove) => return false,
            (TaskState::Running, _) if due => {
                let code: i32 = words[1].parse().expect("an exit code");
                self.report(
                    task,
                    if code == 0 { TaskState::Complete } else { TaskState::Failed },
                    Some(code),
                );
                return true;
            }
            (TaskState::Assigned, _) => TaskState::Preparing,
            (TaskState::Preparing, _) if &*words[0] == "rejects" => TaskState::Rejected,
            (TaskState::Preparing, _) if &*words[0] != "stuck" => TaskState::Ready,
            (TaskState::Ready, Desired::Running) => TaskState::Running,
            _ => return false,
        };
        self.report(task, next, None);
        true
    }

    pub fn report(&mut self, task: &Task, state: TaskState, exit_code: Option<i32>) {
        let known = task.programs.first();
        let mut program = known
            .cloned()
            .unwrap_or_else(|| ProgramStatus { name: "main".into(), ..ProgramStatus::default() });
        if state == TaskState::Running {
            (program.state, program.started_at) = (ProgramState::Running, self.now);
        } else if state.is_ended() {
            (program.state, program.ended_at) = (ProgramState::Dead, self.now);
            program.failed = state == TaskState::Failed;
            program.exit_code = exit_code;
        }
        let change = Change::ReportTask {
            task: task.id,
            node: task.node.expect("its node"),
            state,
            at: self.now,
            message: (state == TaskState::Rejected).then(|| "no such thing".into()),
            programs: Box::new([program]),
        };
        self.apply(vec![change]);
    }

    // ---- what a story looks at

    /// Each slot with its tasks, oldest first: `1: failed, running@a; 2: running@b`. A task that is not
    /// wanted to run has its desired state after an arrow; the node is shown while it is held.
    pub fn show(&self, service: ServiceId) -> String {
        let mut slots: Vec<(Slot, Vec<String>)> = Vec::new();
        for task in self.tables.tasks_of_service(service) {
            let mut text = task.status.state.to_string();
            if task.desired != Desired::Running && !task.status.state.is_ended() {
                text += &format!("->{}", task.desired);
            }
            if task.holds_reservation() {
                text += &format!("@{}", self.node_name(task.node.expect("its node")));
            }
            match slots.last_mut() {
                Some((slot, texts)) if *slot == task.slot => texts.push(text),
                _ => slots.push((task.slot, vec![text])),
            }
        }
        let one = |(slot, texts): (Slot, Vec<String>)| {
            let name = match slot {
                Slot::Number(_) => slot.to_string(),
                Slot::Node(id) => self.node_name(id),
            };
            format!("{name}: {}", texts.join(", "))
        };
        slots.into_iter().map(one).collect::<Vec<_>>().join("; ")
    }

    fn node_name(&self, id: NodeId) -> String {
        self.tables.node(id).map_or_else(|| "gone".into(), |n| n.description.hostname.to_string())
    }

    pub fn running(&self, service: ServiceId) -> u32 {
        self.tables.service_use(service).running()
    }

    /// The number of the revision that each running task has, by slot.
    pub fn revisions(&self, service: ServiceId) -> Vec<u64> {
        let running = |t: &&Arc<Task>| t.status.state == TaskState::Running && t.desired.is_wanted();
        let tasks = self.tables.tasks_of_service(service).filter(running);
        tasks.map(|t| self.tables.revision(t.revision).expect("its revision").number).collect()
    }

    pub fn ended(&self, service: ServiceId) -> usize {
        self.tables.tasks_of_service(service).filter(|t| t.status.state.is_ended()).count()
    }

    /// The last decisions: `rule: text`.
    pub fn decisions(&self, service: ServiceId) -> Vec<String> {
        self.tables.decisions(service).map(|d| format!("{}: {}", d.rule, d.text)).collect()
    }
}

fn new_revision(id: RevisionId, service: ServiceId, number: u64, task: TaskSpec) -> Revision {
    Revision { id, service, number, created_at: Time::ZERO, created: 0, task: Arc::new(task) }
}
