//! Stacks.

use control::service_status;
use control::stacks::{self, Deployed, ServiceChange as Done};
use model::{Index, Job};
use store::{Table, Tables};

use super::time;
use crate::to::service;
use crate::types::{Change, ServiceChange, Stack, StackDeployed, StackService};

/// A stack and what it holds. With its source when one stack is asked for.
pub(crate) fn stack(tables: &Tables, job: &Job, with_source: bool) -> Stack {
    let services: Vec<StackService> = stacks::services_of(tables, job.id)
        .into_iter()
        .map(|service| {
            let status = service_status(tables, service);
            StackService {
                id: service.id.to_string(),
                name: service.name.to_string(),
                mode: service.mode.as_str().into(),
                wanted: status.wanted.into(),
                running: status.running.into(),
                converged: status.converged,
            }
        })
        .collect();
    Stack {
        id: job.id.to_string(),
        name: job.name.to_string(),
        version: job.meta.modified,
        changed: changed(tables, job),
        number: job.number,
        created_at: time(job.meta.created_at),
        updated_at: time(job.meta.modified_at),
        wanted: services.iter().map(|s| s.wanted).sum(),
        running: services.iter().map(|s| s.running).sum(),
        services,
        source: with_source.then(|| job.source.to_string()),
    }
}

/// The index that last changed what is shown of a stack. A service that left it is not among its services any more, so
/// that every change in the table of services counts.
pub(crate) fn changed(tables: &Tables, job: &Job) -> Index {
    let services = tables.services_of_job(job.id).map(|s| service::changed(tables, s));
    let own = job.meta.modified.max(tables.table_index(Table::Services));
    services.fold(own, Index::max)
}

/// What a deployment did.
pub(crate) fn deployed(done: &Deployed, warnings: Vec<String>, notes: Vec<String>) -> StackDeployed {
    let services = done.services.iter().map(|(id, name, change)| ServiceChange {
        id: id.to_string(),
        name: name.to_string(),
        change: match change {
            Done::Created => Change::Created,
            Done::Updated => Change::Updated,
            Done::Adjusted => Change::Adjusted,
            Done::Unchanged => Change::Unchanged,
            Done::Removed => Change::Removed,
            Done::Kept => Change::Kept,
        },
    });
    StackDeployed {
        id: done.id.to_string(),
        name: done.name.to_string(),
        number: done.number,
        index: done.index,
        changed: done.changed,
        services: services.collect(),
        warnings,
        notes,
    }
}
