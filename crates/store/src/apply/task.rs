//! Tasks, as the control plane changes them. What agents report is in `report`.

use std::sync::Arc;

use model::{
    BoundPort, Desired, Leave, Mode, Mount, NamedResource, Node, NodeId, Resources, RevisionId, ServiceId,
    Slot, Task, TaskId, TaskState, TaskStatus, Time, Unplaced, VolumeLack, limits,
};

use super::journal::Before;
use super::{Tx, clip, wrong};
use crate::{NodeUse, ObjectId, Refused};

/// What a task is made of.
pub(super) struct Made {
    pub(super) service: ServiceId,
    pub(super) slot: Slot,
    pub(super) revision: RevisionId,
    pub(super) node: Option<NodeId>,
    pub(super) desired: Desired,
    pub(super) start_after: Option<Time>,
}

impl Tx<'_> {
    pub(super) fn create_task(&mut self, id: TaskId, made: Made) -> Result<(), Refused> {
        let object = ObjectId::Task(id);
        if self.tables.task_handle(id).is_some() {
            return Err(Refused::Exists(object));
        }
        if self.tables.service(made.service).is_none() {
            return Err(Refused::Missing(ObjectId::Service(made.service)));
        }
        self.need_revision(made.revision, made.service)?;
        if let Some(node) = made.node {
            self.need_node(node)?;
        }
        check_made(object, &made)?;
        self.check_batch(object, &made)?;
        let task = Task {
            id,
            service: made.service,
            slot: made.slot,
            revision: made.revision,
            node: made.node,
            desired: made.desired,
            start_after: made.start_after,
            leave: None,
            status: TaskStatus {
                state: TaskState::Pending,
                at: self.time,
                applied_at: self.time,
                message: None,
            },
            programs: Box::default(),
            ports: Box::default(),
            named: Box::default(),
            dismissed: None,
            unplaced: None,
            created: self.version,
            modified: self.version,
            directed: self.version,
            created_at: self.time,
        };
        let handle = self.tables.insert_task(Arc::new(task));
        self.journal.touch(Before::Task(id, handle, None));
        Ok(())
    }

    /// What is done runs no more, and no more slots are in progress than may be. Whoever decided counted on what was in
    /// flight; if a change that made room was lost, there is none.
    fn check_batch(&self, object: ObjectId, made: &Made) -> Result<(), Refused> {
        let Some((service, used)) = self.tables.service_with_use(made.service) else { return Ok(()) };
        if !service.mode.is_batch() {
            return Ok(());
        }
        let revision = made.revision;
        if used.is_done(revision, made.slot) {
            return Err(wrong(object, format!("slot {} is done", made.slot)));
        }
        let Mode::Batch { .. } = service.mode else { return Ok(()) };
        let waiting = if used.is_undecided(revision, made.slot) { 0 } else { used.undecided(revision) };
        let busy = used.filled() + waiting;
        if !used.is_filled(made.slot) && busy >= service.mode.at_once() {
            return Err(wrong(object, format!("{busy} slots are in progress, as many as may be at once")));
        }
        Ok(())
    }

    fn need_node(&self, id: NodeId) -> Result<(), Refused> {
        match self.tables.node(id) {
            Some(_) => Ok(()),
            None => Err(Refused::Missing(ObjectId::Node(id))),
        }
    }

    fn need_task(&self, id: TaskId) -> Result<(u32, &Task), Refused> {
        self.tables.find_task(id).ok_or(Refused::Missing(ObjectId::Task(id)))
    }

    /// Puts a task, changed in the name of the control plane, in its place.
    fn direct(&mut self, handle: u32, task: Task) {
        let directed = self.version;
        self.replace_task(handle, Task { directed, ..task });
    }

    /// Puts a changed task in its place.
    pub(super) fn replace_task(&mut self, handle: u32, task: Task) {
        let new = Task { modified: self.version, ..task };
        let id = new.id;
        let old = self.tables.replace_task(handle, Arc::new(new));
        self.journal.touch(Before::Task(id, handle, old));
    }

    pub(super) fn assign_task(
        &mut self,
        id: TaskId,
        node: NodeId,
        ports: &[BoundPort],
        named: &[NamedResource],
    ) -> Result<(), Refused> {
        let object = ObjectId::Task(id);
        let (handle, old) = self.need_task(id)?;
        if old.status.state >= TaskState::Assigned {
            return Err(wrong(object, format!("it is {} and cannot be assigned", old.status.state)));
        }
        if !old.desired.is_wanted() {
            return Err(wrong(object, "it is no longer wanted"));
        }
        if old.node.is_some_and(|made_for| made_for != node) {
            return Err(wrong(object, "it was made for another node"));
        }
        let (host, used) = self.tables.node_with_use(node).ok_or(Refused::Missing(ObjectId::Node(node)))?;
        check_ports(object, node, used, ports)?;
        // Whoever chose the node counted on what was in flight; if a change that made room was lost, there is none.
        let entry = self.tables.revisions.get(&old.revision);
        check_volumes(object, host, used, entry.map_or(&[], |entry| &entry.revision.task.mounts))?;
        let needs = entry.map(|entry| &entry.reservation);
        if needs.is_some_and(|needs| !host.description.resources.fits(used.reserved(), needs)) {
            return Err(wrong(object, format!("node {node} has too little left for it")));
        }
        check_named(object, host, used, needs.map(|needs| &**needs), named)?;
        let (at, applied_at) = (self.time, self.time);
        let new = Task {
            node: Some(node),
            ports: ports.into(),
            named: named.into(),
            unplaced: None,
            status: TaskStatus { state: TaskState::Assigned, at, applied_at, message: None },
            ..old.clone()
        };
        self.direct(handle, new);
        Ok(())
    }

    pub(super) fn direct_task(&mut self, id: TaskId, desired: Desired) -> Result<(), Refused> {
        let (handle, old) = self.need_task(id)?;
        if desired > old.desired {
            let new = Task { desired, start_after: None, ..old.clone() };
            self.direct(handle, new);
        }
        Ok(())
    }

    pub(super) fn leave_task(&mut self, id: TaskId, leave: Option<Leave>) -> Result<(), Refused> {
        let (handle, old) = self.need_task(id)?;
        let (was, node) = (old.leave.as_deref().copied(), old.node);
        if leave.is_some() && (!old.holds_reservation() || !old.desired.is_wanted()) {
            return Err(wrong(
                ObjectId::Task(id),
                "only a task that is wanted and has its node can leave it",
            ));
        }
        if leave.is_some_and(|l| l.to.is_some() && l.to == node) {
            return Err(wrong(ObjectId::Task(id), "it cannot leave its node for the same node"));
        }
        let why = |leave: Leave| (leave.why, leave.to);
        if was.map(why) != leave.map(why) {
            let leave = leave.map(|leave| Box::new(Leave { since: self.time, ..leave }));
            let new = Task { leave, ..old.clone() };
            self.direct(handle, new);
        }
        Ok(())
    }

    pub(super) fn dismiss_task(&mut self, id: TaskId, reason: &Arc<str>) -> Result<(), Refused> {
        let (handle, old) = self.need_task(id)?;
        if old.desired < Desired::Shutdown {
            let (desired, dismissed) = (Desired::Shutdown, Some(clip(reason)));
            let new = Task { desired, dismissed, start_after: None, ..old.clone() };
            self.direct(handle, new);
        }
        Ok(())
    }

    pub(super) fn retire_task(&mut self, id: TaskId) -> Result<(), Refused> {
        self.check_budget(id)?;
        self.direct_task(id, Desired::Shutdown)
    }

    pub(super) fn preempt_task(&mut self, id: TaskId, reason: &Arc<str>) -> Result<(), Refused> {
        self.check_budget(id)?;
        self.dismiss_task(id, reason)
    }

    /// Whoever ends a running task on purpose leaves as many as have to run, whatever failed since it was decided.
    fn check_budget(&self, id: TaskId) -> Result<(), Refused> {
        let old = self.need_task(id)?.1;
        if let Some(service) = self.tables.service(old.service)
            && self.tables.is_healthy(old)
        {
            let (floor, healthy) = (service.floor(), self.tables.healthy(service.id));
            if healthy <= floor {
                let problem = format!("{healthy} tasks of its service run, and {floor} have to");
                return Err(wrong(ObjectId::Task(id), problem));
            }
        }
        Ok(())
    }

    pub(super) fn end_task(
        &mut self,
        id: TaskId,
        state: TaskState,
        message: &Arc<str>,
    ) -> Result<(), Refused> {
        let object = ObjectId::Task(id);
        let now = self.need_task(id)?.1.status.state;
        if now.is_ended() {
            return Err(wrong(object, format!("it has ended already: it is {now}")));
        }
        match state {
            TaskState::Shutdown | TaskState::Rejected if now < TaskState::Assigned => {}
            TaskState::Orphaned if now >= TaskState::Assigned => {}
            TaskState::Shutdown => {
                return Err(wrong(object, "it is assigned: only its agent can say that it was shut down"));
            }
            TaskState::Rejected => {
                return Err(wrong(object, "it is assigned: only its agent can say that it was rejected"));
            }
            TaskState::Orphaned => {
                return Err(wrong(object, "it was never assigned and cannot be orphaned"));
            }
            other => return Err(wrong(object, format!("the control plane does not end tasks as {other}"))),
        }
        self.finish_task(id, state, &clip(message));
        Ok(())
    }

    /// Ends a task in the name of the control plane. The caller has checked that it may.
    pub(super) fn finish_task(&mut self, id: TaskId, state: TaskState, message: &Arc<str>) {
        let Some((handle, old)) = self.tables.find_task(id) else { return };
        let (at, applied_at) = (self.time, self.time);
        let message = Some(Arc::clone(message));
        let status = TaskStatus { state, at, applied_at, message };
        let new = Task { status, unplaced: None, ..old.clone() };
        self.direct(handle, new);
    }

    pub(super) fn delete_task(&mut self, id: TaskId) -> Result<(), Refused> {
        let (handle, old) = self.need_task(id)?;
        if old.holds_reservation() {
            let problem = format!("it is {} and still holds its node", old.status.state);
            return Err(wrong(ObjectId::Task(id), problem));
        }
        let old = self.tables.remove_task(handle);
        self.journal.released.extend(old.as_ref().map(|task| task.revision));
        self.journal.touch(Before::Task(id, handle, old));
        Ok(())
    }

    pub(super) fn explain_tasks(&mut self, tasks: &[TaskId], unplaced: Option<&Arc<Unplaced>>) {
        for id in tasks {
            let Some((handle, old)) = self.tables.find_task(*id) else { continue };
            if old.status.state >= TaskState::Assigned || old.unplaced.as_ref() == unplaced {
                continue;
            }
            let new = Task { unplaced: unplaced.cloned(), ..old.clone() };
            self.direct(handle, new);
        }
    }
}

fn check_made(object: ObjectId, made: &Made) -> Result<(), Refused> {
    match made.slot {
        Slot::Node(node) if made.node != Some(node) => {
            return Err(wrong(object, "a slot of a node is filled on that node only"));
        }
        Slot::Number(n) if u64::from(n) >= limits::REPLICAS => {
            return Err(wrong(object, format!("slot {n} is beyond the {} of one service", limits::REPLICAS)));
        }
        _ => {}
    }
    if !made.desired.is_wanted() {
        return Err(wrong(object, format!("a task is not made to be {}", made.desired)));
    }
    if made.start_after.is_some() && made.desired != Desired::Ready {
        return Err(wrong(object, "only a task that shall be ready waits for a moment"));
    }
    Ok(())
}

/// Named resources must be there and free, each be given once, and be as many of each kind as the task reserves, where the
/// node has names for the kind.
fn check_named(
    object: ObjectId,
    node: &Node,
    used: &NodeUse,
    needs: Option<&Resources>,
    named: &[NamedResource],
) -> Result<(), Refused> {
    let offers = &node.description.named;
    if named.is_empty() && offers.is_empty() {
        return Ok(());
    }
    let hostname = &node.description.hostname;
    for (at, one) in named.iter().enumerate() {
        let name = || format!("{} {}", one.kind, one.value);
        if !node.description.offers(one) {
            return Err(wrong(object, format!("node {hostname} has no {}", name())));
        }
        if named[..at].contains(one) {
            return Err(wrong(object, format!("{} is given twice", name())));
        }
        if let Some(holder) = used.holder_of(one) {
            return Err(wrong(object, format!("{} of node {hostname} is held by task {holder}", name())));
        }
    }
    for kind in offers.keys() {
        let given = named.iter().filter(|one| one.kind == *kind).count() as i64;
        let wanted = needs.and_then(|needs| needs.generic.get(kind)).copied().unwrap_or(0);
        if given != wanted {
            return Err(wrong(object, format!("it reserves {wanted} {kind} and is given {given}")));
        }
    }
    Ok(())
}

/// The volumes that a task uses must be there, and shared by one more.
fn check_volumes(object: ObjectId, node: &Node, used: &NodeUse, mounts: &[Mount]) -> Result<(), Refused> {
    for Mount { volume, read_only } in mounts {
        let lack = match node.description.volumes.get(volume) {
            Some(there) => there.lack(used.users(volume), *read_only),
            None => Some(VolumeLack::Missing),
        };
        let what = match lack {
            None => continue,
            Some(VolumeLack::Missing) => "is not there",
            Some(VolumeLack::ReadOnly) => "is read-only",
            Some(VolumeLack::ReadersOnly) => "is shared by readers alone",
            Some(VolumeLack::InUse) => "is in use",
            Some(VolumeLack::Written) => "has its one writer",
        };
        let hostname = &node.description.hostname;
        return Err(wrong(object, format!("volume {volume} of node {hostname} {what}")));
    }
    Ok(())
}

/// Host ports must be free on the node, and be given once.
fn check_ports(object: ObjectId, node: NodeId, used: &NodeUse, ports: &[BoundPort]) -> Result<(), Refused> {
    if ports.len() > limits::PORTS {
        return Err(wrong(object, format!("{} ports are more than {}", ports.len(), limits::PORTS)));
    }
    for (at, BoundPort { protocol, port, .. }) in ports.iter().enumerate() {
        let name = || format!("host port {port}/{}", protocol.as_str());
        if *port == 0 {
            return Err(wrong(object, "host port 0 cannot be held"));
        }
        if ports[..at].iter().any(|p| p.protocol == *protocol && p.port == *port) {
            return Err(wrong(object, format!("{} is given twice", name())));
        }
        if let Some(holder) = used.port_holder(*protocol, *port) {
            return Err(wrong(object, format!("{} of node {node} is held by task {holder}", name())));
        }
    }
    Ok(())
}
