//! The settings of the whole cluster.
//!
//! A further setting is a field of [`model::Cluster`] (with its limits in `check_cluster`, its number in the store's codec
//! and its word in the store's facts about events), a field here, one of the API's `Cluster` and `ClusterUpdate`, and a flag.

use std::sync::Arc;

use model::{Service, Span, Strategy, Version, check_cluster};
use store::{Change, ChangeSet, ObjectId, Tables};

use crate::propose::{Step, settle};
use crate::services::{Written, check_version};
use crate::{Cluster, RequestError};

/// Which settings shall change; what is `None` stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SettingsChange {
    /// Ended tasks kept for each slot.
    pub history: Option<u32>,
    /// So many of the newest that failed or were rejected, besides those.
    pub history_failed: Option<u32>,
    /// How long an ended task is kept at most; zero means for any time.
    pub history_age: Option<Span>,
    /// How often an agent must call.
    pub heartbeat: Option<Span>,
    /// After how long away a node's tasks are given up.
    pub orphan_after: Option<Span>,
    /// Which of equally good nodes a service's tasks get that says nothing about it itself.
    pub strategy: Option<Strategy>,
    /// From how many tasks more on one node than on another the cluster evens itself out; `Some(0)`: never by itself.
    pub rebalance: Option<u32>,
}

impl SettingsChange {
    /// The cluster as it is after the change.
    fn applied(&self, old: &model::Cluster) -> model::Cluster {
        model::Cluster {
            history: self.history.unwrap_or(old.history),
            history_failed: self.history_failed.unwrap_or(old.history_failed),
            history_age: self.history_age.unwrap_or(old.history_age),
            heartbeat: self.heartbeat.unwrap_or(old.heartbeat),
            orphan_after: self.orphan_after.unwrap_or(old.orphan_after),
            strategy: self.strategy.unwrap_or(old.strategy),
            rebalance: self.rebalance.map_or(old.rebalance, |t| (t > 0).then_some(t)),
            ..old.clone()
        }
    }
}

/// The cluster, with its settings.
///
/// # Errors
/// There is none yet: the daemon is still starting.
pub fn find(tables: &Tables) -> Result<&Arc<model::Cluster>, RequestError> {
    tables.cluster().ok_or_else(|| RequestError::Unavailable("the cluster is not set up yet".into()))
}

/// Which of equally good nodes the tasks of a service get: what it says itself, else what the cluster says.
pub fn strategy_of(tables: &Tables, service: &Service) -> Strategy {
    let default = || tables.cluster().map_or(Strategy::Spread, |cluster| cluster.strategy);
    service.steering.strategy.unwrap_or_else(default)
}

/// Changes settings of the cluster. With a `version`, only if it still has it.
///
/// # Errors
/// A setting cannot be accepted, or the cluster has another version.
pub async fn update(
    cluster: &dyn Cluster,
    version: Option<Version>,
    change: SettingsChange,
) -> Result<Written, RequestError> {
    let settled = settle(cluster, |tables| {
        let old = find(tables)?;
        check_version("cluster", &old.name, version, old.meta.modified)?;
        let new = change.applied(old);
        if new == **old {
            return Ok(Step::Nothing(Arc::clone(old)));
        }
        check_cluster(&new)?;
        let mut set = ChangeSet::of(vec![Change::PutCluster(new)]);
        set.guard(ObjectId::Cluster, old.meta.modified);
        Ok(Step::Write(set, Arc::clone(old)))
    })
    .await?;
    let old = settled.value;
    Ok(Written {
        id: old.id.0,
        name: Arc::clone(&old.name),
        version: if settled.changed { settled.index } else { old.meta.modified },
        index: settled.index,
        changed: settled.changed,
    })
}
