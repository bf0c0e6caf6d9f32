//! Events as they happen, as server-sent events that can be resumed exactly.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::stream;
use model::{Index, Time};
use store::{EventId, Gone, KeptEvent};

use crate::api::{Answer, Api, Call, set_index};
use crate::errors::ApiError;
use crate::query::moment;
use crate::to;

/// Where a stream may begin, as words.
pub(crate) const FROM: &[&str] = &["now", "oldest"];
/// What events are about, as words.
pub(crate) const KINDS: &[&str] = &["cluster", "namespace", "node", "job", "service", "task"];

/// Events taken from the log at once.
const BATCH: usize = 256;
/// How often a silent stream says where it stands, so that a client that only sees few kinds can still resume.
const HEARTBEAT: Duration = Duration::from_secs(15);

pub(crate) async fn stream(call: Call) -> Answer {
    let kinds: Vec<String> = call.query.all("kind").map(str::to_owned).collect();
    if let Some(other) = kinds.iter().find(|k| !KINDS.contains(&k.as_str())) {
        return Err(ApiError::invalid("kind", format!("{other:?} is none of {}", KINDS.join(", "))));
    }
    let index = call.cluster().snapshot().index();
    let position = position(&call, index)?;
    // Whether the stream can begin there is said in the status, not in the stream.
    call.cluster().events_after(position, 0)?;
    let feed = Feed {
        api: Arc::clone(&call.api),
        position,
        reached: position.index,
        kinds,
        names: to::Names::default(),
        since: since(&call)?,
        begun: false,
        over: false,
    };
    let mut response = Response::new(Body::from_stream(stream::unfold(feed, next_block)));
    let media = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    set_index(&mut response, index);
    Ok(response)
}

/// The id after which the stream begins: that of a client which reconnects, else the asked one, else now.
fn position(call: &Call, index: Index) -> Result<EventId, ApiError> {
    let last = call.headers.get("last-event-id");
    let (field, text) = match (last, call.query.get("after")) {
        (Some(last), _) => ("Last-Event-ID", last.to_str().unwrap_or("?")),
        (None, Some(after)) => ("after", after),
        (None, None) => return beginning(call, index),
    };
    if last.is_none() && call.query.get("from").is_some() {
        return Err(ApiError::invalid("from", "cannot be given together with after"));
    }
    let id: EventId = text.parse().map_err(|e| ApiError::invalid(field, format!("{e}")))?;
    if id.index > index {
        let problem = format!("{id} is later than anything that has happened here (index {index})");
        return Err(ApiError::invalid(field, problem));
    }
    Ok(id)
}

/// The moment from which on events are wanted.
fn since(call: &Call) -> Result<Option<Time>, ApiError> {
    let text = call.query.get("since");
    text.map(|text| moment("since", text, call.cluster().now())).transpose()
}

fn beginning(call: &Call, index: Index) -> Result<EventId, ApiError> {
    // What is wanted since a moment is found among all that is kept.
    let usual = call.query.get("since").map(|_| "oldest");
    match call.query.get("from").or(usual) {
        None | Some("now") => Ok(EventId::end_of(index)),
        Some("oldest") => match call.cluster().events_after(EventId::default(), 0) {
            Ok(_) => Ok(EventId::default()),
            Err(Gone { oldest }) => Ok(oldest),
        },
        Some(other) => Err(ApiError::invalid("from", format!("{other:?} is none of {}", FROM.join(", ")))),
    }
}

/// A client's place in the events.
struct Feed {
    api: Arc<Api>,
    /// Everything up to here has been sent or passed over.
    position: EventId,
    /// The store was seen to be this far.
    reached: Index,
    /// What is sent; everything when empty.
    kinds: Vec<String>,
    names: to::Names,
    /// Events before this moment are passed over.
    since: Option<Time>,
    begun: bool,
    over: bool,
}

async fn next_block(mut feed: Feed) -> Option<(Result<Bytes, Infallible>, Feed)> {
    let block = feed.next().await?;
    Some((Ok(block.into()), feed))
}

impl Feed {
    async fn next(&mut self) -> Option<String> {
        if !self.begun {
            // Also sends the headers, and gives a client that is cut off before the first event its place.
            self.begun = true;
            return Some(self.place());
        }
        while !self.over && !self.api.shutdown.has_begun() {
            let events = match self.api.cluster.events_after(self.position, BATCH) {
                Ok(events) => events,
                Err(gone) => {
                    self.over = true;
                    return Some(too_slow(gone));
                }
            };
            if let Some(last) = events.last() {
                self.position = last.id;
                let text = self.render(&events);
                if !text.is_empty() {
                    return Some(text);
                }
                continue;
            }
            tokio::select! {
                index = self.api.cluster.beyond(self.reached) => self.reached = index,
                () = self.api.shutdown.begun() => return None,
                () = tokio::time::sleep(HEARTBEAT) => return Some(self.place()),
            }
        }
        None
    }

    /// An event without data, which no client hands on, but which moves its place.
    fn place(&self) -> String {
        format!("id: {}\n\n", self.position)
    }

    fn render(&mut self, events: &[KeptEvent]) -> String {
        let tables = self.api.cluster.snapshot();
        let mut text = String::new();
        for event in events {
            // Also what is not sent may name a service whose tasks are told of later.
            let shown = to::event(&tables, &mut self.names, event);
            let of_kind = self.kinds.is_empty() || self.kinds.contains(&shown.kind);
            if !of_kind || self.since.is_some_and(|since| event.at < since) {
                continue;
            }
            let data = serde_json::to_string(&shown).unwrap_or_default();
            text.push_str(&format!("id: {}\nevent: {}\ndata: {data}\n\n", shown.id, shown.kind));
        }
        text
    }
}

/// The last event of a client that fell behind what is kept.
fn too_slow(gone: Gone) -> String {
    let refusal = ApiError::from(gone);
    let data = serde_json::to_string(&refusal.body).unwrap_or_default();
    format!("event: gone\ndata: {data}\n\n")
}
