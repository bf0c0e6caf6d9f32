//! Stacks.

use axum::http::StatusCode;
use control::stacks::{self, Deployment, ServiceChange as Done};
use model::{format_bytes, limits};
use store::Table;

use crate::api::{Answer, Call, answer, written};
use crate::errors::ApiError;
use crate::to;
use crate::types::StackDeploy;

/// Largest body of a deployment: a file as large as it may be, with what JSON adds to its line ends and quotes, and
/// variables.
const BODY_BYTES: usize = 3 * limits::SPEC_BYTES;

pub(crate) async fn list(call: Call) -> Answer {
    let tables = [Table::Jobs, Table::Services, Table::Tasks, Table::Nodes];
    let seen = call.read(|t| Ok(tables.iter().map(|table| t.table_index(*table)).max().unwrap_or(0))).await?;
    let mut jobs: Vec<_> = seen.tables.jobs().collect();
    jobs.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    seen.list(jobs.into_iter().map(|job| to::stack(&seen.tables, job, false)).collect())
}

pub(crate) async fn get(call: Call) -> Answer {
    let name = call.reference();
    let seen = call.read(|t| Ok(to::stack::changed(t, stacks::find(t, name)?))).await?;
    let job = stacks::find(&seen.tables, name)?;
    seen.one(&to::stack(&seen.tables, job, true))
}

pub(crate) async fn tasks(call: Call) -> Answer {
    let name = call.reference();
    let seen = call.read(|t| Ok(to::stack::changed(t, stacks::find(t, name)?))).await?;
    let job = stacks::find(&seen.tables, name)?;
    let services = stacks::services_of(&seen.tables, job.id);
    let tasks = services.into_iter().flat_map(|s| seen.tables.tasks_of_service(s.id));
    seen.tasks(&call.query, tasks)
}

pub(crate) async fn deploy(mut call: Call) -> Answer {
    let Read { deployment, warnings } = read_deployment(&mut call).await?;
    let done = stacks::deploy(call.cluster(), deployment).await?;
    let written =
        done.services.iter().filter(|(_, _, change)| matches!(change, Done::Created | Done::Updated));
    let written: Vec<_> = written.map(|(id, ..)| *id).collect();
    let notes = to::unenforced(&call.cluster().snapshot(), &written);
    answer(StatusCode::OK, done.index, &to::deployed(&done, warnings, notes))
}

/// What a body asks to be deployed.
pub(crate) struct Read {
    pub(crate) deployment: Deployment,
    /// What the file says without effect, in sentences.
    pub(crate) warnings: Vec<String>,
}

/// Reads a body with a stack file.
pub(crate) async fn read_deployment(call: &mut Call) -> Result<Read, ApiError> {
    let asked = call.json::<StackDeploy>(BODY_BYTES).await?;
    if asked.source.len() > limits::SPEC_BYTES {
        let most = format_bytes(limits::SPEC_BYTES as i64);
        let sentence = format!("source: the file is larger than the {most} that a stack file may have");
        let mut refusal = ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, sentence);
        refusal.body.field = Some("source".into());
        return Err(refusal);
    }
    let name = call.reference().into();
    // Reading a large file takes a while, in which others are to be served.
    let (asked, stack) = tokio::task::spawn_blocking(move || {
        let stack = specs::parse_stack(&asked.source, &asked.file_name, &asked.variables);
        (asked, stack)
    })
    .await
    .map_err(|_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the stack file could not be read"))?;
    let stack = stack.map_err(ApiError::problems)?;
    let warnings = stack.warnings.iter().map(ToString::to_string).collect();
    let deployment =
        Deployment { name, source: asked.source.into(), services: stack.services, prune: asked.prune };
    Ok(Read { deployment, warnings })
}

pub(crate) async fn remove(call: Call) -> Answer {
    written(StatusCode::OK, &stacks::remove(call.cluster(), call.reference()).await?)
}
