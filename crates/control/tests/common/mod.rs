//! What the stories share: a cluster in memory, and short words for what is in it.
#![allow(dead_code, reason = "each test binary uses its part of it")]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use control::testing::MemoryCluster;
use control::{Cluster, services};
use model::{
    DriverKind, Labels, Mode, ProgramSpec, Service, ServiceId, ServiceSpec, TaskSpec, Time, UpdatePolicy,
};

/// The moment at which every story begins.
pub const START: Time = Time(1_800_000_000_000_000_000);

pub fn cluster() -> MemoryCluster {
    MemoryCluster::new(START)
}

/// Runs a request to its end. Requests against a cluster in memory never wait.
pub fn run<T>(request: impl Future<Output = T>) -> T {
    let mut request = pin!(request);
    match request.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a request against a cluster in memory waits"),
    }
}

pub fn spec(name: &str, replicas: u32) -> ServiceSpec {
    ServiceSpec {
        name: name.into(),
        labels: Labels::new(),
        mode: Mode::Replicated { replicas },
        update: UpdatePolicy::default(),
        rollback: UpdatePolicy::default(),
        priority: 50,
        steering: Default::default(),
        disruption: Default::default(),
        task: TaskSpec {
            programs: vec![ProgramSpec::new(DriverKind::Exec, vec!["sleep".into(), "100".into()])],
            ..TaskSpec::default()
        },
    }
}

pub fn global(name: &str) -> ServiceSpec {
    ServiceSpec { mode: Mode::Global, ..spec(name, 0) }
}

pub fn command(mut spec: ServiceSpec, words: &[&str]) -> ServiceSpec {
    spec.task.programs[0].command = words.iter().map(|w| Arc::from(*w)).collect();
    spec
}

pub fn create(cluster: &MemoryCluster, spec: ServiceSpec) -> ServiceId {
    ServiceId(run(services::create(cluster, spec)).expect("accepted").id)
}

pub fn service(cluster: &MemoryCluster, id: ServiceId) -> Arc<Service> {
    Arc::clone(cluster.snapshot().service(id).expect("there"))
}
