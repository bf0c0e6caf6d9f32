//! The cluster itself.

use super::service::strategy;
use super::time;
use crate::types::{Cluster, Duration};

/// The cluster and its settings.
pub(crate) fn cluster(cluster: &model::Cluster) -> Cluster {
    Cluster {
        id: cluster.id.to_string(),
        name: cluster.name.to_string(),
        version: cluster.meta.modified,
        created_at: time(cluster.meta.created_at),
        updated_at: time(cluster.meta.modified_at),
        task_history_limit: cluster.history,
        task_history_failed: cluster.history_failed,
        task_history_age: Duration::of(cluster.history_age),
        dispatcher_heartbeat: Duration::of(cluster.heartbeat),
        orphan_after: Duration::of(cluster.orphan_after),
        strategy: strategy(cluster.strategy),
        rebalance: cluster.rebalance,
    }
}
