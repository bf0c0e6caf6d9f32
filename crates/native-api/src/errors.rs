//! Refusals as answers: which status, and one sentence.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use control::RequestError;
use model::Invalid;
use store::Gone;

use crate::types::{ErrorBody, Problem};

/// A refusal on its way to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) body: Box<ErrorBody>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, sentence: impl Into<String>) -> Self {
        Self { status, body: Box::new(ErrorBody { error: sentence.into(), ..ErrorBody::default() }) }
    }

    /// A field or parameter that cannot be accepted.
    pub(crate) fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Invalid::new(field, problem).into()
    }

    /// The same refusal for whoever knows the fields without this prefix.
    pub(crate) fn within(mut self, prefix: &str) -> Self {
        if let Some(short) = self.body.field.as_ref().and_then(|f| f.strip_prefix(prefix)) {
            let error = self.body.error.strip_prefix(prefix).unwrap_or(&self.body.error);
            (self.body.error, self.body.field) = (error.to_owned(), Some(short.to_owned()));
        }
        self
    }

    /// A stack file that cannot be accepted.
    pub(crate) fn problems(problems: Vec<specs::Problem>) -> Self {
        let Some(first) = problems.first() else {
            return Self::new(StatusCode::BAD_REQUEST, "the stack file cannot be read");
        };
        let error = match problems.len() - 1 {
            0 => first.to_string(),
            more => format!("{first} (and {more} more)"),
        };
        let field = Some(first.field.clone()).filter(|f| !f.is_empty());
        let mut refusal = Self::new(StatusCode::BAD_REQUEST, error);
        refusal.body.field = field;
        refusal.body.problems = problems
            .into_iter()
            .map(|p| Problem {
                line: p.line.into(),
                column: p.column.into(),
                field: p.field,
                message: p.message,
            })
            .collect();
        refusal
    }
}

impl From<Invalid> for ApiError {
    fn from(invalid: Invalid) -> Self {
        let mut refusal = Self::new(StatusCode::BAD_REQUEST, invalid.to_string());
        refusal.body.field = Some(invalid.field);
        refusal
    }
}

impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        let status = match &error {
            RequestError::NotFound { .. } => StatusCode::NOT_FOUND,
            RequestError::Ambiguous { .. } | RequestError::Invalid(_) => StatusCode::BAD_REQUEST,
            RequestError::Conflict { .. } => StatusCode::CONFLICT,
            RequestError::Unavailable(_) | RequestError::OutcomeUnknown(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let mut refusal = Self::new(status, error.to_string());
        refusal.body.field = error.field().map(str::to_owned);
        refusal
    }
}

impl From<Gone> for ApiError {
    fn from(gone: Gone) -> Self {
        let sentence = format!("{gone}; read the state anew and follow the events from there");
        let mut refusal = Self::new(StatusCode::GONE, sentence);
        refusal.body.oldest = Some(gone.oldest.to_string());
        refusal
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let how = HeaderValue::from_static("Bearer realm=\"quelea\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, how);
        }
        response
    }
}
