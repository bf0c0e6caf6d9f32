//! Requests about nodes.

use std::sync::Arc;

use model::{Availability, Labels, Node, NodeId, Span, Time, Version, check_labels, limits};
use store::{Change, ChangeSet, ObjectId, Tables};

pub use crate::draining::{Draining, LeavingService, draining};
use crate::propose::{Step, settle};
use crate::services::{Written, check_version};
use crate::{Cluster, Kind, RequestError, find};

/// What shall change on a node; what is `None` or empty stays.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NodeChange {
    /// Whether it takes tasks.
    pub availability: Option<Availability>,
    /// With a drain: after so long whatever is still there goes, whatever the budgets of its services say. Nothing: never.
    pub deadline: Option<Span>,
    /// All its labels.
    pub labels: Option<Labels>,
    /// Labels to add or change, after that.
    pub add_labels: Labels,
    /// Keys of labels to remove, before that; each must be there.
    pub remove_labels: Vec<Arc<str>>,
}

/// The node that a reference means: its id, `self` for the node of this daemon, its host name (without regard to
/// case), or the beginning of its id.
///
/// # Errors
/// Nothing fits, or more than one does: host names are not unique.
pub fn find<'t>(tables: &'t Tables, reference: &str, me: NodeId) -> Result<&'t Arc<Node>, RequestError> {
    let show = |node: &Arc<Node>| format!("node {} ({})", node.description.hostname, node.id);
    let by_id = reference.parse().ok().and_then(|id| tables.node(NodeId(id)));
    let own = || if reference == "self" { tables.node(me) } else { None };
    if let Some(node) = by_id.or_else(own) {
        return Ok(node);
    }
    let named: Vec<_> = tables
        .nodes()
        .filter(|node| !reference.is_empty() && node.description.hostname.eq_ignore_ascii_case(reference))
        .take(crate::error::MATCHES_SHOWN + 1)
        .collect();
    match named[..] {
        [only] => Ok(only),
        [] => find::one(Kind::Node, reference, |_| None, |range| tables.nodes_in_prefix(range), show),
        _ => Err(find::ambiguous(reference, named.into_iter().map(show))),
    }
}

/// Changes what operators want of a node. With a `version`, only if the node still has it.
///
/// # Errors
/// There is no such node, the labels cannot be accepted, or the node has another version.
pub async fn update(
    cluster: &dyn Cluster,
    reference: &str,
    version: Option<Version>,
    change: NodeChange,
) -> Result<Written, RequestError> {
    let me = cluster.info().node;
    let settled = settle(cluster, |tables| {
        let old = find(tables, reference, me)?;
        check_version(Kind::Node, &old.description.hostname, version, old.meta.modified)?;
        let labels = changed_labels(old, &change)?;
        let availability = change.availability.unwrap_or(old.availability);
        let drain_until = drain_until(old, &change, cluster.now().max(tables.time()))?;
        if labels == old.labels && availability == old.availability && drain_until == old.drain_until {
            return Ok(Step::Nothing(Arc::clone(old)));
        }
        let set_node = Change::SetNode { node: old.id, role: old.role, availability, drain_until, labels };
        let mut set = ChangeSet::of(vec![set_node]);
        set.guard(ObjectId::Node(old.id), old.meta.modified);
        Ok(Step::Write(set, Arc::clone(old)))
    })
    .await?;
    let node = settled.value;
    Ok(Written {
        id: node.id.0,
        name: Arc::clone(&node.description.hostname),
        version: if settled.changed { settled.index } else { node.meta.modified },
        index: settled.index,
        changed: settled.changed,
    })
}

/// Until when a node may keep what it has once it is drained. Asked to drain again, it gets the new deadline, or keeps the one it has.
fn drain_until(node: &Node, change: &NodeChange, now: Time) -> Result<Option<Time>, RequestError> {
    match (change.availability, change.deadline) {
        (None | Some(Availability::Drain), None) => Ok(node.drain_until),
        (Some(Availability::Drain), Some(span)) if span <= Span::ZERO || span.0 > limits::SPAN => {
            Err(RequestError::invalid("deadline", "use a time above 0 and of less than 10 years"))
        }
        (Some(Availability::Drain), Some(span)) => Ok(Some(now + span)),
        (_, None) => Ok(None),
        (_, Some(_)) => {
            Err(RequestError::invalid("deadline", "only a drain has one; give availability: drain"))
        }
    }
}

fn changed_labels(node: &Node, change: &NodeChange) -> Result<Labels, RequestError> {
    let mut labels = change.labels.clone().unwrap_or_else(|| node.labels.clone());
    for key in &change.remove_labels {
        if labels.remove(key).is_none() {
            let problem = format!("{key:?} is not a label of node {}", node.description.hostname);
            return Err(RequestError::invalid("remove_labels", problem));
        }
    }
    labels.extend(change.add_labels.clone());
    check_labels("labels", &labels)?;
    Ok(labels)
}
