//! Tasks.

use control::tasks::{self, TaskFilter};
use control::{nodes, services};
use model::{Desired, Index, NodeId, ServiceId, TaskState};
use store::{Table, Tables};

use crate::api::{Answer, Call};
use crate::errors::ApiError;
use crate::query::Query;
use crate::to;

/// What may be wanted of a task, as words.
pub(crate) const DESIRED: &[&str] = &["ready", "running", "complete", "shutdown", "remove"];
/// What a task may have reached, as words.
pub(crate) const STATES: &[&str] = &[
    "new",
    "pending",
    "assigned",
    "accepted",
    "preparing",
    "ready",
    "starting",
    "running",
    "complete",
    "shutdown",
    "failed",
    "rejected",
    "remove",
    "orphaned",
];

pub(crate) async fn list(call: Call) -> Answer {
    let me = call.me();
    let filter_of = |t: &Tables| filter(t, &call.query, me);
    let seen = call.read(|t| Ok(changed(t, &filter_of(t)?))).await?;
    let found = tasks::list(&seen.tables, &filter_of(&seen.tables)?);
    seen.tasks(&call.query, found.iter())
}

/// The index that last changed what a filter lets through. Of a service that is gone with all its tasks nothing is
/// known any more, so that every change of a task counts.
fn changed(tables: &Tables, filter: &TaskFilter) -> Index {
    match filter.service.map(|id| tables.service_index(id)) {
        None | Some(0) => tables.table_index(Table::Tasks),
        Some(index) => index,
    }
}

fn filter(tables: &Tables, query: &Query, me: NodeId) -> Result<TaskFilter, ApiError> {
    let service = |text: &str| match services::find(tables, text) {
        Ok(service) => Ok(service.id),
        // A whole id may be that of a service that is gone while its tasks still end.
        Err(refusal) => text.parse::<ServiceId>().map_err(|_| ApiError::from(refusal)),
    };
    let node = |text: &str| nodes::find(tables, text, me).map(|n| n.id).map_err(ApiError::from);
    let desired = |text: &str| Desired::ALL.into_iter().find(|d| d.as_state().as_str() == text);
    Ok(TaskFilter {
        service: query.get("service").map(service).transpose()?,
        node: query.get("node").map(node).transpose()?,
        desired: words(query, "desired", DESIRED, desired)?,
        state: words(query, "state", STATES, TaskState::from_word)?,
    })
}

fn words<T>(
    query: &Query,
    name: &'static str,
    known: &[&str],
    read: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, ApiError> {
    let refused = |text: &str| ApiError::invalid(name, format!("{text:?} is none of {}", known.join(", ")));
    query.all(name).map(|text| read(text).ok_or_else(|| refused(text))).collect()
}

pub(crate) async fn get(call: Call) -> Answer {
    let (name, me) = (call.reference(), call.me());
    let seen = call
        .read(|t| {
            let task = tasks::find(t, name, me)?;
            // Whether it has the current revision is the service's to say.
            let service =
                t.service(task.service).map_or_else(|| t.table_index(Table::Services), |s| s.meta.modified);
            Ok(task.modified.max(service))
        })
        .await?;
    let task = tasks::find(&seen.tables, name, me)?;
    seen.one(&to::task(&seen.tables, task))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_known() {
        assert_eq!(STATES, TaskState::ALL.map(TaskState::as_str));
        assert_eq!(DESIRED, Desired::ALL.map(|d| d.as_state().as_str()));
    }
}
