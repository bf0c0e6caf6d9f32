//! What each route does: one file a resource.

pub(crate) mod cluster;
pub(crate) mod events;
pub(crate) mod info;
pub(crate) mod logs;
pub(crate) mod nodes;
pub(crate) mod plan;
pub(crate) mod rebalance;
pub(crate) mod services;
pub(crate) mod stacks;
pub(crate) mod tasks;
pub(crate) mod why;
