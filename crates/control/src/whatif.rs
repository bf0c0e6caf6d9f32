//! Questions of the kind "what would happen if": requests that are worked out on a copy of the cluster and change nothing,
//! and the rebalancing that is made of such an answer.

use std::sync::Arc;

use model::{
    Availability, Forecast, Id, Meta, Mode, Move, Node, NodeId, NodeState, NodeStatus, Rebalance, Role,
    ServiceSpec, Version, limits,
};
use store::{Change, ChangeSet, Tables};

use crate::propose::Step;
use crate::stacks::{Deployment, ServiceChange};
use crate::{Cluster, ProposeError, RequestError, nodes, services, stacks};

/// What is asked of a copy of the cluster: a change set from its tables, with ids for what it makes; `None` when nothing has
/// to be written.
pub type Wish = Box<
    dyn FnMut(&Tables, &mut dyn FnMut() -> Id) -> Result<Option<ChangeSet>, RequestError> + Send + 'static,
>;

/// What might be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Make a service.
    Create(Box<ServiceSpec>),
    /// Make a service what a spec says.
    Update {
        /// The service.
        reference: String,
        /// Only if it still has this version.
        version: Option<Version>,
        /// What it shall be.
        spec: Box<ServiceSpec>,
    },
    /// Give a replicated service so many tasks.
    Scale {
        /// The service.
        reference: String,
        /// Only if it still has this version.
        version: Option<Version>,
        /// How many.
        replicas: u32,
    },
    /// Put the revision before back.
    Rollback {
        /// The service.
        reference: String,
        /// Only if it still has this version.
        version: Option<Version>,
    },
    /// Promote the canaries of a service.
    Promote {
        /// The service.
        reference: String,
        /// Only if it still has this version.
        version: Option<Version>,
    },
    /// Abort the canaries of a service.
    Abort {
        /// The service.
        reference: String,
        /// Only if it still has this version.
        version: Option<Version>,
    },
    /// Remove a service.
    Remove {
        /// The service.
        reference: String,
        /// Only if it still has this version.
        version: Option<Version>,
    },
    /// Make a stack what its file says.
    Deploy(Deployment),
    /// Remove a stack with all its services.
    RemoveStack(String),
    /// Something happens to machines.
    Machines(Machines),
}

/// What happens to machines, all at once.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Machines {
    /// Nodes that fail.
    pub down: Vec<String>,
    /// Nodes that are drained.
    pub drain: Vec<String>,
    /// Nodes that leave the cluster.
    pub remove: Vec<String>,
    /// How many nodes are added, and like which one.
    pub add: Option<(u32, String)>,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What would happen.
    pub forecast: Forecast,
    /// Services of a stack that its file has no more, and that would stay because nothing is pruned; by name.
    pub kept: Vec<Arc<str>>,
}

/// Answers a question. Nothing is changed.
///
/// # Errors
/// As the request itself would be refused.
pub async fn ask(cluster: &dyn Cluster, question: Question) -> Result<Answer, RequestError> {
    let me = cluster.info().node;
    let tables = cluster.snapshot();
    let kept = kept(&tables, &question)?;
    // Most refusals, and that nothing would change, need no copy.
    if question.change(&tables, me, &mut || cluster.new_id())?.is_none() {
        return Ok(Answer { forecast: Forecast::nothing(tables.index()), kept });
    }
    // A version is of the state that was read. The copy comes to rest first, and has versions of its own then.
    let question = question.of_any_version();
    let wish: Wish =
        Box::new(move |tables: &Tables, new_id: &mut dyn FnMut() -> Id| question.change(tables, me, new_id));
    Ok(Answer { forecast: cluster.forecast(wish).await?, kept })
}

fn kept(tables: &Tables, question: &Question) -> Result<Vec<Arc<str>>, RequestError> {
    let Question::Deploy(deployment) = question else { return Ok(Vec::new()) };
    let mut next = 0;
    let mut new_id = || {
        next += 1;
        Id::from_u128(next)
    };
    let (Step::Nothing(outcome) | Step::Write(_, outcome)) =
        stacks::deploy_step(tables, deployment, &mut new_id)?;
    let kept = outcome.3.into_iter().filter(|(_, _, change)| *change == ServiceChange::Kept);
    Ok(kept.map(|(_, name, _)| name).collect())
}

impl Question {
    /// A copy of the cluster is made in memory, so it is not made for any number of tasks.
    fn check_size(&self) -> Result<(), RequestError> {
        let of = |mode: Mode| match mode {
            Mode::Replicated { replicas } => replicas,
            Mode::Batch { .. } => mode.at_once(),
            Mode::Global | Mode::GlobalBatch => 0,
        };
        let most = match self {
            Self::Create(spec) => of(spec.mode),
            Self::Update { spec, .. } => of(spec.mode),
            Self::Scale { replicas, .. } => *replicas,
            Self::Deploy(deployment) => deployment.services.iter().map(|s| of(s.mode)).max().unwrap_or(0),
            Self::Rollback { .. } | Self::Promote { .. } | Self::Abort { .. } => 0,
            Self::Remove { .. } | Self::RemoveStack(_) | Self::Machines(_) => 0,
        };
        if most > limits::PLANNED_REPLICAS {
            let problem =
                format!("{most} is more than a plan looks at; {} at most", limits::PLANNED_REPLICAS);
            return Err(RequestError::invalid("replicas", problem));
        }
        Ok(())
    }

    /// The same, whatever version the service has.
    fn of_any_version(mut self) -> Self {
        if let Self::Update { version, .. }
        | Self::Scale { version, .. }
        | Self::Rollback { version, .. }
        | Self::Promote { version, .. }
        | Self::Abort { version, .. }
        | Self::Remove { version, .. } = &mut self
        {
            *version = None;
        }
        self
    }

    /// What it would write.
    fn change(
        &self,
        tables: &Tables,
        me: NodeId,
        new_id: &mut dyn FnMut() -> Id,
    ) -> Result<Option<ChangeSet>, RequestError> {
        fn written<T>(step: Step<T>) -> Option<ChangeSet> {
            match step {
                Step::Nothing(_) => None,
                Step::Write(set, _) => Some(set),
            }
        }
        self.check_size()?;
        Ok(match self {
            Self::Create(spec) => written(services::create_step(tables, spec, new_id)?),
            Self::Update { reference, version, spec } => {
                written(services::update_step(tables, reference, *version, spec, new_id)?)
            }
            Self::Scale { reference, version, replicas } => {
                written(services::scale_step(tables, reference, *version, *replicas)?)
            }
            Self::Rollback { reference, version } => {
                written(services::rollback_step(tables, reference, *version)?)
            }
            Self::Promote { reference, version } => {
                // On a copy that has come to rest every canary has been watched.
                written(services::promote_step(tables, reference, *version, model::Time(i64::MAX))?)
            }
            Self::Abort { reference, version } => written(services::abort_step(tables, reference, *version)?),
            Self::Remove { reference, version } => {
                written(services::remove_step(tables, reference, *version)?)
            }
            Self::Deploy(deployment) => written(stacks::deploy_step(tables, deployment, new_id)?),
            Self::RemoveStack(reference) => written(stacks::remove_step(tables, reference)?),
            Self::Machines(machines) => machines.change(tables, me, new_id)?,
        })
    }
}

impl Machines {
    fn change(
        &self,
        tables: &Tables,
        me: NodeId,
        new_id: &mut dyn FnMut() -> Id,
    ) -> Result<Option<ChangeSet>, RequestError> {
        let added = self.add.as_ref().map_or(0, |(count, _)| *count as usize);
        let named = self.down.len() + self.drain.len() + self.remove.len();
        if added > limits::SIMULATED_NODES || named > limits::SIMULATED_NODES {
            let problem = format!("a simulation has at most {} of them", limits::SIMULATED_NODES);
            return Err(RequestError::invalid("nodes", problem));
        }
        let mut set = ChangeSet::default();
        for name in &self.down {
            let node = nodes::find(tables, name, me)?;
            let status =
                NodeStatus { state: NodeState::Down, message: "simulated".into(), ..node.status.clone() };
            if node.status.state != NodeState::Down {
                set.changes.push(Change::SetNodeStatus { node: node.id, status });
            }
        }
        for name in &self.drain {
            let node = nodes::find(tables, name, me)?;
            if node.availability != Availability::Drain {
                set.changes.push(Change::SetNode {
                    node: node.id,
                    role: node.role,
                    availability: Availability::Drain,
                    drain_until: None,
                    labels: node.labels.clone(),
                });
            }
        }
        if let Some((count, like)) = &self.add {
            let like = nodes::find(tables, like, me)?;
            set.changes.extend((1..=*count).map(|n| Change::CreateNode(twin(like, n, NodeId(new_id())))));
        }
        for name in &self.remove {
            set.changes.push(Change::DeleteNode(nodes::find(tables, name, me)?.id));
        }
        Ok(Some(set).filter(|set| !set.changes.is_empty()))
    }
}

/// The `n`th new node like another: the same machine with nothing on it, ready, and with a name of its own.
fn twin(like: &Node, n: u32, id: NodeId) -> Node {
    let mut description = model::Description::clone(&like.description);
    description.hostname = format!("{}+{n}", description.hostname).into();
    Node {
        id,
        meta: Meta::default(),
        role: Role::Worker,
        availability: Availability::Active,
        drain_until: None,
        labels: like.labels.clone(),
        description: Arc::new(description),
        status: NodeStatus { state: NodeState::Ready, ..NodeStatus::default() },
    }
}

/// What a round of a rebalancing did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebalanced {
    /// The whole plan on the state before.
    pub plan: Rebalance,
    /// The moves that were begun.
    pub made: Vec<Move>,
    /// Where they took effect; the state that was read when none was made.
    pub index: u64,
}

/// Works out the moves that even out the cluster and begins them: each is made start-first, within the budget of its service.
///
/// # Errors
/// The cluster cannot do it now, or keeps changing.
pub async fn rebalance(cluster: &dyn Cluster, threshold: u32) -> Result<Rebalanced, RequestError> {
    for _ in 0..crate::propose::ATTEMPTS {
        let plan = cluster.rebalance(threshold).await?;
        let tables = cluster.snapshot();
        let (set, made) = ChangeSet::moving(&tables, &plan, limits::REBALANCE_MOVES);
        if made.is_empty() {
            return Ok(Rebalanced { plan, made, index: tables.index() });
        }
        match cluster.propose(set).await {
            Ok(index) => return Ok(Rebalanced { plan, made, index }),
            // Something that a move depends on has changed since it was planned: it is planned again.
            Err(ProposeError::Refused(_)) => {}
            Err(ProposeError::Unavailable(why)) => return Err(RequestError::Unavailable(why)),
            Err(ProposeError::Unknown(why)) => return Err(RequestError::OutcomeUnknown(why)),
        }
    }
    let problem = "others keep changing what would be moved; nothing was changed, try again".into();
    Err(RequestError::Conflict { field: None, problem })
}
