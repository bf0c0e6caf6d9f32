//! The cluster itself.

use axum::http::StatusCode;
use control::settings;
use model::limits;

use crate::api::{Answer, Call, written};
use crate::from;
use crate::to;
use crate::types::ClusterUpdate;

pub(crate) async fn get(call: Call) -> Answer {
    let seen = call.read(|t| Ok(settings::find(t)?.meta.modified)).await?;
    seen.one(&to::cluster(settings::find(&seen.tables)?))
}

pub(crate) async fn update(mut call: Call) -> Answer {
    let update = call.json::<ClusterUpdate>(limits::SPEC_BYTES).await?;
    let done = settings::update(call.cluster(), update.version, from::settings_change(&update)?).await?;
    written(StatusCode::OK, &done)
}
