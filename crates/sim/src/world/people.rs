//! What people and fate do: requests, which are made again until somebody has answered them, and faults.

use std::sync::Arc;

use control::settings::SettingsChange;
use model::{Availability, Index, Labels, NamespaceId, NodeId, Slot, Span, TaskState};
use store::{Change, ChangeSet, Refused, Tables};

use super::{Happening, World, member, node_id};
use crate::desk::{Decision, decide};
use crate::host::Host;
use crate::log::Origin;
use crate::random::Random;
use crate::script::{Command, Place};
use crate::service;

/// A request that somebody waits for.
pub struct Request {
    command: Command,
    attempt: u32,
    answer: Option<Result<String, String>>,
}

/// How long whoever asks waits for an answer before asking again: by then it is not known what became of it.
const PATIENCE: Span = Span::from_secs(10);

/// How often a request is made at most.
const ATTEMPTS: u32 = 100;

impl World {
    /// Makes a request, and goes on until it is answered or given up. What is asked of no leader is asked again.
    pub fn request(&mut self, command: Command) -> u64 {
        let number = self.next_request;
        self.next_request += 1;
        self.requests.insert(number, Request { command, attempt: 0, answer: None });
        self.after(Span::from_millis(1), Happening::Ask(number, 0));
        number
    }

    /// The answer to a request, once there is one.
    pub fn answer_to(&self, request: u64) -> Option<&Result<String, String>> {
        self.requests.get(&request)?.answer.as_ref()
    }

    /// True while a request waits for its answer.
    pub fn has_open_requests(&self) -> bool {
        self.requests.values().any(|r| r.answer.is_none())
    }

    pub(super) fn ask_again(&mut self, number: u64, after: Span) {
        let Some(request) = self.requests.get_mut(&number).filter(|r| r.answer.is_none()) else { return };
        request.attempt += 1;
        let attempt = request.attempt;
        if attempt > ATTEMPTS {
            request.answer = Some(Err("no manager answers".into()));
            return;
        }
        self.after(after, Happening::Ask(number, attempt));
    }

    pub(super) fn ask(&mut self, number: u64, attempt: u32) {
        let open = |r: &&Request| r.answer.is_none() && r.attempt == attempt;
        let Some(request) = self.requests.get(&number).filter(open) else { return };
        let command = request.command.clone();
        // A client speaks with whoever believes to lead; one that is cut off never answers.
        let Some(leader) = self.leader() else {
            return self.ask_again(number, Span::from_millis(500));
        };
        let tables = self.seats[leader].tables.clone();
        if tables.cluster().is_none() {
            return self.ask_again(number, Span::from_millis(100));
        }
        match self.decide(&command, &tables) {
            Ok(Decision::Write(set)) => {
                self.propose(leader, Origin::Request(number), set);
                self.ask_again(number, PATIENCE);
            }
            Ok(Decision::Nothing) => self.settle(number, Ok("nothing to change".into())),
            Err(refused) => self.settle(number, Err(refused)),
        }
    }

    fn settle(&mut self, number: u64, answer: Result<String, String>) {
        if let Some(request) = self.requests.get_mut(&number) {
            request.answer = Some(answer);
        }
    }

    /// The leader has applied the change set of a request.
    pub(super) fn answer(&mut self, number: u64, index: Index, set: &ChangeSet, result: Result<(), Refused>) {
        if self.requests.get(&number).is_none_or(|r| r.answer.is_some()) {
            return;
        }
        match result {
            Ok(()) => {
                self.settle(number, Ok("done".into()));
                self.judge(|checker, _| checker.acknowledged(index, set));
            }
            // Decided about a world that is no more: decided again.
            Err(_) => self.ask_again(number, Span::from_millis(1)),
        }
    }

    fn decide(&mut self, command: &Command, tables: &Tables) -> Result<Decision, String> {
        let now = self.now;
        let random = &mut self.random;
        match command {
            Command::Service { name, settings } => {
                let spec = service::spec(name, settings)?;
                let find = tables.service_by_name(NamespaceId::DEFAULT, name);
                // Asked again because nobody knew whether it had happened.
                if find.is_some_and(|s| control::services::spec_of(tables, s) == spec) {
                    return Ok(Decision::Nothing);
                }
                decide(tables, now, random, |c| Box::pin(control::services::create(c, spec)))
            }
            Command::Update { name, settings } => {
                let old = control::services::find(tables, name).map_err(|e| e.to_string())?;
                let mut spec = control::services::spec_of(tables, old);
                service::change(&mut spec, settings)?;
                let name = name.clone();
                decide(tables, now, random, |c| {
                    Box::pin(async move { control::services::update(c, &name, None, spec).await })
                })
            }
            Command::Scale { name, replicas } => {
                let (name, replicas) = (name.clone(), *replicas);
                decide(tables, now, random, |c| {
                    Box::pin(async move { control::services::scale(c, &name, None, replicas).await })
                })
            }
            Command::Promote(name) => {
                let name = name.clone();
                decide(tables, now, random, |c| {
                    Box::pin(async move { control::services::promote(c, &name, None).await })
                })
            }
            Command::Abort(name) => {
                let name = name.clone();
                decide(tables, now, random, |c| {
                    Box::pin(async move { control::services::abort(c, &name, None).await })
                })
            }
            Command::Rollback(name) => {
                let name = name.clone();
                decide(tables, now, random, |c| {
                    Box::pin(async move { control::services::rollback(c, &name, None).await })
                })
            }
            Command::Remove(name) => {
                let name = name.clone();
                decide(tables, now, random, |c| {
                    Box::pin(async move { control::services::remove(c, &name, None).await })
                })
            }
            Command::Availability { node, word } => {
                let availability = Availability::from_word(word);
                let change = control::nodes::NodeChange { availability, ..Default::default() };
                change_node(tables, now, random, *node, change)
            }
            Command::DrainWithin { node, span } => {
                let availability = Some(Availability::Drain);
                let deadline = Some(*span);
                let change = control::nodes::NodeChange { availability, deadline, ..Default::default() };
                change_node(tables, now, random, *node, change)
            }
            Command::Label { node, key, value } => {
                let add_labels = Labels::from([(Arc::from(key.as_str()), Arc::from(value.as_str()))]);
                let change = control::nodes::NodeChange { add_labels, ..Default::default() };
                change_node(tables, now, random, *node, change)
            }
            Command::RemoveNode(node) => match tables.node(node_id(*node)) {
                Some(node) => Ok(Decision::Write(ChangeSet::of(vec![Change::DeleteNode(node.id)]))),
                None => Err(format!("there is no node-{node}")),
            },
            Command::Cluster(settings) => {
                let mut change = SettingsChange::default();
                for (key, value) in settings {
                    set_cluster(&mut change, key, value)?;
                }
                decide(tables, now, random, |c| {
                    Box::pin(async move { control::settings::update(c, None, change).await })
                })
            }
            Command::Nodes { count, size, label } => {
                let mut changes = Vec::new();
                for (nth, number) in (0..*count).zip(1..) {
                    let host = Host::new(node_id(number), &format!("node-{number}"), *size);
                    let mut labels = Labels::new();
                    if let Some((key, values)) = label {
                        let value = &values[nth as usize % values.len()];
                        labels.insert(key.as_str().into(), value.as_str().into());
                    }
                    if tables.node(node_id(number)).is_none() && !self.scrapped.contains(&number) {
                        changes.push(Change::CreateNode(member(number, &host, labels)));
                    }
                }
                Ok(Decision::Write(ChangeSet::of(changes)))
            }
            other => Err(format!("{other} is no request")),
        }
    }

    /// Does what a command says at once: a fault begins or ends, machines appear.
    ///
    /// # Errors
    /// What it speaks of does not exist.
    pub fn befall(&mut self, command: &Command) -> Result<(), String> {
        match command {
            Command::Crash { place, back } => {
                self.crash(*place)?;
                if let Some(back) = back {
                    self.after(*back, Happening::Boot(*place));
                }
            }
            Command::Boot(place) => self.boot(*place),
            Command::KillAgent { node, back } => {
                let id = self.known(*node)?;
                let (now, random) = (self.now, &mut self.random);
                let wishes = self.hosts.get_mut(&id).map(|host| host.kill_daemon(now, random));
                self.drop_wires(id);
                self.grant(id, wishes.unwrap_or_default());
                self.blame(id);
                self.after(back.unwrap_or(Span::ZERO), Happening::Boot(Place::Node(*node)));
            }
            Command::Depose => self.depose(),
            Command::Cut(a, b) => {
                self.cuts.insert(((*a).min(*b), (*a).max(*b)));
                self.look_for_leader();
            }
            Command::Heal => {
                self.cuts.clear();
                self.look_for_leader();
                self.spread_word();
            }
            Command::Net(net) => self.net = *net,
            Command::Disk { node, fails } => self.machine(*node)?.set_disk_fails(*fails),
            Command::Drivers { node, fail } => self.machine(*node)?.set_drivers_fail(*fail),
            Command::Clock { place: Place::Node(node), by } => self.machine(*node)?.jump(*by),
            Command::Clock { place: place @ Place::Manager(number), by } => {
                let now = self.now;
                let seat = self.seats.get_mut(*number as usize - 1);
                seat.ok_or_else(|| format!("there is no {place}"))?.jump(*by, now);
            }
            Command::Resources { node, size } => {
                let host = self.machine(*node)?;
                host.set_size(*size);
                let described = agent::Input::Described(Arc::clone(&host.description));
                self.tell_agent(node_id(*node), described);
            }
            Command::Volumes { node, volumes } => {
                let host = self.machine(*node)?;
                host.set_volumes(volumes);
                let described = agent::Input::Described(Arc::clone(&host.description));
                self.tell_agent(node_id(*node), described);
            }
            Command::End { service, slot, code } => self.end_program(service, *slot, *code)?,
            other => return Err(format!("{other} is no fault")),
        }
        Ok(())
    }

    /// Machines appear and start their daemons.
    pub fn add_machines(&mut self, command: &Command) {
        let Command::Nodes { count, size, .. } = command else { return };
        for number in 1..=*count {
            let id = node_id(number);
            if !self.hosts.contains_key(&id) && !self.scrapped.contains(&number) {
                let host = Host::new(id, &format!("node-{number}"), *size);
                self.hosts.insert(id, host);
                self.start_daemon(id);
            }
        }
    }

    /// A machine is switched off for ever.
    pub fn scrap(&mut self, number: u32) {
        let id = node_id(number);
        self.scrapped.insert(number);
        if let Some(host) = self.hosts.get_mut(&id) {
            host.power_off(self.now, &mut self.random);
            self.drop_wires(id);
            self.hosts.remove(&id);
        }
    }

    fn known(&self, number: u32) -> Result<NodeId, String> {
        let id = node_id(number);
        if self.hosts.contains_key(&id) { Ok(id) } else { Err(format!("there is no node-{number}")) }
    }

    fn machine(&mut self, number: u32) -> Result<&mut Host, String> {
        self.hosts.get_mut(&node_id(number)).ok_or_else(|| format!("there is no node-{number}"))
    }

    fn crash(&mut self, place: Place) -> Result<(), String> {
        match place {
            Place::Manager(number) => {
                let seat = number as usize - 1;
                if seat >= self.seats.len() {
                    return Err(format!("there is no {place}"));
                }
                self.crash_manager(seat);
            }
            Place::Node(number) => {
                let id = self.known(number)?;
                if let Some(host) = self.hosts.get_mut(&id) {
                    host.power_off(self.now, &mut self.random);
                }
                self.drop_wires(id);
                self.blame(id);
            }
        }
        Ok(())
    }

    pub(super) fn boot(&mut self, place: Place) {
        match place {
            Place::Manager(number) if (number as usize) <= self.seats.len() => {
                self.boot_manager(number as usize - 1);
            }
            Place::Manager(_) => {}
            Place::Node(number) => {
                let id = node_id(number);
                if self.hosts.get(&id).is_some_and(|h| !h.runs_daemon()) {
                    self.start_daemon(id);
                }
            }
        }
    }

    /// Everything that is broken works again; whoever is down comes back.
    pub fn end_faults(&mut self) {
        self.net = crate::script::Net::default();
        self.cuts.clear();
        for host in self.hosts.values_mut() {
            host.set_disk_fails(false);
            host.set_drivers_fail(false);
        }
        for seat in 0..self.seats.len() {
            self.boot_manager(seat);
        }
        self.look_for_leader();
        self.spread_word();
    }

    fn end_program(&mut self, service: &str, slot: u32, code: i32) -> Result<(), String> {
        let tables = self.tables();
        let found = tables.service_by_name(NamespaceId::DEFAULT, service);
        let id = found.ok_or_else(|| format!("there is no service {service}"))?.id;
        let numbered = tables.tasks_of_slot(id, Slot::Number(slot - 1));
        let on_node = tables.tasks_of_slot(id, Slot::Node(node_id(slot)));
        let task = numbered.chain(on_node).find(|t| t.status.state == TaskState::Running);
        let task = task.ok_or_else(|| format!("{service}.{slot} does not run"))?;
        let (name, node) = ((Arc::from(task.id.to_string()), Arc::from("main")), task.node);
        if let Some(node) = node {
            self.after(Span::ZERO, Happening::End(node, name, Some(code)));
        }
        Ok(())
    }
}

fn change_node(
    tables: &Tables,
    now: model::Time,
    random: &mut Random,
    node: u32,
    change: control::nodes::NodeChange,
) -> Result<Decision, String> {
    let reference = node_id(node).to_string();
    if tables.node(node_id(node)).is_none() {
        return Err(format!("there is no node-{node}"));
    }
    decide(tables, now, random, |c| {
        Box::pin(async move { control::nodes::update(c, &reference, None, change).await })
    })
}

fn set_cluster(change: &mut SettingsChange, key: &str, value: &str) -> Result<(), String> {
    let span = || Span::parse(value).map(Some).map_err(|e| format!("{key}: {e}"));
    let count = || value.parse().map(Some).map_err(|_| format!("{key}: {value:?} is not a number"));
    match key {
        "history" => change.history = count()?,
        "history-failed" => change.history_failed = count()?,
        "history-age" => change.history_age = span()?,
        "heartbeat" => change.heartbeat = span()?,
        "orphan-after" => change.orphan_after = span()?,
        "strategy" => {
            let strategy = model::Strategy::from_word(value);
            change.strategy = Some(strategy.ok_or_else(|| format!("{key}: {value:?} is no strategy"))?);
        }
        "rebalance" if value == "off" => change.rebalance = Some(0),
        "rebalance" => match value.parse() {
            Ok(threshold @ 2..) => change.rebalance = Some(threshold),
            _ => return Err(format!("{key}: {value:?} is neither off nor a number from 2 on")),
        },
        _ => return Err(format!("{key}: there is no such setting")),
    }
    Ok(())
}
