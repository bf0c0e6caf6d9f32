//! What would happen if: each request that changes something, answered with what it would do. Nothing is written.

use axum::http::StatusCode;
use control::whatif::{Machines, Question, ask};
use model::limits;

use super::stacks::{Read, read_deployment};
use crate::api::{Answer, Call, answer};
use crate::from;
use crate::to;
use crate::types::{Scale, ServiceSpec, ServiceUpdate, Simulation};

async fn answered(call: &Call, question: Question, warnings: Vec<String>) -> Answer {
    let found = ask(call.cluster(), question).await?;
    answer(StatusCode::OK, found.forecast.index, &to::plan(&found, warnings))
}

pub(crate) async fn create(mut call: Call) -> Answer {
    let spec = from::service_spec(call.json::<ServiceSpec>(limits::SPEC_BYTES).await?)?;
    answered(&call, Question::Create(Box::new(spec)), Vec::new()).await
}

pub(crate) async fn update(mut call: Call) -> Answer {
    let update = call.json::<ServiceUpdate>(limits::SPEC_BYTES).await.map_err(|e| e.within("spec."))?;
    let spec = Box::new(from::service_spec(update.spec)?);
    let reference = call.reference().to_owned();
    answered(&call, Question::Update { reference, version: update.version, spec }, Vec::new()).await
}

pub(crate) async fn scale(mut call: Call) -> Answer {
    let Scale { replicas, version } = call.json::<Scale>(limits::SPEC_BYTES).await?;
    let reference = call.reference().to_owned();
    answered(&call, Question::Scale { reference, version, replicas }, Vec::new()).await
}

pub(crate) async fn remove(call: Call) -> Answer {
    let version = call.query.number("version")?;
    let reference = call.reference().to_owned();
    answered(&call, Question::Remove { reference, version }, Vec::new()).await
}

pub(crate) async fn rollback(call: Call) -> Answer {
    let version = call.query.number("version")?;
    let reference = call.reference().to_owned();
    answered(&call, Question::Rollback { reference, version }, Vec::new()).await
}

pub(crate) async fn promote(call: Call) -> Answer {
    let version = call.query.number("version")?;
    let reference = call.reference().to_owned();
    answered(&call, Question::Promote { reference, version }, Vec::new()).await
}

pub(crate) async fn abort(call: Call) -> Answer {
    let version = call.query.number("version")?;
    let reference = call.reference().to_owned();
    answered(&call, Question::Abort { reference, version }, Vec::new()).await
}

pub(crate) async fn deploy(mut call: Call) -> Answer {
    let Read { deployment, warnings } = read_deployment(&mut call).await?;
    answered(&call, Question::Deploy(deployment), warnings).await
}

pub(crate) async fn remove_stack(call: Call) -> Answer {
    answered(&call, Question::RemoveStack(call.reference().to_owned()), Vec::new()).await
}

pub(crate) async fn simulate(mut call: Call) -> Answer {
    let Simulation { down, drain, remove, add } = call.json::<Simulation>(limits::SPEC_BYTES).await?;
    let add = add.map(|add| (add.count, add.like));
    answered(&call, Question::Machines(Machines { down, drain, remove, add }), Vec::new()).await
}
