//! Every kind of value with every field set to something, from a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{
    Affinity, Amount, Availability, BoundPort, Cluster, ClusterId, Condition, Constraint, ConstraintKey,
    Description, Desired, Disruption, DriverInfo, DriverKind, FailureAction, FilterKind, Id, Job, JobId,
    Labels, Leave, LeaveReason, Lifecycle, Limits, LogPolicy, Meta, Mode, Mount, NamedResource, Namespace,
    NamespaceId, Node, NodeId, NodeState, NodeStatus, Operator, Placement, Platform, PortMode, PortSpec,
    Preference, ProgramEvent, ProgramSpec, ProgramState, ProgramStatus, Protocol, Ratio, Refusal,
    ReplacePolicy, Resources, RestartPolicy, Revision, RevisionId, Role, Rule, Service, ServiceId, Sharing,
    Slot, Span, Steering, Strategy, Target, TaskId, TaskSpec, TaskState, Time, Unplaced, UpdateOrder,
    UpdatePolicy, UpdateState, UpdateStatus, Volume,
};
use store::{Change, ChangeSet, Entry, FEATURE_LEVEL, Guard, ObjectId};

/// A source of values: SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn yes(&mut self) -> bool {
        self.below(2) == 0
    }

    pub fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[usize::try_from(self.below(values.len() as u64)).expect("a small index")]
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.yes() { Some(make(self)) } else { None }
    }

    fn list<T, C: FromIterator<T>>(&mut self, make: impl Fn(&mut Self) -> T) -> C {
        (0..self.below(4)).map(|_| make(self)).collect()
    }

    fn small(&mut self) -> u32 {
        match self.below(3) {
            0 => 0,
            1 => u32::try_from(self.below(300)).expect("a small number"),
            _ => self.next() as u32,
        }
    }

    fn signed(&mut self) -> i64 {
        match self.below(3) {
            0 => 0,
            1 => self.below(1000) as i64 - 500,
            _ => self.next() as i64,
        }
    }

    pub fn text(&mut self) -> Arc<str> {
        let words = ["", "main", "web", "started", "Grüße, 世界", "no suitable node", "\u{0}\n\t\""];
        match self.below(4) {
            0 => self.pick(&words).into(),
            1 => "long ".repeat(1 + self.below(60) as usize).into(),
            _ => format!("{}-{}", self.pick(&words), self.below(50)).into(),
        }
    }

    fn id(&mut self) -> Id {
        match self.below(4) {
            0 => Id::from_u128(u128::from(self.below(3))),
            _ => Id::from_u128(u128::from(self.next()) << 64 | u128::from(self.next())),
        }
    }

    fn time(&mut self) -> Time {
        Time(self.signed())
    }

    fn span(&mut self) -> Span {
        Span(self.signed())
    }

    fn labels(&mut self) -> Labels {
        self.list(|r| (r.text(), r.text()))
    }

    fn meta(&mut self) -> Meta {
        Meta {
            created: self.next(),
            modified: u64::from(self.small()),
            created_at: self.time(),
            modified_at: self.time(),
        }
    }

    pub fn resources(&mut self) -> Resources {
        let generic: BTreeMap<_, _> = self.list(|r| (r.text(), r.signed()));
        Resources { nano_cpus: self.signed(), memory: self.signed(), generic }
    }

    fn program(&mut self) -> ProgramSpec {
        use Lifecycle::{Main, Poststart, Poststop, Prestart, Sidecar};
        ProgramSpec {
            name: self.text(),
            driver: self.pick(&[DriverKind::Exec, DriverKind::Mock]),
            lifecycle: self.pick(&[Prestart, Sidecar, Main, Poststart, Poststop]),
            command: self.list(Self::text),
            env: self.labels(),
            dir: self.maybe(Self::text),
            user: self.maybe(Self::text),
            limits: Limits { nano_cpus: self.signed(), memory: self.signed(), pids: self.signed() },
            reserve: self.resources(),
            stop_signal: self.maybe(Self::text),
            stop_grace: self.span(),
            restart: RestartPolicy { attempts: self.small(), window: self.span(), delay: self.span() },
            log: LogPolicy { max_bytes: self.next(), files: self.small() },
        }
    }

    fn constraint(&mut self) -> Constraint {
        let label = self.text();
        let key = match self.below(8) {
            0 => ConstraintKey::NodeId,
            1 => ConstraintKey::Hostname,
            2 => ConstraintKey::Ip,
            3 => ConstraintKey::Role,
            4 => ConstraintKey::Os,
            5 => ConstraintKey::Arch,
            6 => ConstraintKey::NodeLabel(label),
            _ => ConstraintKey::EngineLabel(label),
        };
        Constraint::of(key, self.pick(&[Operator::Equal, Operator::Different]), self.text())
    }

    fn port(&mut self) -> PortSpec {
        PortSpec {
            name: self.text(),
            protocol: self.pick(&[Protocol::Tcp, Protocol::Udp]),
            target: self.next() as u16,
            published: self.next() as u16,
            mode: PortMode::Host,
        }
    }

    pub fn task_spec(&mut self) -> TaskSpec {
        TaskSpec {
            programs: self.list(Self::program),
            replace: ReplacePolicy {
                condition: self.pick(&[Condition::None, Condition::OnFailure, Condition::Any]),
                delay: self.span(),
                max_attempts: self.small(),
                window: self.span(),
            },
            placement: Placement {
                constraints: self.list(Self::constraint),
                max_replicas: self.small(),
                platforms: self.list(|r| Platform { os: r.text(), arch: r.text() }),
            },
            ports: self.list(Self::port),
            mounts: self.list(|r| Mount { volume: r.text(), read_only: r.yes() }),
            force: self.next(),
        }
    }

    fn description(&mut self) -> Arc<Description> {
        Arc::new(Description {
            hostname: self.text(),
            platform: Platform { os: self.text(), arch: self.text() },
            resources: self.resources(),
            drivers: self.list(|r| DriverInfo {
                name: r.text(),
                healthy: r.yes(),
                notes: r.list(Self::text),
            }),
            engine_labels: self.labels(),
            version: self.text(),
            named: self.names(),
            volumes: self.volumes(),
        })
    }

    fn node_status(&mut self) -> NodeStatus {
        use NodeState::{Disconnected, Down, Ready, Unknown};
        NodeStatus {
            state: self.pick(&[Unknown, Ready, Down, Disconnected]),
            message: self.text(),
            address: self.text(),
            since: self.time(),
        }
    }

    fn role(&mut self) -> Role {
        self.pick(&[Role::Worker, Role::Manager])
    }

    fn availability(&mut self) -> Availability {
        self.pick(&[Availability::Active, Availability::Pause, Availability::Drain])
    }

    fn node(&mut self) -> Node {
        Node {
            id: NodeId(self.id()),
            meta: self.meta(),
            role: self.role(),
            availability: self.availability(),
            drain_until: self.maybe(Self::time),
            labels: self.labels(),
            description: self.description(),
            status: self.node_status(),
        }
    }

    fn service(&mut self) -> Service {
        let (completions, concurrency) = (self.small(), self.small());
        let modes = [
            Mode::Replicated { replicas: completions },
            Mode::Global,
            Mode::Batch { completions, concurrency },
            Mode::GlobalBatch,
        ];
        Service {
            id: ServiceId(self.id()),
            meta: self.meta(),
            namespace: NamespaceId(self.id()),
            job: self.maybe(|r| JobId(r.id())),
            name: self.text(),
            labels: self.labels(),
            mode: self.pick(&modes),
            update: self.policy(),
            rollback: self.policy(),
            revision: RevisionId(self.id()),
            previous: self.maybe(|r| RevisionId(r.id())),
            update_status: self.maybe(Self::update_status),
            priority: self.next() as u8,
            steering: self.steering(),
            disruption: Disruption {
                min_healthy: if self.yes() {
                    Amount::Count(self.small())
                } else {
                    Amount::Percent(self.below(101) as u8)
                },
                max_surge: self.small(),
            },
        }
    }

    fn steering(&mut self) -> Steering {
        let target = |r: &mut Self| Target { value: r.text(), percent: r.next() as u8 };
        Steering {
            preferences: self.list(|r| Preference { over: r.constraint().key, targets: r.list(target) }),
            affinities: self.list(|r| Affinity { to: r.constraint(), weight: r.next() as i8 }),
            strategy: self.maybe(|r| r.pick(&[Strategy::Spread, Strategy::Binpack])),
            preempt: self.yes(),
        }
    }

    fn policy(&mut self) -> UpdatePolicy {
        UpdatePolicy {
            parallelism: self.small(),
            delay: self.span(),
            monitor: self.span(),
            max_failure_ratio: Ratio::from_millionths((self.next() % 1_000_001) as u32).expect("at most all"),
            order: self.pick(UpdateOrder::ALL),
            failure_action: self.pick(FailureAction::ALL),
            canary: self.small(),
            auto_promote: self.yes(),
            promote_within: self.span(),
        }
    }

    fn update_status(&mut self) -> UpdateStatus {
        UpdateStatus {
            state: self.pick(UpdateState::ALL),
            began: self.next(),
            started_at: self.time(),
            completed_at: self.time(),
            automatic: self.yes(),
            since: self.time(),
            canary: self.small(),
            unproven: self.maybe(|r| RevisionId(r.id())),
            newest: self.next(),
            message: self.text(),
        }
    }

    pub fn program_status(&mut self) -> ProgramStatus {
        ProgramStatus {
            name: self.text(),
            state: self.pick(&[ProgramState::Pending, ProgramState::Running, ProgramState::Dead]),
            failed: self.yes(),
            pid: self.small(),
            exit_code: self.maybe(|r| r.next() as i32),
            signal: self.maybe(|r| r.next() as i32),
            oom: self.yes(),
            restarts: self.small(),
            started_at: self.time(),
            ended_at: self.time(),
            events: self.list(|r| ProgramEvent { at: r.time(), message: r.text() }),
        }
    }

    pub fn unplaced(&mut self) -> Arc<Unplaced> {
        let refusal =
            |r: &mut Self| Refusal { filter: r.pick(FilterKind::ALL), nodes: r.small(), text: r.text() };
        Arc::new(Unplaced { refusals: self.list(refusal) })
    }

    fn slot(&mut self) -> Slot {
        if self.yes() { Slot::Number(self.small()) } else { Slot::Node(NodeId(self.id())) }
    }

    pub fn bound_port(&mut self) -> BoundPort {
        BoundPort {
            name: self.text(),
            protocol: self.pick(&[Protocol::Tcp, Protocol::Udp]),
            port: self.next() as u16,
        }
    }

    fn volumes(&mut self) -> BTreeMap<Arc<str>, Volume> {
        let one = |r: &mut Self| {
            let sharing = r.pick(&Sharing::ALL);
            (r.text(), Volume { path: r.text(), read_only: r.yes(), sharing })
        };
        self.list::<_, Vec<_>>(one).into_iter().collect()
    }

    fn names(&mut self) -> BTreeMap<Arc<str>, BTreeSet<Arc<str>>> {
        let mut names = BTreeMap::<_, BTreeSet<_>>::new();
        for NamedResource { kind, value } in self.list::<NamedResource, Vec<_>>(Self::named) {
            names.entry(kind).or_default().insert(value);
        }
        names
    }

    fn named(&mut self) -> NamedResource {
        NamedResource { kind: self.text(), value: self.text() }
    }

    fn state(&mut self) -> TaskState {
        self.pick(&TaskState::ALL)
    }

    /// A change of the kind with this number, of [`KINDS`].
    pub fn change(&mut self, kind: u64) -> Change {
        let (task, node) = (TaskId(self.id()), NodeId(self.id()));
        match kind {
            0 => Change::PutCluster(Cluster {
                id: ClusterId(self.id()),
                meta: self.meta(),
                name: self.text(),
                heartbeat: self.span(),
                orphan_after: self.span(),
                history: self.small(),
                rebalance: self.maybe(|r| r.small().max(1)),
                history_failed: self.small(),
                history_age: self.span(),
                strategy: self.pick(&[Strategy::Spread, Strategy::Binpack]),
            }),
            1 => Change::PutNamespace(Namespace {
                id: NamespaceId(self.id()),
                meta: self.meta(),
                name: self.text(),
                description: self.text(),
            }),
            2 => Change::DeleteNamespace(NamespaceId(self.id())),
            3 => Change::CreateNode(self.node()),
            4 => Change::SetNode {
                node,
                role: self.role(),
                availability: self.availability(),
                drain_until: self.maybe(Self::time),
                labels: self.labels(),
            },
            5 => Change::DescribeNode { node, description: self.description() },
            6 => Change::SetNodeStatus { node, status: self.node_status() },
            7 => Change::DeleteNode(node),
            8 => Change::PutJob(Job {
                id: JobId(self.id()),
                meta: self.meta(),
                namespace: NamespaceId(self.id()),
                name: self.text(),
                labels: self.labels(),
                number: self.next(),
                source: self.text(),
                priority: self.next() as u8,
            }),
            9 => Change::DeleteJob(JobId(self.id())),
            10 => Change::CreateRevision(Revision {
                id: RevisionId(self.id()),
                service: ServiceId(self.id()),
                number: self.next(),
                created_at: self.time(),
                created: self.next(),
                task: Arc::new(self.task_spec()),
            }),
            11 => Change::CreateService(Box::new(self.service())),
            12 => Change::UpdateService(Box::new(self.service())),
            13 => Change::DeleteService(ServiceId(self.id())),
            14 => Change::CreateTask {
                id: task,
                service: ServiceId(self.id()),
                slot: self.slot(),
                revision: RevisionId(self.id()),
                node: self.maybe(|r| NodeId(r.id())),
                desired: self.pick(&Desired::ALL),
                start_after: self.maybe(Self::time),
            },
            15 => Change::AssignTask {
                task,
                node,
                ports: self.list(Self::bound_port),
                named: self.list(Self::named),
            },
            16 => Change::DirectTask { task, desired: self.pick(&Desired::ALL) },
            17 => Change::ReportTask {
                task,
                node,
                state: self.state(),
                at: self.time(),
                message: self.maybe(Self::text),
                programs: self.list(Self::program_status),
            },
            18 => Change::EndTask { task, state: self.state(), message: self.text() },
            19 => Change::DeleteTask(task),
            20 => Change::ExplainTasks {
                tasks: self.list(|r| TaskId(r.id())),
                unplaced: self.maybe(Self::unplaced),
            },
            24 => Change::Promote { service: ServiceId(self.id()), message: self.text() },
            21 => Change::RollBack {
                service: ServiceId(self.id()),
                automatic: self.yes(),
                message: self.text(),
            },
            22 => Change::MoveUpdate {
                service: ServiceId(self.id()),
                state: self.pick(UpdateState::ALL),
                message: self.text(),
            },
            23 => Change::LeaveTask {
                task,
                leave: self.maybe(|r| Leave {
                    why: r.pick(LeaveReason::ALL),
                    to: r.maybe(|r| NodeId(r.id())),
                    since: r.time(),
                }),
            },
            26 => Change::RetireTask { task },
            27 => Change::PreemptTask { task, reason: self.text() },
            25 => Change::DismissTask { task, reason: self.text() },
            _ => Change::Decide {
                service: ServiceId(self.id()),
                rule: self.pick(Rule::ALL),
                task: self.maybe(|r| TaskId(r.id())),
                text: self.text(),
            },
        }
    }

    fn guard(&mut self) -> Guard {
        let id = self.id();
        let object = self.pick(&[
            ObjectId::Cluster,
            ObjectId::Namespace(NamespaceId(id)),
            ObjectId::Node(NodeId(id)),
            ObjectId::Job(JobId(id)),
            ObjectId::Service(ServiceId(id)),
            ObjectId::Revision(RevisionId(id)),
            ObjectId::Task(TaskId(id)),
        ]);
        Guard { object, version: self.next() }
    }

    fn set(&mut self) -> ChangeSet {
        ChangeSet {
            guards: self.list(Self::guard),
            changes: self.list(|r| {
                let kind = r.below(KINDS);
                r.change(kind)
            }),
        }
    }

    pub fn entry(&mut self) -> Entry {
        Entry { feature_level: FEATURE_LEVEL, time: self.time(), sets: self.list(Self::set) }
    }
}

/// How many kinds of change there are.
pub const KINDS: u64 = 29;
