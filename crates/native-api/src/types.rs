//! The JSON of the native API, as Rust types: what is sent and what is answered. The command line uses the same types.
//!
//! Nothing here knows the object model; `from` and `to` are the only doors between the two. Requests refuse fields
//! that they don't know, by name. Times are RFC 3339 texts in UTC, durations are texts as Go writes them (`1m30s`), sizes are
//! whole bytes, ids have 25 characters.

mod answer;
mod cluster;
mod event;
mod node;
mod plan;
mod quantity;
mod service;
mod spec;
mod stack;
mod task;
mod why;

pub use answer::{ErrorBody, Health, Info, List, Problem, Written};
pub use cluster::{Cluster, ClusterUpdate};
pub use event::{Event, LogItem};
pub use node::{
    Draining, DriverInfo, LeavingService, Node, NodeUpdate, Platform, ResourceAmounts, Volume, VolumeUser,
};
pub use plan::{
    AddNodes, Evenness, FieldChange, Load, Move, NodePlan, Plan, PlanAction, Rebalance, RebalanceRequest,
    Rebalanced, ServicePlan, Simulation, StackPlan, TaskCounts, TaskPlan, UnplaceablePlan,
};
pub use quantity::{Amount, Cpus, Duration, Quantity, Size};
pub use service::{
    JobState, JobStatus, RevisionInfo, Scale, Service, ServiceStatus, ServiceUpdate, UpdateState,
    UpdateStatus,
};
pub use spec::{
    Affinity, Availability, Condition, Disruption, Driver, FailureAction, Limits, LogPolicy, Mode, Mount,
    Placement, Port, PortMode, Preference, Program, Protocol, Reservations, Resources, RestartInPlace,
    RestartPolicy, ServiceSpec, Strategy, Target, UpdateOrder, UpdatePolicy,
};
pub use stack::{Change, ServiceChange, Stack, StackDeploy, StackDeployed, StackService};
pub use task::{BoundPort, ProgramEvent, ProgramStatus, Task};
pub use why::{Decision, Refusal, Subject, Unplaced, Verdict, Waiting, Why};
