//! The nodes as one pass sees them: what the view says of them, and what the pass has promised them since.
//!
//! A node is looked at when it is first needed. The view keeps the nodes in the order of their load; a pass that
//! places one task looks at the first of them, and a pass that places a million looks at each once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use model::{
    BoundPort, DriverKind, Mount, NamedResource, Node, NodeId, Protocol, Resources, ServiceId, Task, TaskId,
    Users, VolumeLack,
};
use store::{NodeUse, Tables};

use crate::need::{Need, driver_bit};

/// Tasks that are thought to be gone, with their host ports.
struct Gone {
    tasks: Vec<TaskId>,
    /// The service of which one of them counts for the spread.
    wanted_of: Option<ServiceId>,
}

/// A volume, a task that uses it, and whether it only reads.
type Mounted = (Arc<str>, TaskId, bool);

/// What a pass has promised beside processors and memory.
#[derive(Default)]
struct Promised {
    /// Counted resources.
    generic: BTreeMap<Arc<str>, i64>,
    /// Ports.
    ports: BTreeMap<(Protocol, u16), TaskId>,
    /// Named resources.
    named: BTreeSet<NamedResource>,
    /// Who uses a volume, and whether they only read.
    volumes: Vec<Mounted>,
}

/// One node with what the pass has promised to tasks on it.
pub(crate) struct Seat<'v> {
    /// The node.
    pub node: &'v Arc<Node>,
    /// Ready and active.
    pub takes_tasks: bool,
    /// False when a change of the node is in flight: nothing can be placed there before it is applied, because a
    /// decision must name the version it saw. What its tasks hold does not matter here: placements change the node's
    /// use, never the node, and the view's use includes those in flight.
    pub settled: bool,
    /// Tasks that hold a reservation here.
    pub load: u32,
    /// Its healthy drivers, as [`driver_bit`]s.
    pub drivers: u32,
    /// The last change set that has a guard on it.
    pub guarded_in: u32,
    /// The last note that counted it.
    pub noted_in: u32,
    free_cpus: i64,
    free_memory: i64,
    used: &'v NodeUse,
    /// What else this pass has promised; seldom anything. Behind a pointer, because a pass goes through seats at random and
    /// their size counts.
    promised: Option<Box<Promised>>,
    /// The turn in which `taken` counts.
    turn: u32,
    /// Tasks of that turn's service that the pass has placed here.
    taken: u32,
    /// What is thought to be gone, while somebody looks at what would be then.
    gone: Option<Box<Gone>>,
    /// The load under which it stands in the order of the field.
    listed: u32,
}

impl<'v> Seat<'v> {
    /// The node as the view has it.
    pub fn new(view: &Tables, node: &'v Arc<Node>, used: &'v NodeUse) -> Self {
        let offer = &node.description.resources;
        let healthy = node.description.drivers.iter().filter(|driver| driver.healthy);
        Self {
            node,
            takes_tasks: node.takes_tasks(),
            settled: view.is_settled(node.meta.modified),
            load: used.active(),
            drivers: healthy
                .filter_map(|driver| DriverKind::from_word(&driver.name))
                .fold(0, |all, driver| all | driver_bit(driver)),
            guarded_in: 0,
            noted_in: 0,
            free_cpus: offer.nano_cpus.saturating_sub(used.reserved().nano_cpus),
            free_memory: offer.memory.saturating_sub(used.reserved().memory),
            used,
            promised: None,
            turn: 0,
            taken: 0,
            gone: None,
            listed: used.active(),
        }
    }

    /// The node as it would be without a task that holds it.
    pub fn without(mut self, task: &'v Task, reserve: &Resources) -> Self {
        let wanted_of = task.desired.is_wanted().then_some(task.service);
        self.gone = Some(Box::new(Gone { tasks: vec![task.id], wanted_of }));
        self.load = self.load.saturating_sub(1);
        self.free_cpus = self.free_cpus.saturating_add(reserve.nano_cpus);
        self.free_memory = self.free_memory.saturating_add(reserve.memory);
        self.promise(reserve, -1);
        self
    }

    /// Counts counted resources as promised so many times.
    fn promise(&mut self, room: &Resources, times: i64) {
        for (name, amount) in &room.generic {
            let promised = &mut self.promised.get_or_insert_default().generic;
            *promised.entry(Arc::clone(name)).or_default() += amount * times;
        }
    }

    /// Processors that nothing has reserved, in billionths; negative when the node shrank below what it holds.
    pub fn free_cpus(&self) -> i64 {
        self.free_cpus
    }

    /// Bytes of memory that nothing has reserved; negative as above.
    pub fn free_memory(&self) -> i64 {
        self.free_memory
    }

    /// How much of a counted resource nothing has reserved; negative as above.
    pub fn free_generic(&self, name: &str) -> i64 {
        let in_map = |map: &BTreeMap<Arc<str>, i64>| map.get(name).copied().unwrap_or(0);
        let promised = self.promised.as_ref().map_or(0, |promised| in_map(&promised.generic));
        let held = in_map(&self.used.reserved().generic).saturating_add(promised);
        in_map(&self.node.description.resources.generic).saturating_sub(held)
    }

    /// True when a reservation fits in. One of nothing fits on a node that is overcommitted, too.
    pub fn fits(&self, need: &Resources) -> bool {
        (need.nano_cpus <= 0 || need.nano_cpus <= self.free_cpus)
            && (need.memory <= 0 || need.memory <= self.free_memory)
            && (need.generic.is_empty() || self.fits_generic(&need.generic))
    }

    fn fits_generic(&self, need: &BTreeMap<Arc<str>, i64>) -> bool {
        need.iter().all(|(name, amount)| *amount <= 0 || *amount <= self.free_generic(name))
    }

    /// The task that holds a host port here, or was promised it by this pass.
    pub fn port_holder(&self, protocol: Protocol, port: u16) -> Option<TaskId> {
        let held = self.used.port_holder(protocol, port);
        let held = held.filter(|holder| self.gone.as_ref().is_none_or(|gone| !gone.tasks.contains(holder)));
        held.or_else(|| self.promised.as_ref()?.ports.get(&(protocol, port)).copied())
    }

    /// The tasks that use a volume here or were promised it by this pass, and whether they only read.
    pub fn users_of<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = (TaskId, bool)> + 'a {
        let gone = |task: TaskId| self.gone.as_ref().is_some_and(|gone| gone.tasks.contains(&task));
        let held = self.used.users_of(volume).filter(move |(task, _)| !gone(*task));
        let promised = self.promised.iter().flat_map(|promised| &promised.volumes);
        let promised = promised.filter(move |(name, ..)| **name == *volume);
        held.chain(promised.map(|(_, task, read_only)| (*task, *read_only)))
    }

    /// What speaks against one more task that uses a volume here.
    pub fn volume_lack(&self, mount: &Mount) -> Option<VolumeLack> {
        let Some(volume) = self.node.description.volumes.get(&mount.volume) else {
            return Some(VolumeLack::Missing);
        };
        let users = self.users_of(&mount.volume);
        let users = users.fold(Users::default(), |users, (_, read_only)| users.with(read_only));
        volume.lack(users, mount.read_only)
    }

    /// How many host ports are held or promised here, of both protocols.
    pub fn port_count(&self) -> usize {
        self.used.ports().count() + self.promised.as_ref().map_or(0, |promised| promised.ports.len())
    }

    /// How many tasks of the service hold a reservation here, those placed by this turn of the pass included.
    pub fn tasks_of(&self, need: &Need) -> u32 {
        let held = if need.active == 0 { 0 } else { self.used.tasks_of(need.service) };
        let absent = self.gone.as_ref().is_some_and(|gone| gone.wanted_of == Some(need.service));
        let taken = if self.turn == need.turn { self.taken } else { 0 };
        held.saturating_sub(u32::from(absent)) + taken
    }

    /// How many tasks of this turn's service the pass has placed here.
    pub fn taken_in(&self, turn: u32) -> u32 {
        if self.turn == turn { self.taken } else { 0 }
    }

    /// Sets how many tasks of a service the pass has placed here, to look back on a turn that is over.
    pub fn recall(&mut self, turn: u32, taken: u32) {
        (self.turn, self.taken) = (turn, taken);
    }

    /// Promises a place, with its resources and ports, to a task.
    pub fn take(&mut self, need: &Need, task: TaskId, ports: &[BoundPort]) {
        self.load += 1;
        self.hold(need, task, ports);
    }

    /// Gives away the named resources for a reservation that fits: of each kind that has names here the first ones, in the
    /// order of their names, that no task has and that this pass has not given away.
    pub fn choose_named(&mut self, need: &Resources) -> Box<[NamedResource]> {
        if need.generic.is_empty() || self.node.description.named.is_empty() {
            return Box::default();
        }
        let promised = &mut self.promised.get_or_insert_default().named;
        let mut chosen = Vec::new();
        for (kind, amount) in &need.generic {
            let Some(values) = self.node.description.named.get(kind) else { continue };
            let one = |value: &Arc<str>| NamedResource { kind: Arc::clone(kind), value: Arc::clone(value) };
            let free = |one: &NamedResource| self.used.holder_of(one).is_none() && !promised.contains(one);
            let wanted = usize::try_from(*amount).unwrap_or(0);
            chosen.extend(values.iter().map(one).filter(free).take(wanted));
        }
        promised.extend(chosen.iter().cloned());
        chosen.into()
    }

    /// Keeps room for a task that cannot be placed before others have ended.
    pub fn hold(&mut self, need: &Need, task: TaskId, ports: &[BoundPort]) {
        self.free_cpus = self.free_cpus.saturating_sub(need.reserve.nano_cpus);
        self.free_memory = self.free_memory.saturating_sub(need.reserve.memory);
        self.promise(&need.reserve, 1);
        if !ports.is_empty() {
            let promised = &mut self.promised.get_or_insert_default().ports;
            promised.extend(ports.iter().map(|bound| ((bound.protocol, bound.port), task)));
        }
        if !need.spec.mounts.is_empty() {
            let mounts = need.spec.mounts.iter();
            let uses = mounts.map(|mount| (Arc::clone(&mount.volume), task, mount.read_only));
            self.promised.get_or_insert_default().volumes.extend(uses);
        }
        self.recall(need.turn, self.taken_in(need.turn) + 1);
    }

    /// Thinks that what tasks hold is free, or takes that back.
    pub fn lift(&mut self, tasks: Vec<TaskId>, room: &Resources) {
        self.gone = Some(Box::new(Gone { tasks, wanted_of: None }));
        self.free_cpus = self.free_cpus.saturating_add(room.nano_cpus);
        self.free_memory = self.free_memory.saturating_add(room.memory);
        self.promise(room, -1);
    }

    /// The opposite of [`lift`](Self::lift).
    pub fn put_down(&mut self, room: &Resources) {
        self.gone = None;
        self.free_cpus = self.free_cpus.saturating_sub(room.nano_cpus);
        self.free_memory = self.free_memory.saturating_sub(room.memory);
        self.promise(room, 1);
    }

    /// How full it is: the shares of its processors and of its memory that are reserved, in ten thousandths, added up.
    pub fn fullness(&self) -> u32 {
        let offer = &self.node.description.resources;
        let share = |offer: i64, free: i64| {
            let held = i128::from(offer.saturating_sub(free).max(0));
            let share = if offer > 0 { held * 10_000 / i128::from(offer) } else { 0 };
            u32::try_from(share).unwrap_or(u32::MAX).min(1_000_000)
        };
        share(offer.nano_cpus, self.free_cpus) + share(offer.memory, self.free_memory)
    }

    /// True when it stands under another load than it has now.
    pub fn is_moved(&self) -> bool {
        self.load != self.listed
    }

    /// True when tasks can be placed here in this pass.
    pub fn is_usable(&self) -> bool {
        self.takes_tasks && self.settled
    }
}

/// A node's place in the order in which nodes are tried: the least loaded first, then by id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    load: u32,
    node: NodeId,
    seat: u32,
}

/// Nodes with what is held of them.
type Tail<'v> = dyn Iterator<Item = (&'v Arc<Node>, &'v NodeUse)> + 'v;

/// The nodes of one pass.
pub(crate) struct Field<'v> {
    view: &'v Tables,
    /// Every node that was looked at, in the order in which it was.
    seats: Vec<Seat<'v>>,
    /// The usable ones among them, by their load now; to be made anew when `None`.
    order: Option<BTreeSet<Place>>,
    /// The nodes by their load in the view; those before its place were looked at. `None` once all were.
    tail: Option<Box<Tail<'v>>>,
    /// The first usable one of the tail; its seat is made, but it is not in `order` yet.
    head: Option<Place>,
    /// The seats by node, once one was asked for by name.
    by_node: Option<BTreeMap<NodeId, u32>>,
}

impl<'v> Field<'v> {
    /// The nodes of the view, none of them looked at.
    pub fn new(view: &'v Tables) -> Self {
        Self {
            view,
            seats: Vec::new(),
            order: Some(BTreeSet::new()),
            tail: Some(Box::new(view.nodes_with_use_by_load())),
            head: None,
            by_node: None,
        }
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.view.node_count()
    }

    /// A seat by its number.
    pub fn seat(&self, number: u32) -> &Seat<'v> {
        &self.seats[number as usize]
    }

    /// A seat by its number, to be changed. [`relist`](Self::relist) must follow when its load has.
    pub fn seat_mut(&mut self, number: u32) -> &mut Seat<'v> {
        &mut self.seats[number as usize]
    }

    /// The seats that were looked at so far.
    pub fn seats(&self) -> &[Seat<'v>] {
        &self.seats
    }

    /// Shows the usable nodes to `visit`, the least loaded first, then by id, until it breaks off. A node that nobody
    /// needs is not even looked at.
    pub fn walk(&mut self, mut visit: impl FnMut(u32, &Seat<'v>) -> ControlFlow<()>) {
        let Self { view, seats, order, tail, head, by_node } = self;
        let order = order.get_or_insert_with(|| places(seats));
        let mut fresh = Vec::new();
        let mut listed = order.iter().copied().peekable();
        loop {
            if let (None, Some(tail)) = (&head, tail.as_mut()) {
                *head = next_usable(view, seats, tail, by_node);
            }
            let place = match listed.next_if(|place| head.is_none_or(|head| *place < head)) {
                Some(place) => place,
                None => match head.take() {
                    Some(place) => {
                        fresh.push(place);
                        place
                    }
                    None => break,
                },
            };
            if visit(place.seat, &seats[place.seat as usize]).is_break() {
                break;
            }
        }
        order.extend(fresh);
    }

    /// Looks at every node that was not looked at yet. They are read by id, which is faster than by load: the
    /// order is made when it is needed.
    pub fn complete(&mut self) {
        if self.tail.take().is_none() {
            return;
        }
        self.head = None;
        self.order = None;
        let known = if self.seats.is_empty() { None } else { Some(self.index()) };
        let missing: Vec<_> = (self.view.nodes_with_use())
            .filter(|(node, _)| known.as_ref().is_none_or(|known| !known.contains_key(&node.id)))
            .collect();
        self.seats.reserve_exact(missing.len());
        for (node, used) in missing {
            sit(self.view, &mut self.seats, node, used);
        }
        self.by_node = None;
    }

    /// The seat of one node; `None` when there is no such node.
    pub fn find(&mut self, node: NodeId) -> Option<u32> {
        // The one that is asked for may be the head; it must stand in the order before its load changes.
        if let (Some(order), Some(head)) = (&mut self.order, self.head.take()) {
            order.insert(head);
        }
        let mut by_node = self.by_node.take().unwrap_or_else(|| self.index());
        let found = by_node.get(&node).copied().or_else(|| {
            let (node, used) = self.view.node_with_use(node)?;
            let place = sit(self.view, &mut self.seats, node, used);
            by_node.insert(node.id, place.seat);
            let usable = self.seat(place.seat).is_usable();
            if let (Some(order), true) = (&mut self.order, usable) {
                order.insert(place);
            }
            Some(place.seat)
        });
        self.by_node = Some(by_node);
        found
    }

    /// Puts seats whose load has changed in their new places.
    pub fn relist(&mut self, numbers: &[u32]) {
        for &number in numbers {
            let seat = &mut self.seats[number as usize];
            if let (Some(order), true) = (&mut self.order, seat.is_moved()) {
                let place = |load| Place { load, node: seat.node.id, seat: number };
                // Mostly it is the first, and that is found without a search.
                let old = place(seat.listed);
                if order.first() == Some(&old) {
                    order.pop_first();
                } else {
                    order.remove(&old);
                }
                order.insert(place(seat.load));
            }
            seat.listed = seat.load;
        }
    }

    /// The seats by node.
    fn index(&self) -> BTreeMap<NodeId, u32> {
        self.seats.iter().enumerate().map(|(number, seat)| (seat.node.id, number as u32)).collect()
    }
}

/// The usable seats in their order.
fn places(seats: &[Seat]) -> BTreeSet<Place> {
    let usable = seats.iter().enumerate().filter(|(_, seat)| seat.is_usable());
    usable.map(|(number, seat)| Place { load: seat.load, node: seat.node.id, seat: number as u32 }).collect()
}

/// Makes the seat of a node.
fn sit<'v>(view: &'v Tables, seats: &mut Vec<Seat<'v>>, node: &'v Arc<Node>, used: &'v NodeUse) -> Place {
    let seat = Seat::new(view, node, used);
    let place = Place { load: seat.load, node: node.id, seat: seats.len() as u32 };
    seats.push(seat);
    place
}

/// Looks at the nodes of the tail until a usable one is found; those that were looked at before are passed over.
fn next_usable<'v>(
    view: &'v Tables,
    seats: &mut Vec<Seat<'v>>,
    tail: &mut Tail<'v>,
    by_node: &mut Option<BTreeMap<NodeId, u32>>,
) -> Option<Place> {
    for (node, used) in tail {
        if by_node.as_ref().is_some_and(|known| known.contains_key(&node.id)) {
            continue;
        }
        let place = sit(view, seats, node, used);
        if let Some(known) = by_node {
            known.insert(node.id, place.seat);
        }
        if seats[place.seat as usize].is_usable() {
            return Some(place);
        }
    }
    None
}
