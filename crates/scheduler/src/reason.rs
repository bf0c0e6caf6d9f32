//! The sentences: why no node takes a task, and why one node doesn't.
//!
//! A sentence names the values that matter and nothing that changes while the cause stays the same, because the store
//! writes it only when it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::limits::{DYNAMIC_PORT_FIRST, DYNAMIC_PORT_LAST};
use model::{
    Availability, DriverKind, FilterKind, NodeId, NodeState, Refusal, ServiceId, Slot, TaskId, Unplaced,
    VolumeLack, format_bytes, format_cpus,
};
use store::Tables;

use crate::field::Seat;
use crate::filter::{Objection, object};
use crate::need::{Need, PROTOCOLS, driver_bit};
use crate::room::Spared;

/// Different causes that one sentence lists; further ones are only counted.
const LISTED: usize = 4;
/// Holders of a port that are looked up for a sentence about many nodes.
const HOLDERS: usize = 16;
/// Holders of a port that a sentence names.
const HOLDERS_NAMED: usize = 3;

/// A node, and a task that uses there what is wanted.
type Holder = (NodeId, TaskId);

/// The refusals of many nodes to one group of equal tasks, as they are counted.
pub(crate) struct Tally<'v, 'n> {
    need: &'n Need<'v>,
    /// Nodes that each filter refused, by [`FilterKind`].
    refused: [u32; FilterKind::ALL.len()],
    /// Nodes that would take a task.
    takers: u32,
    absences: BTreeMap<Absence, u32>,
    drivers: BTreeMap<(DriverKind, DriverLack), u32>,
    cpus: Shortage,
    memory: Shortage,
    generic: BTreeMap<&'n Arc<str>, Shortage>,
    /// Nodes that were asked for constraints.
    asked: u32,
    constraints: BTreeMap<usize, u32>,
    ports: BTreeMap<usize, Vec<(NodeId, TaskId)>>,
    open: [u32; 2],
    /// Nodes, and where somebody uses the volume who.
    volumes: BTreeMap<(usize, VolumeLack), (u32, Vec<Holder>)>,
}

/// Why a node takes no new tasks; the first that applies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Absence {
    Unknown,
    Down,
    Disconnected,
    Drained,
    Paused,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DriverLack {
    Missing,
    Unhealthy,
}

/// Nodes with too little of one resource, and the most that one of them has free.
#[derive(Clone, Copy, Default)]
struct Shortage {
    nodes: u32,
    most: i64,
}

impl Shortage {
    fn count(&mut self, free: i64) {
        self.most = if self.nodes == 0 { free } else { self.most.max(free) };
        self.nodes += 1;
    }
}

/// Whom a sentence is about.
#[derive(Clone, Copy)]
enum About {
    Nodes,
    ThisNode,
}

impl About {
    /// `" on 2 nodes"`; nothing when only one node is spoken of.
    fn on(self, nodes: u32) -> String {
        match self {
            Self::Nodes => format!(" on {}", nodes_text(nodes)),
            Self::ThisNode => String::new(),
        }
    }
}

fn nodes_text(nodes: u32) -> String {
    crate::sets::counted(nodes as usize, "node", "nodes")
}

/// Why this node takes no task of the group; `None` when it takes one.
pub(crate) fn verdict(view: &Tables, seat: &Seat, need: &Need) -> Option<(FilterKind, Arc<str>)> {
    let objection = object(seat, need)?;
    let mut tally = Tally::new(need);
    tally.count(seat, objection);
    let text = match objection {
        Objection::Platform => {
            let here = &seat.node.description.platform;
            let wanted = tally.platform_sentence(About::ThisNode);
            format!("{wanted}: it is {}/{} here", here.os, here.arch)
        }
        // Of a single node it is worth saying what it has instead.
        Objection::Constraint(at) => {
            let constraint = &need.spec.placement.constraints[at];
            match &*constraint.key.value_on(seat.node) {
                "" => format!("constraint {constraint} does not hold: it is empty here"),
                value => format!("constraint {constraint} does not hold: it is {value} here"),
            }
        }
        _ => tally.sentence(view, objection.filter(), About::ThisNode),
    };
    Some((objection.filter(), text.into()))
}

/// Why a task waits for which room is being made.
pub(crate) fn room_is_made(seat: &Seat) -> Unplaced {
    let text =
        format!("room is kept for it on {}, until tasks there have ended", seat.node.description.hostname);
    Unplaced { refusals: vec![Refusal { filter: FilterKind::Resources, nodes: 1, text: text.into() }] }
}

/// Adds that budgets alone keep room from being made, to what the nodes in question say.
pub(crate) fn say_spared(view: &Tables, why: &mut Unplaced, spared: &Spared) {
    if let Some(refusal) = why.refusals.iter_mut().find(|refusal| refusal.filter == spared.filter) {
        let text = format!("{}; {}", refusal.text, spared_text(view, &spared.services));
        refusal.text = format!("{text}{}", About::Nodes.on(spared.nodes)).into();
    }
}

/// Whose budget keeps room from being made.
pub(crate) fn spared_text(view: &Tables, services: &BTreeSet<ServiceId>) -> String {
    let names = services.iter().filter_map(|id| view.service(*id)).map(|service| service.name.to_string());
    format!("preemption would break the budget of {}", listed(names, " and "))
}

/// Why a task cannot be placed that was made for a node which is gone.
pub(crate) fn node_gone() -> Unplaced {
    let text = "the node for which it was made is gone".into();
    Unplaced { refusals: vec![Refusal { filter: FilterKind::Ready, nodes: 1, text }] }
}

impl<'v, 'n> Tally<'v, 'n> {
    /// Nothing asked yet.
    pub fn new(need: &'n Need<'v>) -> Self {
        Self {
            need,
            refused: [0; FilterKind::ALL.len()],
            takers: 0,
            absences: BTreeMap::new(),
            drivers: BTreeMap::new(),
            cpus: Shortage::default(),
            memory: Shortage::default(),
            generic: BTreeMap::new(),
            asked: 0,
            constraints: BTreeMap::new(),
            ports: BTreeMap::new(),
            open: [0; 2],
            volumes: BTreeMap::new(),
        }
    }

    /// Asks a node.
    pub fn ask(&mut self, seat: &Seat) {
        match object(seat, self.need) {
            Some(objection) => self.count(seat, objection),
            None => self.takers += 1,
        }
    }

    /// How many of the asked nodes would take a task.
    pub fn takers(&self) -> u32 {
        self.takers
    }

    fn count(&mut self, seat: &Seat, objection: Objection) {
        let filter = objection.filter();
        self.refused[filter as usize] += 1;
        self.asked += u32::from(filter >= FilterKind::Constraint);
        match objection {
            Objection::Ready => *self.absences.entry(absence(seat)).or_default() += 1,
            Objection::Driver => {
                if let Some(lack) = driver_lack(seat, self.need) {
                    *self.drivers.entry(lack).or_default() += 1;
                }
            }
            Objection::Resources => self.count_shortages(seat),
            Objection::Constraint(at) => *self.constraints.entry(at).or_default() += 1,
            Objection::Port(at) => {
                let port = &self.need.spec.ports[at];
                if let Some(holder) = seat.port_holder(port.protocol, port.published) {
                    self.ports.entry(at).or_default().push((seat.node.id, holder));
                }
            }
            Objection::OpenPorts(protocol) => {
                let place = PROTOCOLS.iter().position(|p| *p == protocol).unwrap_or(0);
                self.open[place] += 1;
            }
            Objection::Volume(at, lack) => {
                let users = self.volumes.entry((at, lack)).or_default();
                users.0 += 1;
                let here = users_in_the_way(seat, &self.need.spec.mounts[at].volume, lack);
                users.1.extend(here.map(|task| (seat.node.id, task)));
            }
            Objection::Platform | Objection::MaxReplicas => {}
        }
    }

    /// A node may lack several resources; each is counted.
    fn count_shortages(&mut self, seat: &Seat) {
        let want = &self.need.reserve;
        let lacks = |want: i64, free: i64| want > 0 && want > free;
        if lacks(want.nano_cpus, seat.free_cpus()) {
            self.cpus.count(seat.free_cpus());
        }
        if lacks(want.memory, seat.free_memory()) {
            self.memory.count(seat.free_memory());
        }
        for (name, amount) in &want.generic {
            let free = seat.free_generic(name);
            if lacks(*amount, free) {
                self.generic.entry(name).or_default().count(free);
            }
        }
    }

    /// What was counted, in the order in which it is shown.
    pub fn unplaced(&self, view: &Tables) -> Unplaced {
        let mut refusals: Vec<Refusal> = FilterKind::ALL
            .iter()
            .filter(|filter| self.refused[**filter as usize] > 0)
            .map(|filter| Refusal {
                filter: *filter,
                nodes: self.refused[*filter as usize],
                text: self.sentence(view, *filter, About::Nodes).into(),
            })
            .collect();
        // The sort is stable: equal ones stay in the order of the filters.
        refusals.sort_by_key(|refusal| std::cmp::Reverse(refusal.nodes));
        Unplaced { refusals }
    }

    fn sentence(&self, view: &Tables, filter: FilterKind, about: About) -> String {
        match filter {
            FilterKind::Ready => self.ready_sentence(about),
            FilterKind::Driver => self.driver_sentence(about),
            FilterKind::Resources => self.resources_sentence(about),
            FilterKind::Constraint => self.constraint_sentence(about),
            FilterKind::Platform => self.platform_sentence(about),
            FilterKind::HostPort => self.port_sentence(view, about),
            FilterKind::MaxReplicas => {
                let placement = &self.need.spec.placement;
                let on = about.on(self.refused[filter as usize]);
                if placement.distinct_hosts() {
                    format!("distinct_hosts: one task is there already{on}")
                } else {
                    format!("max replicas per node ({}) is reached{on}", placement.max_replicas)
                }
            }
            FilterKind::Volumes => self.volume_sentence(view, about),
        }
    }

    fn ready_sentence(&self, about: About) -> String {
        let phrases = self.absences.iter().map(|(absence, nodes)| {
            let word = match absence {
                Absence::Unknown => "not yet heard from",
                Absence::Down => "down",
                Absence::Disconnected => "disconnected",
                Absence::Drained => "drained",
                Absence::Paused => "paused",
            };
            match (about, nodes) {
                (About::ThisNode, _) => format!("the node is {word}"),
                (About::Nodes, 1) => format!("1 node is {word}"),
                (About::Nodes, nodes) => format!("{nodes} nodes are {word}"),
            }
        });
        listed(phrases, ", ")
    }

    fn driver_sentence(&self, about: About) -> String {
        let phrases = self.drivers.iter().map(|((driver, lack), nodes)| {
            let word = match lack {
                DriverLack::Missing => "missing",
                DriverLack::Unhealthy => "not healthy",
            };
            format!("driver {} is {word}{}", driver.as_str(), about.on(*nodes))
        });
        listed(phrases, ", ")
    }

    fn resources_sentence(&self, about: About) -> String {
        let want = &self.need.reserve;
        let count = |amount: i64| amount.to_string();
        let mut phrases = Vec::new();
        let mut add = |name: &str, shortage: &Shortage, want: i64, show: &dyn Fn(i64) -> String| {
            if shortage.nodes > 0 {
                let (wanted, free) = amounts(want, shortage.most, show);
                let most = if shortage.nodes > 1 { "at most " } else { "" };
                let free = if shortage.most <= 0 { "none free".into() } else { format!("{most}{free} free") };
                phrases.push(format!(
                    "insufficient {name}{}: {wanted} wanted, {free}",
                    about.on(shortage.nodes)
                ));
            }
        };
        add("CPU", &self.cpus, want.nano_cpus, &format_cpus);
        add("memory", &self.memory, want.memory, &format_bytes);
        for (name, shortage) in &self.generic {
            let wanted = want.generic.get(*name).copied().unwrap_or(0);
            add(name, shortage, wanted, &count);
        }
        listed(phrases.into_iter(), ", ")
    }

    fn constraint_sentence(&self, about: About) -> String {
        // Nodes that passed all constraints were refused by a later filter, or took the task.
        let asked = self.asked + self.takers;
        let phrases = self.constraints.iter().map(|(at, nodes)| {
            let constraint = &self.need.spec.placement.constraints[*at];
            if *nodes == asked && *nodes > 1 {
                format!("constraint {constraint} holds on none of {nodes} nodes")
            } else {
                format!("constraint {constraint} does not hold{}", about.on(*nodes))
            }
        });
        listed(phrases, ", ")
    }

    fn platform_sentence(&self, about: About) -> String {
        let any = |word: &Arc<str>| if word.is_empty() { "any".into() } else { word.to_string() };
        let platforms = self.need.spec.placement.platforms.iter();
        let wanted = listed(platforms.map(|p| format!("{}/{}", any(&p.os), any(&p.arch))), " or ");
        format!("the programs need {wanted}{}", about.on(self.refused[FilterKind::Platform as usize]))
    }

    fn port_sentence(&self, view: &Tables, about: About) -> String {
        let taken = self.ports.iter().map(|(at, holders)| {
            let port = &self.need.spec.ports[*at];
            let on = about.on(holders.len() as u32);
            let by = holders_text(view, holders);
            let (number, protocol) = (port.published, port.protocol.as_str());
            match about {
                About::Nodes => format!("port {number}/{protocol} is taken{on} ({by})"),
                About::ThisNode => format!("port {number}/{protocol} is taken {by}"),
            }
        });
        let open = PROTOCOLS.iter().enumerate().filter(|(place, _)| self.open[*place] > 0);
        let open = open.map(|(place, protocol)| {
            let on = about.on(self.open[place]);
            let range = format!("{DYNAMIC_PORT_FIRST} to {DYNAMIC_PORT_LAST}/{}", protocol.as_str());
            match self.need.open[place] {
                1 => format!("no port from {range} is left{on}"),
                more => format!("fewer than {more} ports from {range} are left{on}"),
            }
        });
        listed(taken.chain(open), ", ")
    }

    fn volume_sentence(&self, view: &Tables, about: About) -> String {
        let phrases = self.volumes.iter().map(|((at, lack), (nodes, users))| {
            let name = &self.need.spec.mounts[*at].volume;
            let on = about.on(*nodes);
            let by = || {
                let by = holders_text(view, users);
                if matches!(about, About::Nodes) { format!(" ({by})") } else { format!(" {by}") }
            };
            match (lack, about) {
                (VolumeLack::Missing, About::Nodes) => format!("there is no volume {name}{on}"),
                (VolumeLack::Missing, About::ThisNode) => format!("has no volume {name}"),
                (VolumeLack::ReadOnly, _) => format!("volume {name} is read-only{on}"),
                (VolumeLack::ReadersOnly, _) => format!("volume {name} is shared by readers alone{on}"),
                (VolumeLack::InUse, _) => format!("volume {name} is in use{on}{}", by()),
                (VolumeLack::Written, _) => format!("volume {name} is written to{on}{}", by()),
            }
        });
        listed(phrases, ", ")
    }
}

/// The tasks that keep one more from using a volume; none where it is not for want of room.
fn users_in_the_way<'a>(
    seat: &'a Seat,
    volume: &'a str,
    lack: VolumeLack,
) -> impl Iterator<Item = TaskId> + 'a {
    let counts = move |read_only: bool| match lack {
        VolumeLack::InUse => true,
        VolumeLack::Written => !read_only,
        VolumeLack::Missing | VolumeLack::ReadOnly | VolumeLack::ReadersOnly => false,
    };
    seat.users_of(volume).filter(move |(_, read_only)| counts(*read_only)).map(|(task, _)| task)
}

/// `web.2, web.3`: the tasks that keep one more from using a volume of this node.
pub(crate) fn users_text(view: &Tables, seat: &Seat, volume: &str, lack: VolumeLack) -> String {
    let mut users: Vec<TaskId> = users_in_the_way(seat, volume, lack).collect();
    users.sort_unstable();
    listed(users.iter().map(|task| task_name(view, *task)), ", ")
}

fn absence(seat: &Seat) -> Absence {
    match seat.node.status.state {
        NodeState::Unknown => Absence::Unknown,
        NodeState::Down => Absence::Down,
        NodeState::Disconnected => Absence::Disconnected,
        NodeState::Ready if seat.node.availability == Availability::Drain => Absence::Drained,
        NodeState::Ready => Absence::Paused,
    }
}

/// The first driver, in the order of the spec's programs, that the node lacks.
fn driver_lack(seat: &Seat, need: &Need) -> Option<(DriverKind, DriverLack)> {
    let mut wanted = need.spec.programs.iter().map(|program| program.driver);
    let driver = wanted.find(|driver| seat.drivers & driver_bit(*driver) == 0)?;
    let known = seat.node.description.drivers.iter().any(|info| &*info.name == driver.as_str());
    Some((driver, if known { DriverLack::Unhealthy } else { DriverLack::Missing }))
}

/// What is wanted and what is free, as people read it; exactly when rounding would make them look equal.
fn amounts(wanted: i64, free: i64, show: &dyn Fn(i64) -> String) -> (String, String) {
    let (wanted_text, free_text) = (show(wanted), show(free));
    if wanted_text == free_text {
        return (format!("{wanted} B"), format!("{free} B"));
    }
    (wanted_text, free_text)
}

/// `by web.2, web.3`: the holders of a port, in the order of their nodes. When there are more than a sentence has room
/// for, some stand for all.
fn holders_text(view: &Tables, holders: &[(NodeId, TaskId)]) -> String {
    let mut sorted = holders.to_vec();
    sorted.sort_unstable();
    let mut names: Vec<String> = Vec::new();
    let mut seen = BTreeSet::new();
    for (_, task) in sorted.iter().take(HOLDERS) {
        let name = task_name(view, *task);
        if seen.insert(name.clone()) {
            names.push(name);
        }
    }
    let all = names.len() <= HOLDERS_NAMED && sorted.len() <= HOLDERS;
    names.truncate(HOLDERS_NAMED);
    format!("{} {}", if all { "by" } else { "among others by" }, names.join(", "))
}

/// A task as people name it: `web.2`; for a global service its name alone.
pub(crate) fn task_name(view: &Tables, task: TaskId) -> String {
    let Some(task) = view.task(task) else {
        return "a task that is gone".into();
    };
    match (view.service(task.service), task.slot) {
        (None, _) => "a task of a removed service".into(),
        (Some(service), Slot::Node(_)) => service.name.to_string(),
        (Some(service), slot) => format!("{}.{slot}", service.name),
    }
}

/// The phrases joined; at most [`LISTED`] of them.
fn listed(phrases: impl Iterator<Item = String>, between: &str) -> String {
    let all: Vec<String> = phrases.collect();
    let more = all.len().saturating_sub(LISTED);
    let mut text = all[..all.len() - more].join(between);
    if more > 0 {
        text.push_str(&format!("{between}and {more} more"));
    }
    text
}
