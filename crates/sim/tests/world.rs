//! The control plane and the agents together, in a simulated cluster with crashes.

use std::sync::Arc;

use model::{
    Condition, DriverKind, Labels, Mode, NamespaceId, NodeId, ProgramSpec, Revision, RevisionId, Service,
    ServiceId, Span, TaskSpec, TaskState, UpdatePolicy,
};
use sim::World;
use store::{Change, ChangeSet};

fn service(id: u128, name: &str, mode: Mode) -> ChangeSet {
    let mut task = TaskSpec {
        programs: vec![ProgramSpec::new(DriverKind::Mock, vec!["run".into()])],
        ..TaskSpec::default()
    };
    task.replace.condition = Condition::Any;
    task.replace.delay = Span::from_secs(1);
    let revision = Revision {
        id: RevisionId::from_u128(id),
        service: ServiceId::from_u128(id),
        number: 1,
        created_at: model::Time::ZERO,
        created: 0,
        task: Arc::new(task),
    };
    let service = Service {
        id: ServiceId::from_u128(id),
        meta: model::Meta::default(),
        namespace: NamespaceId::DEFAULT,
        job: None,
        name: name.into(),
        labels: Labels::new(),
        mode,
        update: UpdatePolicy::default(),
        rollback: UpdatePolicy::default(),
        revision: revision.id,
        previous: None,
        update_status: None,
        priority: 50,
        steering: Default::default(),
    };
    ChangeSet::of(vec![Change::CreateRevision(revision), Change::CreateService(service)])
}

fn scaled(world: &World, id: u128, replicas: u32) -> ChangeSet {
    let mut service = Service::clone(world.tables().service(ServiceId::from_u128(id)).expect("it is there"));
    service.mode = Mode::Replicated { replicas };
    ChangeSet::of(vec![Change::UpdateService(service)])
}

#[track_caller]
fn converged(world: &World, seed: u64) {
    let broken = world.check_converged();
    assert!(broken.is_empty(), "seed {seed}: {broken:#?}");
}

/// A life of a small cluster, with everything that goes wrong drawn from the seed.
fn life(seed: u64, steps: u32) -> World {
    let mut world = World::new(seed, 3);
    world.run_for(Span::from_secs(1));
    world.request(service(100, "web", Mode::Replicated { replicas: 3 }));
    world.request(service(101, "db", Mode::Replicated { replicas: 2 }));
    world.request(service(102, "probe", Mode::Global));
    world.run_for(Span::from_millis(500));
    for _ in 0..steps {
        match world.random().below(6) {
            0 => world.crash_manager(Span::from_millis(200)),
            1 | 2 => {
                let node = NodeId::from_u128(u128::from(world.random().below(3)) + 1);
                world.crash_agent(node);
            }
            3 => {
                let replicas = world.random().below(8) as u32;
                let set = scaled(&world, 100, replicas);
                world.request(set);
            }
            _ => {
                let running: Vec<_> = world
                    .tables()
                    .tasks()
                    .filter(|t| t.status.state == TaskState::Running)
                    .map(|t| t.id)
                    .collect();
                let nth = world.random().below(running.len() as u64) as usize;
                if let Some(task) = running.get(nth) {
                    world.end_program(*task, 1);
                }
            }
        }
        let pause = world.random().below(700) as i64;
        world.run_for(Span::from_millis(pause));
    }
    world
}

#[test]
fn services_come_to_run_and_go_without_a_trace() {
    let mut world = World::new(1, 3);
    world.run_for(Span::from_secs(1));
    world.request(service(100, "web", Mode::Replicated { replicas: 7 }));
    world.request(service(101, "probe", Mode::Global));
    world.run_for(Span::from_secs(2));
    converged(&world, 1);
    assert_eq!(world.tables().tasks().filter(|t| t.status.state == TaskState::Running).count(), 10);
    for id in [100, 101] {
        world.request(ChangeSet::of(vec![Change::DeleteService(ServiceId::from_u128(id))]));
    }
    world.run_for(Span::from_secs(5));
    assert_eq!(world.tables().tasks().count(), 0);
    assert!(world.machines_are_empty());
}

#[test]
fn the_same_script_gives_the_same_decisions() {
    for seed in [1, 2, 3] {
        let (first, second) = (life(seed, 40), life(seed, 40));
        assert_eq!(first.trace().len(), second.trace().len(), "seed {seed}");
        assert!(first.trace() == second.trace(), "seed {seed}: the runs differ");
    }
    assert_ne!(life(1, 40).trace(), life(2, 40).trace(), "seeds matter");
}

#[test]
fn whatever_crashes_it_converges() {
    for seed in 0..300 {
        let mut world = life(seed, 30);
        world.run_for(Span::from_secs(60));
        converged(&world, seed);
    }
}

#[test]
fn tasks_of_a_lost_machine_run_elsewhere() {
    let mut world = World::new(5, 3);
    world.run_for(Span::from_secs(1));
    world.request(service(100, "web", Mode::Replicated { replicas: 6 }));
    world.run_for(Span::from_secs(2));
    converged(&world, 5);
    world.lose(NodeId::from_u128(2));
    world.run_for(Span::from_secs(60));
    converged(&world, 5);
    let on_lost = world.tables().tasks().filter(|t| t.fills_slot() && t.node == Some(NodeId::from_u128(2)));
    assert_eq!(on_lost.count(), 0);
}
