//! Random clusters: a script from a seed. People make, change and remove services and nodes; fate breaks machines, managers, disks and the net; at the
//! end every fault ends and everything must come to be as wanted.

use model::{Sharing, Span};

use crate::random::Random;
use crate::script::{Command, Net, Offered, Place, Settings, Size};

/// How a random cluster is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// How much time passes before everything must settle.
    pub length: Span,
    /// Most machines.
    pub nodes: u32,
    /// Most services at a time.
    pub services: usize,
    /// True for exactly so many machines, three managers and as many services at the start: for measuring.
    pub full: bool,
}

impl Plan {
    /// A simulated hour of up to 20 machines and 10 services.
    pub const HOUR: Self = Self { length: Span::from_secs(3600), nodes: 20, services: 10, full: false };
    /// Five minutes of up to 8 machines and 6 services: many small clusters find more than few large ones.
    pub const SHORT: Self = Self { length: Span::from_secs(300), nodes: 8, services: 6, full: false };
}

/// Everything is as wanted within this time once faults have stopped: the longest back-off, the time until a node is taken for gone, a slow
/// update, and the patience for tasks that do not end.
pub const SETTLES_WITHIN: Span = Span::from_secs(400);

struct Author {
    random: Random,
    /// What is about volumes has chances of its own, so that without them a seed makes the same cluster.
    volumes: Random,
    nodes: Vec<u32>,
    managers: u32,
    /// Names of services, and what they are.
    services: Vec<(String, Kind)>,
    made: u32,
    version: u32,
    script: Vec<Command>,
}

/// What decides how a service can be changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Replicated,
    Global,
    Batch,
    GlobalBatch,
}

/// The script of this seed.
pub fn script(seed: u64, plan: Plan) -> Vec<Command> {
    let mut random = Random::new(seed ^ 0x5eed);
    let managers = if plan.full { 3 } else { *random.pick(&[1, 3, 3, 3, 5]) };
    let count = if plan.full { plan.nodes } else { random.range(1, u64::from(plan.nodes)) as u32 };
    let mut author = Author {
        random,
        volumes: Random::new(seed ^ 0x701_u64),
        nodes: (1..=count).collect(),
        managers,
        services: Vec::new(),
        made: 0,
        version: 1,
        script: vec![Command::Seed(seed), Command::Managers(managers)],
    };
    author.begin(count);
    let first = if plan.full { plan.services } else { author.random.range(1, 3) as usize };
    for _ in 0..first {
        author.service();
    }
    let mut left = plan.length;
    while left > Span::ZERO {
        let pause = author.pause().min(left);
        author.script.push(Command::Run(pause));
        left = Span(left.0 - pause.0);
        author.event(plan);
    }
    author.script.extend([Command::Calm, Command::Converge(SETTLES_WITHIN)]);
    author.script
}

impl Author {
    fn begin(&mut self, count: u32) {
        let zones = ["a", "b", "c"].map(String::from).to_vec();
        let gpus = if self.random.once_in(2) { 2 } else { 0 };
        let size = Size { gpus, ..Size::default() };
        self.script.push(Command::Nodes { count, size, label: Some(("zone".into(), zones)) });
        if self.random.once_in(2) {
            for node in 1..=count {
                let command = self.kernel(node);
                self.script.push(command);
            }
        }
        if self.volumes.once_in(2) {
            for node in 1..=count {
                if !self.volumes.once_in(3) {
                    let command = self.offer(node);
                    self.script.push(command);
                }
            }
        }
        if self.random.once_in(3) {
            let orphan = ["40s", "2m", "10m"];
            let settings = vec![
                ("history".into(), self.random.below(4).to_string()),
                ("orphan-after".into(), (*self.random.pick(&orphan)).into()),
            ];
            self.script.push(Command::Cluster(settings));
        }
        if self.random.once_in(4) {
            let threshold = (*self.random.pick(&["2", "2", "3", "off"])).to_string();
            self.script.push(Command::Cluster(vec![("rebalance".into(), threshold)]));
        }
    }

    /// A machine is said to run another version.
    fn kernel(&mut self, node: u32) -> Command {
        let versions = ["5.4.0", "5.15.0-rc.2", "5.15.3", "6.1", "6.1-rc1", "unknown"];
        let value = (*self.random.pick(&versions)).into();
        Command::Label { node, key: "kernel".into(), value }
    }

    /// Somebody changes a setting of the whole cluster.
    fn setting(&mut self) {
        let random = &mut self.random;
        let (key, value) = match random.below(5) {
            0 | 1 => ("history", random.below(6).to_string()),
            2 => ("history-failed", random.below(4).to_string()),
            3 => ("history-age", (*random.pick(&["0s", "10s", "1m", "10m"])).to_string()),
            _ => ("strategy", (*random.pick(&["spread", "binpack"])).to_string()),
        };
        self.script.push(Command::Cluster(vec![(key.into(), value)]));
    }

    /// A machine gets smaller or bigger; now and then it loses what its tasks hold.
    fn resize(&mut self, node: u32) -> Command {
        let random = &mut self.random;
        let cpus = *random.pick(&[500_000_000, 1_000_000_000, 2_000_000_000, 4_000_000_000, 8_000_000_000]);
        let memory = *random.pick(&[1 << 30, 4 << 30, 8 << 30]);
        let gpus = *random.pick(&[0, 1, 2, 3]);
        Command::Resources { node, size: Size { cpus, memory, gpus } }
    }

    /// A machine offers other volumes, or shares them in another way.
    fn offer(&mut self, node: u32) -> Command {
        let random = &mut self.volumes;
        let mut volumes = Vec::new();
        for name in ["data", "logs"] {
            if !random.once_in(4) {
                let sharing = *random.pick(&Sharing::ALL);
                volumes.push(Offered { name: name.into(), sharing, read_only: random.once_in(6) });
            }
        }
        Command::Volumes { node, volumes }
    }

    /// Mostly things happen one after the other; now and then all at once, or long apart.
    fn pause(&mut self) -> Span {
        let (low, high) = match self.random.below(10) {
            0..=2 => (1, 300),
            3..=5 => (300, 5_000),
            6..=8 => (5_000, 60_000),
            _ => (60_000, 240_000),
        };
        Span::from_millis(self.random.range(low, high) as i64)
    }

    fn event(&mut self, plan: Plan) {
        match self.random.below(100) {
            0..=7 if self.services.len() < plan.services => self.service(),
            0..=17 => self.scale(),
            18..=24 => self.update(),
            25..=27 => self.turn(),
            28..=30 => self.remove(),
            31..=40 => self.end_program(),
            41..=50 => self.node_wish(),
            51..=52 => self.grow(),
            53 => self.setting(),
            54..=55 => self.remove_node(),
            56..=69 => self.machine_fault(),
            70..=79 => self.manager_fault(),
            80..=87 => self.cut(),
            88..=93 => self.net(),
            _ => self.disk(),
        }
    }

    fn node(&mut self) -> Option<u32> {
        if self.nodes.is_empty() { None } else { Some(*self.random.pick(&self.nodes)) }
    }

    fn manager(&mut self) -> Place {
        Place::Manager(self.random.range(1, u64::from(self.managers)) as u32)
    }

    fn back(&mut self) -> Option<Span> {
        let seconds = [0, 1, 4, 12, 20, 40, 90, 200];
        Some(Span::from_secs(*self.random.pick(&seconds)))
    }

    fn service(&mut self) {
        self.made += 1;
        let name = format!("s{}", self.made);
        let kind = match self.random.below(20) {
            0..=3 => Kind::Global,
            4..=7 => Kind::Batch,
            8 => Kind::GlobalBatch,
            _ => Kind::Replicated,
        };
        let batch = matches!(kind, Kind::Batch | Kind::GlobalBatch);
        let mut settings: Settings = Vec::new();
        let mut set = |key: &str, value: String| settings.push((key.into(), value));
        let random = &mut self.random;
        match kind {
            Kind::Replicated => {
                let replicas = random.below(9);
                set("replicas", replicas.to_string());
                if replicas > 0 && random.once_in(2) {
                    set("canary", random.range(1, replicas.min(3)).to_string());
                    if random.once_in(3) {
                        set("auto-promote", String::new());
                    }
                    if random.once_in(3) {
                        set("promote-within", "1m".into());
                    }
                }
            }
            Kind::Global => set("global", String::new()),
            Kind::GlobalBatch => set("global-batch", String::new()),
            Kind::Batch => {
                set("completions", random.below(12).to_string());
                set("concurrency", random.below(5).to_string());
            }
        }
        if !batch && random.once_in(3) {
            set("order", "start-first".into());
        }
        if !batch && random.once_in(2) {
            set("on-failure", (*random.pick(&["continue", "rollback"])).into());
        }
        if random.once_in(2) {
            set("cpu", (*random.pick(&["0.1", "0.5", "1", "2.5"])).into());
        }
        if random.once_in(3) {
            set("mem", (*random.pick(&["128m", "1g", "3g"])).into());
        }
        if random.once_in(6) {
            set("gpu", random.range(1, 2).to_string());
        }
        if random.once_in(5) {
            set("port", (*random.pick(&["0", "80", "443", "8080"])).into());
        }
        if random.once_in(5) {
            let zone = *random.pick(&["a", "b", "c"]);
            let operator = *random.pick(&["==", "!="]);
            set("constraint", format!("node.labels.zone{operator}{zone}"));
        }
        if random.once_in(8) {
            let asks = [
                "version >= 5",
                "version >= 5.4, < 6",
                "semver > 5.15.0-rc.1",
                "version ~> 5.4",
                "semver != 6",
            ];
            set("constraint", format!("node.labels.kernel {}", random.pick(&asks)));
        }
        if random.once_in(8) {
            set("constraint", "distinct_hosts".into());
        }
        if random.once_in(6) {
            set("max-per-node", random.range(1, 2).to_string());
        }
        let does = *random.pick(&["exit,1,20s", "exit,0,45s", "stubborn", "unstartable"]);
        let ends = *random.pick(&["exit,0,2s", "exit,0,10s", "exit,0,40s", "exit,1,5s"]);
        let does = match random.once_in(3) {
            true => does,
            false if batch => ends,
            false => "run",
        };
        set("does", does.into());
        match random.below(6) {
            0 => set("condition", "on-failure".into()),
            1 => set("condition", "none".into()),
            2 => set("attempts", random.range(1, 3).to_string()),
            _ => {}
        }
        // What never comes to run must not be all that happens.
        let delays =
            if does == "unstartable" { ["5s", "30s", "1m", "5m"] } else { ["0s", "100ms", "1s", "5s"] };
        set("delay", (*random.pick(&delays)).into());
        let (parallelism, slow) = (random.below(4), random.once_in(4));
        if !batch {
            set("parallelism", parallelism.to_string());
        }
        if slow && !batch {
            set("update-delay", "3s".into());
        }
        if kind == Kind::Replicated && random.once_in(3) {
            set("min-healthy", (*random.pick(&["0", "1", "2", "3", "50%", "100%"])).into());
            set("max-surge", (*random.pick(&["0", "0", "1", "2"])).into());
        }
        if self.volumes.once_in(4) {
            set("volume", (*self.volumes.pick(&["data", "data:ro", "logs", "logs:ro"])).into());
        }
        if random.once_in(6) {
            set("priority", random.range(1, 100).to_string());
            if random.once_in(2) {
                set("preempt", String::new());
            }
        }
        self.script.push(Command::Service { name: name.clone(), settings });
        self.services.push((name, kind));
    }

    fn scale(&mut self) {
        let numbered = self.services.iter().filter(|(_, k)| matches!(k, Kind::Replicated | Kind::Batch));
        let numbered: Vec<(String, Kind)> = numbered.cloned().collect();
        if numbered.is_empty() {
            return;
        }
        let (name, kind) = self.random.pick(&numbered).clone();
        if kind == Kind::Batch && self.random.once_in(3) {
            let settings = vec![
                ("completions".into(), self.random.below(12).to_string()),
                ("concurrency".into(), self.random.below(5).to_string()),
            ];
            self.script.push(Command::Update { name, settings });
            return;
        }
        self.script.push(Command::Scale { name, replicas: self.random.below(12) as u32 });
    }

    fn update(&mut self) {
        if self.services.is_empty() {
            return;
        }
        let (name, kind) = self.random.pick(&self.services).clone();
        self.version += 1;
        let random = &mut self.random;
        let mut settings = vec![("version".to_string(), (self.version % 4).to_string())];
        if kind == Kind::Replicated && random.once_in(4) {
            settings.push(("min-healthy".into(), (*random.pick(&["0", "1", "100%"])).into()));
        }
        match random.below(6) {
            0 => settings.push(("cpu".into(), (*random.pick(&["0.2", "1.5"])).into())),
            1 if matches!(kind, Kind::Batch | Kind::GlobalBatch) => {
                settings.push(("does".into(), (*random.pick(&["exit,0,3s", "exit,1,15s", "run"])).into()));
            }
            1 => settings.push(("does".into(), (*random.pick(&["run", "exit,1,15s", "run"])).into())),
            _ => {}
        }
        self.script.push(Command::Update { name, settings });
    }

    /// An update is turned another way.
    fn turn(&mut self) {
        if self.services.is_empty() {
            return;
        }
        let (name, _) = self.random.pick(&self.services).clone();
        let command = match self.random.below(5) {
            0..=2 => Command::Promote(name),
            3 => Command::Abort(name),
            _ => Command::Rollback(name),
        };
        self.script.push(command);
    }

    fn remove(&mut self) {
        if self.services.is_empty() {
            return;
        }
        let at = self.random.below(self.services.len() as u64) as usize;
        let (name, _) = self.services.remove(at);
        self.script.push(Command::Remove(name));
    }

    fn end_program(&mut self) {
        if self.services.is_empty() {
            return;
        }
        let (service, _) = self.random.pick(&self.services).clone();
        let slot = self.random.range(1, 6) as u32;
        let code = *self.random.pick(&[0, 0, 1, 3]);
        self.script.push(Command::End { service, slot, code });
    }

    fn node_wish(&mut self) {
        let Some(node) = self.node() else { return };
        let command = match self.random.below(8) {
            0 => Command::Availability { node, word: "drain" },
            1 => {
                let seconds = *self.random.pick(&[5, 30, 90, 600]);
                Command::DrainWithin { node, span: Span::from_secs(seconds) }
            }
            2 => Command::Availability { node, word: "pause" },
            3 | 4 => Command::Availability { node, word: "active" },
            5 => {
                if self.volumes.once_in(2) {
                    let command = self.offer(node);
                    self.script.push(command);
                }
                self.resize(node)
            }
            6 if self.random.once_in(2) => self.kernel(node),
            _ => {
                let value = (*self.random.pick(&["a", "b", "c"])).into();
                Command::Label { node, key: "zone".into(), value }
            }
        };
        self.script.push(command);
    }

    fn grow(&mut self) {
        let highest = self.script.iter().rev().find_map(|c| match c {
            Command::Nodes { count, .. } => Some(*count),
            _ => None,
        });
        let count = highest.unwrap_or(0) + 1;
        let zones = ["a", "b", "c"].map(String::from).to_vec();
        let label = Some(("zone".into(), zones));
        // All that were there before are named again, so that a shortened script stays whole; those that were removed stay gone.
        self.script.push(Command::Nodes { count, size: Size::default(), label });
        self.nodes.push(count);
    }

    fn remove_node(&mut self) {
        if self.nodes.len() < 2 {
            return;
        }
        let at = self.random.below(self.nodes.len() as u64) as usize;
        let node = self.nodes.remove(at);
        self.script.push(Command::RemoveNode(node));
    }

    fn machine_fault(&mut self) {
        let Some(node) = self.node() else { return };
        let command = match self.random.below(10) {
            0 | 1 => Command::Crash { place: Place::Node(node), back: self.back() },
            2 if self.nodes.len() > 2 => Command::Crash { place: Place::Node(node), back: None },
            2 | 3 => Command::Boot(Place::Node(node)),
            4 => {
                let seconds = *self.random.pick(&[-7200, -5, 2, 600, 7200]);
                let place = if self.random.once_in(2) { Place::Node(node) } else { self.manager() };
                Command::Clock { place, by: Span::from_secs(seconds) }
            }
            _ => Command::KillAgent { node, back: self.back() },
        };
        self.script.push(command);
    }

    fn manager_fault(&mut self) {
        let place = self.manager();
        let command = match self.random.below(3) {
            0 => Command::Depose,
            _ => Command::Crash { place, back: self.back() },
        };
        self.script.push(command);
    }

    fn cut(&mut self) {
        let manager = self.manager();
        let command = match (self.random.below(4), self.node()) {
            (0, _) => Command::Heal,
            (1 | 2, Some(node)) => Command::Cut(Place::Node(node), manager),
            _ => {
                let other = self.manager();
                if other == manager { Command::Heal } else { Command::Cut(manager, other) }
            }
        };
        self.script.push(command);
    }

    fn net(&mut self) {
        let ms = Span::from_millis;
        let net = match self.random.below(4) {
            0 => Net::default(),
            1 => Net { delay: (ms(1), ms(200)), ..Net::default() },
            2 => Net { loss: 10_000, ..Net::default() },
            _ => Net { delay: (ms(5), ms(50)), loss: 2_000, lost: 20_000 },
        };
        self.script.push(Command::Net(net));
    }

    fn disk(&mut self) {
        let Some(node) = self.node() else { return };
        let broken = !self.random.once_in(3);
        let command = if self.random.once_in(2) {
            Command::Disk { node, fails: broken }
        } else {
            Command::Drivers { node, fail: broken }
        };
        self.script.push(command);
    }
}
