//! What handlers have at hand, and how they answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use control::{Cluster, Written};
use model::{Index, NodeId, Span, Task, TaskId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::Tables;

use crate::body::read_json;
use crate::errors::ApiError;
use crate::query::Query;
use crate::shutdown::Shutdown;
use crate::to;
use crate::types::{self, List};

/// The index of the state that a read saw, or at which a request took effect.
pub(crate) const INDEX: HeaderName = HeaderName::from_static("x-quelea-index");
/// The index that last changed what a read can show.
pub(crate) const CHANGED: HeaderName = HeaderName::from_static("x-quelea-changed");

/// The task after which a list goes on that did not fit into one answer.
pub(crate) const NEXT: HeaderName = HeaderName::from_static("x-quelea-next");

/// Most tasks in one answer.
const TASKS_LISTED: u64 = 100_000;
/// How long a blocking read waits when the client does not say.
const WAIT: Span = Span::from_secs(5 * 60);
/// How long a blocking read waits at most.
const WAIT_MAX: Span = Span::from_secs(10 * 60);

/// The answer to a request.
pub(crate) type Answer = Result<Response, ApiError>;

/// What every request sees.
pub(crate) struct Api {
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) shutdown: Shutdown,
}

/// A request on its way through a handler.
pub(crate) struct Call {
    pub(crate) api: Arc<Api>,
    /// The parts of the path that vary, in order.
    pub(crate) path: Vec<String>,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    /// Behind a lock only to let the rest be shared between threads; it has one reader.
    body: Mutex<Body>,
}

impl Call {
    pub(crate) fn new(
        api: Arc<Api>,
        path: Vec<String>,
        query: Query,
        headers: HeaderMap,
        body: Body,
    ) -> Self {
        Self { api, path, query, headers, body: Mutex::new(body) }
    }

    /// The part of the path that varies; every route with such a handler has one.
    pub(crate) fn reference(&self) -> &str {
        self.path.first().map_or("", String::as_str)
    }

    pub(crate) fn cluster(&self) -> &dyn Cluster {
        &*self.api.cluster
    }

    /// The node of this daemon, which people call `self`.
    pub(crate) fn me(&self) -> NodeId {
        self.api.cluster.info().node
    }

    /// The JSON body; what cannot be read is refused by the field.
    pub(crate) async fn json<T: DeserializeOwned>(&mut self, limit: usize) -> Result<T, ApiError> {
        let body = std::mem::take(self.body.get_mut().unwrap_or_else(PoisonError::into_inner));
        read_json(&self.headers, body, limit).await
    }

    /// A read that waits when the client asks for it: until `changed` (the index that last changed what is read) is above
    /// the index that the client names, or its time is up, or serving ends. `changed` is asked on every new state, so
    /// that no change is missed and each wakes once; when it refuses (the object is gone), so does the read, at once.
    pub(crate) async fn read(
        &self,
        changed: impl Fn(&Tables) -> Result<Index, ApiError>,
    ) -> Result<Seen, ApiError> {
        let asked = self.query.number("index")?;
        let wait = self.query.span("wait")?;
        if asked.is_none() && wait.is_some() {
            return Err(ApiError::invalid("wait", "needs index: what is there now is answered at once"));
        }
        let wait = wait.unwrap_or(WAIT);
        if wait < Span::ZERO || wait > WAIT_MAX {
            return Err(ApiError::invalid("wait", format!("{wait} is not between 0s and {WAIT_MAX}")));
        }
        let up = tokio::time::sleep(Duration::from_nanos(wait.0.unsigned_abs()));
        tokio::pin!(up);
        loop {
            let tables = self.cluster().snapshot();
            let seen = Seen { changed: changed(&tables)?, tables };
            let Some(after) = asked else { return Ok(seen) };
            if seen.changed > after || self.api.shutdown.has_begun() {
                return Ok(seen);
            }
            tokio::select! {
                _ = self.cluster().beyond(seen.tables.index()) => {}
                () = self.api.shutdown.begun() => {}
                () = &mut up => {
                    let tables = self.cluster().snapshot();
                    return Ok(Seen { changed: changed(&tables)?, tables });
                }
            }
        }
    }
}

/// A state, and the index that last changed what is read of it.
pub(crate) struct Seen {
    pub(crate) tables: Arc<Tables>,
    pub(crate) changed: Index,
}

impl Seen {
    pub(crate) fn list<T: Serialize>(&self, items: Vec<T>) -> Answer {
        self.one(&List { index: self.tables.index(), changed: self.changed, items })
    }

    /// Tasks from the one that the client has read last, at most as many as it asks for and as one answer may have. When
    /// there are more, a header says after which to go on.
    pub(crate) fn tasks<'t>(&self, query: &Query, tasks: impl Iterator<Item = &'t Arc<Task>>) -> Answer {
        let most = query.number("limit")?.unwrap_or(TASKS_LISTED).clamp(1, TASKS_LISTED) as usize;
        let mut rest = tasks.peekable();
        if let Some(after) = query.get("after") {
            let id: TaskId = after.parse().map_err(|e| ApiError::invalid("after", format!("{e}")))?;
            if !rest.by_ref().any(|task| task.id == id) {
                let problem =
                    format!("there is no task {id} in this list any more; read it from the beginning");
                return Err(ApiError::invalid("after", problem));
            }
        }
        let page: Vec<_> = rest.by_ref().take(most).collect();
        let mut response = self.list(page.iter().map(|t| to::task(&self.tables, t)).collect())?;
        if let (Some(last), Some(_)) = (page.last(), rest.peek()) {
            // An id is letters and digits.
            let id = HeaderValue::try_from(last.id.to_string());
            id.ok().and_then(|id| response.headers_mut().insert(NEXT, id));
        }
        Ok(response)
    }

    pub(crate) fn one<T: Serialize>(&self, value: &T) -> Answer {
        let mut response = Json(value).into_response();
        set_index(&mut response, self.tables.index());
        response.headers_mut().insert(CHANGED, HeaderValue::from(self.changed));
        Ok(response)
    }
}

/// JSON about a state.
pub(crate) fn answer<T: Serialize>(status: StatusCode, index: Index, value: &T) -> Answer {
    let mut response = (status, Json(value)).into_response();
    set_index(&mut response, index);
    Ok(response)
}

/// The answer to a request that wrote, or found nothing to write.
pub(crate) fn written(status: StatusCode, written: &Written) -> Answer {
    written_with(status, written, Vec::new())
}

/// As [`written`], with what is not done as asked.
pub(crate) fn written_with(status: StatusCode, written: &Written, notes: Vec<String>) -> Answer {
    let body = types::Written {
        id: written.id.to_string(),
        name: written.name.to_string(),
        version: written.version,
        index: written.index,
        changed: written.changed,
        notes,
    };
    answer(status, written.index, &body)
}

pub(crate) fn set_index(response: &mut Response, index: Index) {
    response.headers_mut().insert(INDEX, HeaderValue::from(index));
}
