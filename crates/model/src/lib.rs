//! The one object model of Quelea: what a cluster is made of, in plain values.
//!
//! This crate knows no clock, no chance, no disk and no network. Everything above it speaks in
//! these nouns; foreign dialects are translated at their own doors. It holds the objects
//! ([`Node`], [`Service`], [`Revision`], [`Task`], ...), their ids and units, resources and
//! constraints, the task state machine, the validation of specs, named limits, and the messages
//! between a manager and an agent ([`sync`]).

#![forbid(unsafe_code)]

mod constraint;
mod disruption;
mod forecast;
mod ids;
pub mod limits;
mod node;
mod note;
mod resources;
mod service;
mod spec;
mod state;
mod steering;
pub mod sync;
mod task;
mod units;
mod update;
mod validate;
mod version;
mod volume;
mod words;

pub use constraint::{Constraint, ConstraintError, ConstraintKey, Operator};
pub use disruption::{Amount, Disruption, Leave, LeaveReason};
pub use forecast::{
    Fate, Forecast, Load, Move, NodeForecast, Place, Rebalance, ServiceForecast, ServiceState, StackForecast,
    TaskCounts, TaskForecast, UnplaceableForecast,
};
pub use ids::{ClusterId, Id, IdError, JobId, NamespaceId, NodeId, RevisionId, ServiceId, SessionId, TaskId};
pub use node::{
    Availability, Description, DriverInfo, Node, NodeState, NodeStatus, Platform, Role, same_arch,
};
pub use note::{Decision, FilterKind, Lack, Refusal, Rule, Unplaced, Verdict};
pub use resources::Resources;
pub use service::{Cluster, Job, Meta, Mode, Namespace, Revision, Service, Version};
pub use spec::{
    Condition, DriverKind, Labels, Lifecycle, Limits, LogPolicy, Misfit, Placement, PortMode, PortSpec,
    ProgramSpec, Protocol, ReplacePolicy, RestartPolicy, ServiceSpec, TaskSpec, signal_name, signal_number,
};
pub use state::{Desired, Owner, ProgramState, TaskState};
pub use steering::{Affinity, Preference, Steering, Strategy, Target};
pub use task::{BoundPort, NamedResource, ProgramEvent, ProgramStatus, Slot, Task, TaskStatus};
pub use units::{Index, Span, Time, UnitError, format_bytes, format_cpus, parse_bytes, parse_cpus};
pub use update::{FailureAction, Ratio, UpdateOrder, UpdatePolicy, UpdateState, UpdateStatus};
pub use validate::{
    Invalid, check_cluster, check_labels, check_name, check_resource_name, check_service_spec,
};
pub use volume::{
    Mount, Sharing, Users, Volume, VolumeLack, check_volume_name, check_volume_path, volume_variable,
};
