//! The scheduler against the plainest one that can be written: for each task in turn, ask every node and take the best.
//! However a pass saves work, it must choose the same nodes.

mod common;

use std::collections::BTreeMap;

use common::*;
use model::{
    Mount, Node, NodeId, Resources, ServiceId, Sharing, Task, TaskId, TaskSpec, TaskState, Users, Volume,
};
use scheduler::Limits;
use store::Tables;

/// A node as the plain scheduler counts it.
struct Count<'t> {
    node: &'t Node,
    held: Resources,
    load: u32,
    of_service: BTreeMap<ServiceId, u32>,
    /// Who uses its one volume.
    users: Users,
}

impl Count<'_> {
    fn of(&self, service: ServiceId) -> u32 {
        self.of_service.get(&service).copied().unwrap_or(0)
    }

    fn takes(&self, service: ServiceId, spec: &TaskSpec) -> bool {
        let most = spec.placement.max_replicas;
        self.node.takes_tasks()
            && self.node.description.resources.fits(&self.held, &spec.reservation())
            && spec.placement.constraints.iter().all(|c| c.holds(self.node))
            && (most == 0 || self.of(service) < most)
            && spec.mounts.iter().all(|mount| {
                let volume = self.node.description.volumes.get(&mount.volume);
                volume.is_some_and(|volume| volume.lack(self.users, mount.read_only).is_none())
            })
    }

    fn take(&mut self, service: ServiceId, spec: &TaskSpec) {
        self.held.add(&spec.reservation());
        self.load += 1;
        *self.of_service.entry(service).or_default() += 1;
        self.users = spec.mounts.iter().fold(self.users, |users, mount| users.with(mount.read_only));
    }
}

/// Where each waiting task goes.
fn plain(tables: &Tables) -> BTreeMap<TaskId, NodeId> {
    let count = |node| {
        let (held, users) = (Resources::default(), Users::default());
        let mut count = Count { node, held, load: 0, of_service: BTreeMap::new(), users };
        for task in tables.tasks_of_node(node.id).filter(|task| task.holds_reservation()) {
            count.take(task.service, &tables.revision(task.revision).expect("it is kept").task);
        }
        count
    };
    let mut nodes: Vec<Count> = tables.nodes().map(|node| count(node)).collect();
    let mut waiting: Vec<&Task> = tables.tasks_waiting().map(|task| &**task).collect();
    let oldest = |of: &dyn Fn(&Task) -> bool| waiting.iter().filter(|t| of(t)).map(|t| t.created).min();
    let turn = |task: &Task| {
        let service = tables.service(task.service).expect("it is there");
        let of_service = oldest(&|other| other.service == task.service);
        let of_revision = oldest(&|other| other.revision == task.revision);
        (
            std::cmp::Reverse(service.priority),
            of_service,
            task.service,
            of_revision,
            task.revision,
            (task.created, task.slot, task.id),
        )
    };
    let mut ordered: Vec<_> = waiting.iter().map(|task| (turn(task), *task)).collect();
    ordered.sort_by_key(|(turn, _)| *turn);
    waiting = ordered.into_iter().map(|(_, task)| task).collect();
    let mut placed = BTreeMap::new();
    for task in waiting {
        let spec = &tables.revision(task.revision).expect("it is kept").task;
        let takers = nodes.iter_mut().filter(|node| node.takes(task.service, spec));
        if let Some(best) = takers.min_by_key(|node| (node.of(task.service), node.load, node.node.id)) {
            best.take(task.service, spec);
            placed.insert(task.id, best.node.id);
        }
    }
    placed
}

fn compare(seed: u64) -> usize {
    let mut state = seed;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let nodes: Vec<Node> = (1..=1 + below(12) as u32)
        .map(|n| {
            let mut node = labelled(node(n), "zone", ["a", "b"][below(2) as usize]);
            if below(6) == 0 {
                node.availability = model::Availability::Pause;
            }
            let volume = Sharing::ALL.get(below(8) as usize).map(|sharing| {
                let (path, read_only) = ("/srv".into(), below(4) == 0);
                Volume { path, read_only, sharing: *sharing }
            });
            described(node, |d| {
                d.resources = reserve((1 + below(8) as i64) * CPU, 8 * GIB);
                d.volumes.extend(volume.map(|volume| ("data".into(), volume)));
            })
        })
        .collect();
    let mut w = World::new(nodes);
    for n in 1..=6 {
        let mut spec = spec(reserve(below(4) as i64 * CPU / 4, 0));
        if below(3) == 0 {
            spec = constrained(spec, &["node.labels.zone==a"]);
        }
        if below(3) == 0 {
            spec = at_most(spec, 1 + below(2) as u32);
        }
        if below(4) == 0 {
            spec.mounts.push(Mount { volume: "data".into(), read_only: below(2) == 0 });
        }
        w.prioritised(n, spec, 50 + below(2) as u8);
    }
    let mut compared = 0;
    for round in 0..4 {
        for _ in 0..8 {
            w.tasks(1 + below(6) as u32, below(6) as u32);
        }
        if round == 1 {
            w.update(1, 2, light());
            w.tasks(1, 3);
        }
        let expected = plain(&w.tables);
        let before: Vec<TaskId> = w.tables.tasks_waiting().map(|task| task.id).collect();
        let decided = w.pass(&Limits::default());
        for id in before {
            let task = w.tables.task(id).expect("it is there");
            assert_eq!(task.node, expected.get(&id).copied(), "seed {seed}, round {round}, {id}");
        }
        assert_eq!(decided.placed, expected.len(), "seed {seed}");
        compared += decided.placed;
        let ended: Vec<TaskId> = w.tables.tasks().filter(|t| t.holds_reservation()).map(|t| t.id).collect();
        for id in ended.into_iter().filter(|_| below(3) == 0) {
            w.report((id.0.as_u128() - 0x9_0000) as u32, TaskState::Complete);
        }
    }
    compared
}

#[test]
fn a_pass_chooses_as_the_plainest_scheduler_would() {
    let compared: usize = (1..=200).map(compare).sum();
    assert!(compared > 5_000, "{compared} placements are too few to mean much");
}
