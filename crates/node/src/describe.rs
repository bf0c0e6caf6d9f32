//! What this machine is: for the description that its agent registers with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drivers::Driver;
use model::{Description, DriverInfo, Labels, Platform, Resources, Volume};

/// Describes this machine, which offers these counted and these named resources and these volumes.
pub fn describe(
    drivers: &[Arc<dyn Driver>],
    generic: &BTreeMap<Arc<str>, i64>,
    named: &BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    volumes: &BTreeMap<Arc<str>, Volume>,
) -> Description {
    let mut generic = generic.clone();
    // Named ones are reserved by their number, like all others.
    generic.extend(named.iter().map(|(kind, values)| (Arc::clone(kind), values.len() as i64)));
    Description {
        hostname: hostname().into(),
        platform: Platform { os: std::env::consts::OS.into(), arch: architecture().into() },
        resources: Resources { nano_cpus: nano_cpus(), memory: memory(), generic },
        named: named.clone(),
        volumes: volumes.clone(),
        drivers: drivers.iter().map(|d| driver_info(&**d)).collect(),
        engine_labels: Labels::new(),
        version: env!("CARGO_PKG_VERSION").into(),
    }
}

/// The machine's host name.
pub fn hostname() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".into() } else { name }
}

fn driver_info(driver: &dyn Driver) -> DriverInfo {
    let info = driver.inspect();
    DriverInfo {
        name: driver.name().into(),
        healthy: info.healthy,
        notes: info.notes.into_iter().map(Into::into).collect(),
    }
}

/// The architecture in Go's word, as constraints compare it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The processors that this process may use.
fn nano_cpus() -> i64 {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    i64::try_from(count).unwrap_or(1).saturating_mul(1_000_000_000)
}

/// The machine's memory in bytes.
fn memory() -> i64 {
    let info = rustix::system::sysinfo();
    let bytes = u128::from(info.totalram) * u128::from(info.mem_unit.max(1));
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
