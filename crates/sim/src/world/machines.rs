//! The machines' side: agents, their disks and drivers, and the wires to managers. A wire keeps the order of what it carries; what it loses breaks it.

use std::sync::Arc;

use agent::Input as AgentInput;
use manager::Input;
use model::sync::{ToAgent, ToManager};
use model::{NodeId, Span, Time};

use super::managers::manager;
use super::{Happening, World};
use crate::host::{Name, Wish};
use crate::script::Place;

/// A connection of an agent with a manager.
pub struct Wire {
    node: NodeId,
    life: u64,
    connection: u64,
    seat: usize,
    seat_life: u64,
    /// Nothing gets through any more.
    dead: bool,
    /// When the last message of each direction arrives: they keep their order.
    up_by: Time,
    down_by: Time,
}

/// How long what is under way on a wire may still arrive.
const LINGER: Span = Span::from_secs(30);

impl World {
    /// The daemon of a machine starts.
    pub(super) fn start_daemon(&mut self, node: NodeId) {
        let Some(host) = self.hosts.get_mut(&node) else { return };
        let wishes = host.start_daemon(self.now, &mut self.random, &mut self.trace);
        self.grant(node, wishes);
        self.see_to_agent(node);
    }

    /// Something happened to the agent of a machine.
    pub(super) fn tell_agent(&mut self, node: NodeId, input: AgentInput) {
        let Some(host) = self.hosts.get_mut(&node) else { return };
        let wishes = host.input(self.now, input, &mut self.random, &mut self.trace);
        self.grant(node, wishes);
        self.see_to_agent(node);
    }

    fn see_to_agent(&mut self, node: NodeId) {
        let Some(host) = self.hosts.get_mut(&node) else { return };
        let Some(wake) = host.next_wake() else { return };
        let wake = wake.max(self.now + Span(10_000));
        if host.wake.is_none_or(|known| wake < known) {
            host.wake = Some(wake);
            let life = host.life;
            self.at(wake, Happening::Wake(node, life));
        }
    }

    pub(super) fn wake(&mut self, node: NodeId, life: u64) {
        let Some(host) = self.hosts.get_mut(&node).filter(|h| h.life == life) else { return };
        if host.wake.is_some_and(|wake| wake <= self.now) {
            host.wake = None;
        }
        self.tell_agent(node, AgentInput::Tick);
    }

    pub(super) fn grant(&mut self, node: NodeId, wishes: Vec<Wish>) {
        let Some(life) = self.hosts.get(&node).map(|h| h.life) else { return };
        for wish in wishes {
            match wish {
                Wish::Work(span, number) => self.after(span, Happening::Work(node, life, number)),
                Wish::End(span, name, code) => self.after(span, Happening::End(node, name, code)),
                Wish::Say(connection, message) => self.say(node, life, connection, message),
                Wish::Dial(connection, after) => {
                    self.drop_wires(node);
                    self.after(after, Happening::Dial(node, life, connection));
                }
            }
        }
    }

    pub(super) fn work(&mut self, node: NodeId, life: u64, number: u64) {
        let Some(host) = self.hosts.get_mut(&node).filter(|h| h.life == life) else { return };
        let mut wishes = Vec::new();
        let answer = host.work(number, self.now, &mut wishes);
        self.grant(node, wishes);
        self.blame(node);
        if let Some(input) = answer {
            self.tell_agent(node, input);
        }
    }

    pub(super) fn end(&mut self, node: NodeId, name: &Name, code: Option<i32>) {
        let Some(host) = self.hosts.get_mut(&node) else { return };
        if let Some(input) = host.end(name, code, self.now) {
            self.tell_agent(node, input);
        }
    }

    /// Takes up what a machine has to be blamed for.
    pub(super) fn blame(&mut self, node: NodeId) {
        let Some(host) = self.hosts.get_mut(&node) else { return };
        for problem in std::mem::take(&mut host.broken) {
            self.break_promise("no program runs twice, nor without a record", problem);
        }
    }

    /// The machine's wires carry nothing to it any more.
    pub(super) fn drop_wires(&mut self, node: NodeId) {
        for wire in self.wires.values_mut().filter(|w| w.node == node) {
            wire.connection = 0;
        }
    }

    /// An agent looks for a manager: mostly the one that leads, as whoever answered last tells it.
    pub(super) fn reach(&mut self, node: NodeId, life: u64, connection: u64) {
        if self.hosts.get(&node).is_none_or(|h| h.life != life || h.connection != connection) {
            return;
        }
        let from = place_of(node);
        let reached: Vec<usize> = (0..self.seats.len())
            .filter(|seat| self.seats[*seat].up && !self.is_cut(from, manager(*seat)))
            .collect();
        if reached.is_empty() {
            let reason = "no manager answers".into();
            return self.tell_agent(node, AgentInput::Disconnected { connection, reason });
        }
        let leader = self.log.leader().filter(|l| reached.contains(l) && !self.random.once_in(4));
        let seat = leader.unwrap_or_else(|| *self.random.pick(&reached));
        let number = self.next_wire;
        self.next_wire += 1;
        let wire = Wire {
            node,
            life,
            connection,
            seat,
            seat_life: self.seats[seat].life,
            dead: false,
            up_by: self.now,
            down_by: self.now,
        };
        self.wires.insert(number, wire);
        let span = self.delay();
        self.after(span, Happening::Connected(number));
    }

    pub(super) fn connected(&mut self, number: u64) {
        if let Some((node, connection)) = self.agent_end(number) {
            self.tell_agent(node, AgentInput::Connected { connection });
        }
    }

    /// The agent at the end of a wire, if it still listens there.
    fn agent_end(&self, number: u64) -> Option<(NodeId, u64)> {
        let wire = self.wires.get(&number)?;
        let host = self.hosts.get(&wire.node)?;
        (host.life == wire.life && host.connection == wire.connection).then_some((wire.node, wire.connection))
    }

    fn say(&mut self, node: NodeId, life: u64, connection: u64, message: ToManager) {
        let of = |w: &Wire| w.node == node && w.life == life && w.connection == connection;
        let Some(number) = self.wires.iter().rev().find(|(_, w)| of(w)).map(|(n, _)| *n) else { return };
        if !self.carries(number) {
            return;
        }
        let span = self.delay();
        let Some(wire) = self.wires.get_mut(&number) else { return };
        wire.up_by = wire.up_by.max(self.now + span);
        let at = wire.up_by;
        self.at(at, Happening::Up(number, message));
    }

    /// True when a wire carries the next message; otherwise it is broken from now on.
    fn carries(&mut self, number: u64) -> bool {
        let Some(wire) = self.wires.get(&number) else { return false };
        if wire.dead {
            return false;
        }
        let cut = self.is_cut(place_of(wire.node), manager(wire.seat));
        if cut || self.random.in_million(self.net.loss) {
            self.break_wire(number);
            return false;
        }
        true
    }

    /// A wire is broken: the agent is told in a moment, or never, and then has to find out by itself.
    fn break_wire(&mut self, number: u64) {
        let Some(wire) = self.wires.get_mut(&number).filter(|w| !w.dead) else { return };
        wire.dead = true;
        if !self.random.once_in(3) {
            let span = self.delay();
            self.after(span, Happening::Cut(number));
        }
        self.after(LINGER, Happening::Forget(number));
    }

    pub(super) fn break_wires_of(&mut self, seat: usize) {
        let of_seat = self.wires.iter().filter(|(_, w)| w.seat == seat && !w.dead);
        for number in of_seat.map(|(n, _)| *n).collect::<Vec<_>>() {
            self.break_wire(number);
        }
    }

    pub(super) fn tell_cut(&mut self, number: u64) {
        if let Some((node, connection)) = self.agent_end(number) {
            let reason: Arc<str> = "the connection is gone".into();
            self.tell_agent(node, AgentInput::Disconnected { connection, reason });
        }
    }

    pub(super) fn arrive_up(&mut self, number: u64, message: ToManager) {
        let Some(wire) = self.wires.get(&number).filter(|w| !w.dead) else { return };
        let (node, seat) = (wire.node, wire.seat);
        if !self.seats[seat].up || self.seats[seat].life != wire.seat_life {
            return self.break_wire(number);
        }
        if !self.seats[seat].manager.leads() {
            let reason = "this manager does not lead".into();
            return self.send_down(number, ToAgent::SessionEnded { reason });
        }
        self.step(seat, Input::Agent { node, conn: number, address: "".into(), message });
    }

    /// A manager says something to an agent.
    pub(super) fn send_down(&mut self, number: u64, message: ToAgent) {
        if !self.carries(number) {
            return;
        }
        let span = self.delay();
        let Some(wire) = self.wires.get_mut(&number) else { return };
        wire.down_by = wire.down_by.max(self.now + span);
        let at = wire.down_by;
        self.at(at, Happening::Down(number, message));
    }

    pub(super) fn arrive_down(&mut self, number: u64, message: ToAgent) {
        if self.wires.get(&number).is_none_or(|w| w.dead) {
            return;
        }
        match self.agent_end(number) {
            Some((node, connection)) => self.tell_agent(node, AgentInput::Message { connection, message }),
            None => self.break_wire(number),
        }
    }
}

/// The place of the machine that is this node.
pub fn place_of(node: NodeId) -> Place {
    Place::Node(node.0.as_u128() as u32)
}
