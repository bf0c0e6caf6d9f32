//! Explanations.

use axum::http::StatusCode;
use control::{Kind, why};

use crate::api::{Answer, Call, answer};
use crate::errors::ApiError;
use crate::to;

/// What can be explained, as words.
pub(crate) const KINDS: &[&str] = &["task", "service", "node", "stack"];

pub(crate) async fn explain(call: Call) -> Answer {
    let kind = match call.query.get("kind") {
        None => Kind::Anything,
        Some("task") => Kind::Task,
        Some("service") => Kind::Service,
        Some("node") => Kind::Node,
        Some("stack") => Kind::Stack,
        Some(other) => {
            return Err(ApiError::invalid("kind", format!("{other:?} is none of {}", KINDS.join(", "))));
        }
    };
    let tables = call.cluster().snapshot();
    let subject = why::resolve(&tables, call.reference(), kind, call.me())?;
    let explained = why::explain(call.cluster(), &tables, &subject);
    answer(StatusCode::OK, tables.index(), &to::why(&tables, &subject, explained))
}
