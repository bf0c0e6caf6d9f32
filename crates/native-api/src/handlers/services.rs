//! Services.

use axum::http::StatusCode;
use control::services;
use model::{ServiceId, limits};
use store::Table;

use crate::api::{Answer, Call, written, written_with};
use crate::from;
use crate::to;
use crate::types::{Scale, ServiceSpec, ServiceUpdate};

pub(crate) async fn list(call: Call) -> Answer {
    // A service shows how its tasks are, a global one how many nodes comply, and one without a strategy the cluster's.
    let tables = [Table::Services, Table::Tasks, Table::Nodes, Table::Cluster];
    let seen = call.read(|t| Ok(tables.iter().map(|table| t.table_index(*table)).max().unwrap_or(0))).await?;
    let mut services: Vec<_> = seen.tables.services().collect();
    services.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    seen.list(services.into_iter().map(|s| to::service(&seen.tables, s)).collect())
}

pub(crate) async fn create(mut call: Call) -> Answer {
    let spec = from::service_spec(call.json::<ServiceSpec>(limits::SPEC_BYTES).await?)?;
    let done = services::create(call.cluster(), spec).await?;
    written_with(StatusCode::CREATED, &done, notes(&call, &done))
}

/// What of a service that was just written is not done as asked.
fn notes(call: &Call, done: &services::Written) -> Vec<String> {
    if !done.changed {
        return Vec::new();
    }
    to::unenforced(&call.cluster().snapshot(), &[ServiceId(done.id)])
}

pub(crate) async fn get(call: Call) -> Answer {
    let name = call.reference();
    let seen = call.read(|t| Ok(to::service::changed(t, services::find(t, name)?))).await?;
    let service = services::find(&seen.tables, name)?;
    seen.one(&to::service(&seen.tables, service))
}

pub(crate) async fn update(mut call: Call) -> Answer {
    // A field of the spec has one name, whether it is made or changed.
    let update = call.json::<ServiceUpdate>(limits::SPEC_BYTES).await.map_err(|e| e.within("spec."))?;
    let spec = from::service_spec(update.spec)?;
    let done = services::update(call.cluster(), call.reference(), update.version, spec).await?;
    written_with(StatusCode::OK, &done, notes(&call, &done))
}

pub(crate) async fn remove(call: Call) -> Answer {
    let version = call.query.number("version")?;
    written(StatusCode::OK, &services::remove(call.cluster(), call.reference(), version).await?)
}

pub(crate) async fn rollback(call: Call) -> Answer {
    let version = call.query.number("version")?;
    written(StatusCode::OK, &services::rollback(call.cluster(), call.reference(), version).await?)
}

pub(crate) async fn promote(call: Call) -> Answer {
    let version = call.query.number("version")?;
    written(StatusCode::OK, &services::promote(call.cluster(), call.reference(), version).await?)
}

pub(crate) async fn abort(call: Call) -> Answer {
    let version = call.query.number("version")?;
    written(StatusCode::OK, &services::abort(call.cluster(), call.reference(), version).await?)
}

pub(crate) async fn scale(mut call: Call) -> Answer {
    let scale = call.json::<Scale>(limits::SPEC_BYTES).await?;
    let done = services::scale(call.cluster(), call.reference(), scale.version, scale.replicas).await?;
    written(StatusCode::OK, &done)
}

pub(crate) async fn tasks(call: Call) -> Answer {
    let name = call.reference();
    let seen = call.read(|t| Ok(t.service_index(services::find(t, name)?.id))).await?;
    let service = services::find(&seen.tables, name)?;
    seen.tasks(&call.query, seen.tables.tasks_of_service(service.id))
}
