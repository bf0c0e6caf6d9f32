//! What programs wrote, as a stream of JSON lines.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use control::{LogError, LogQuery, LogSource, LogStream, services, tasks};
use futures_util::stream;
use model::Index;

use crate::api::{Answer, Api, Call, set_index};
use crate::errors::ApiError;
use crate::query::moment;
use crate::to;

pub(crate) async fn of_service(call: Call) -> Answer {
    let tables = call.cluster().snapshot();
    let of = LogSource::Service(services::find(&tables, call.reference())?.id);
    lines(call, of, tables.index()).await
}

pub(crate) async fn of_task(call: Call) -> Answer {
    let tables = call.cluster().snapshot();
    let of = LogSource::Task(tasks::find(&tables, call.reference(), call.me())?.id);
    lines(call, of, tables.index()).await
}

async fn lines(call: Call, of: LogSource, index: Index) -> Answer {
    let since = call.query.get("since");
    let query = LogQuery {
        of,
        follow: call.query.boolean("follow")?,
        tail: call.query.number("tail")?.map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
        since: since.map(|text| moment("since", text, call.cluster().now())).transpose()?,
    };
    let lines = call.cluster().logs(query).await.map_err(|error| match error {
        LogError::NotFound => ApiError::new(StatusCode::NOT_FOUND, error.to_string()),
        LogError::Unavailable(_) => ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    })?;
    let items = stream::unfold(Some((Arc::clone(&call.api), lines)), next_line);
    let mut response = Response::new(Body::from_stream(items));
    let ndjson = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, ndjson);
    set_index(&mut response, index);
    Ok(response)
}

/// `None` once it has broken off.
type Open = Option<(Arc<Api>, Box<dyn LogStream>)>;

/// The next line. When the daemon ends, the answer breaks off: its reader must not take that for the last line.
async fn next_line(open: Open) -> Option<(Result<Bytes, io::Error>, Open)> {
    let (api, mut lines) = open?;
    let item = tokio::select! {
        item = lines.next() => item?,
        () = api.shutdown.begun() => return Some((Err(io::Error::other("the daemon ends")), None)),
    };
    // These types have nothing that JSON could not hold.
    let mut line = serde_json::to_vec(&to::log_item(item)).unwrap_or_default();
    line.push(b'\n');
    Some((Ok(line.into()), Some((api, lines))))
}
