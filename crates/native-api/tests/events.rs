//! The event stream: exact resume, filters, and what is no longer kept.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall say where")]

mod common;

use std::time::Duration;

use axum::body::Body;
use common::{PATIENCE, World, request};
use http_body_util::BodyExt;
use model::{Slot, limits};
use native_api::types::Event;
use serde_json::Value;
use tokio::time::timeout;

/// A client of server-sent events, as browsers have one.
struct Source {
    body: Body,
    text: String,
    /// What it would send as `Last-Event-ID`.
    last: String,
}

impl Source {
    async fn open(world: &World, path: &str, last: Option<&str>) -> Self {
        let mut request = request("GET", path, None);
        if let Some(last) = last {
            request.headers_mut().insert("last-event-id", last.parse().unwrap());
        }
        let response = world.open(request).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), text: String::new(), last: String::new() }
    }

    /// The next block; `None` at the end of the stream.
    async fn block(&mut self) -> Option<Vec<(String, String)>> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let fields = block.lines().map(|line| {
                    let (name, value) = line.split_once(": ").expect("a field");
                    (name.to_owned(), value.to_owned())
                });
                let fields: Vec<_> = fields.collect();
                self.text = rest.to_owned();
                if let Some((_, id)) = fields.iter().find(|(name, _)| name == "id") {
                    self.last = id.clone();
                }
                return Some(fields);
            }
            let frame = timeout(PATIENCE, self.body.frame()).await.expect("something comes")?;
            let data = frame.expect("a frame").into_data().expect("data");
            self.text.push_str(std::str::from_utf8(&data).unwrap());
        }
    }

    /// The next event; blocks without data only move the place.
    async fn event(&mut self) -> Option<Event> {
        loop {
            let block = self.block().await?;
            let field = |name: &str| block.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
            let Some(data) = field("data") else { continue };
            let event: Event = serde_json::from_str(&data).unwrap();
            assert_eq!(field("id").as_deref(), Some(&*event.id));
            assert_eq!(field("event").as_deref(), Some(&*event.kind));
            return Some(event);
        }
    }

    /// Events up to the one that removes the service `end`.
    async fn until_end(&mut self) -> Vec<String> {
        let mut ids = Vec::new();
        loop {
            let event = self.event().await.expect("more events");
            ids.push(event.id.clone());
            if event.name == "end" && event.action == "deleted" {
                return ids;
            }
        }
    }
}

async fn history(world: &World) {
    for n in 0..20 {
        let id = world.create(&format!("s{n}"), n).await;
        world.cluster.add_task(id, Slot::Number(0));
    }
    world.create("end", 1).await;
    world.send(request("DELETE", "/v1/services/end", None)).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_resumes_exactly_after_any_event() {
    let world = World::new();
    history(&world).await;
    let all = Source::open(&world, "/v1/events?from=oldest", None).await.until_end().await;
    assert_eq!(all.len(), 42);
    let parsed: Vec<store::EventId> = all.iter().map(|id| id.parse().unwrap()).collect();
    assert!(parsed.windows(2).all(|pair| pair[0] < pair[1]), "in order");
    for (n, id) in all.iter().enumerate().take(all.len() - 1) {
        let by_query = Source::open(&world, &format!("/v1/events?after={id}"), None).await.until_end().await;
        assert_eq!(by_query, all[n + 1..], "after {id}");
        // The header of a client that reconnects goes before the address that it began with.
        let mut again = Source::open(&world, &format!("/v1/events?after={}", all[0]), Some(id)).await;
        assert_eq!(again.until_end().await, all[n + 1..], "Last-Event-ID {id}");
    }
}

#[tokio::test(start_paused = true)]
async fn by_default_a_stream_begins_now_and_is_cut_off_without_loss() {
    let world = World::new();
    history(&world).await;
    let mut source = Source::open(&world, "/v1/events", None).await;
    assert!(source.block().await.is_some_and(|b| b.len() == 1), "its place, before anything happens");
    let place = source.last.clone();
    drop(source);
    world.create("later", 1).await;
    let mut source = Source::open(&world, "/v1/events", Some(&place)).await;
    let event = source.event().await.unwrap();
    assert_eq!((&*event.name, &*event.action, &*event.kind), ("later", "created", "service"));

    // What happens while it listens comes at once.
    let next = tokio::spawn(async move { source.event().await.unwrap() });
    tokio::task::yield_now().await;
    world.scale("later", 5).await;
    let event = next.await.unwrap();
    assert_eq!((&*event.name, &*event.action), ("later", "updated"));
}

#[tokio::test(start_paused = true)]
async fn kinds_are_filtered_and_the_place_moves_on() {
    let world = World::new();
    history(&world).await;
    let mut source = Source::open(&world, "/v1/events?from=oldest&kind=task,node", None).await;
    for n in 0..20 {
        let event = source.event().await.unwrap();
        assert_eq!((&*event.kind, event.name), ("task", format!("s{n}.1")));
        assert_eq!(event.state.as_deref(), Some("pending"));
    }
    let before = source.last.clone();
    // Nothing more of this kind: after a while the stream says where it stands, so that what was passed over is not lost
    // from under it.
    assert!(source.block().await.is_some_and(|b| b.len() == 1));
    assert!(source.last.parse::<store::EventId>().unwrap() > before.parse().unwrap());
    let reply = world.get("/v1/events?kind=nope").await;
    assert_eq!((reply.status, reply.refusal().1.as_deref()), (400, Some("kind")));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_longer_kept_is_gone() {
    let world = World::new();
    let id = world.create("web", 0).await;
    let service = std::sync::Arc::clone(control::Cluster::snapshot(&*world.cluster).service(id).unwrap());
    let scaled = |n: u32| {
        let mode = model::Mode::Replicated { replicas: n };
        let service = model::Service { mode, ..(*service).clone() };
        store::ChangeSet::of(vec![store::Change::UpdateService(Box::new(service))])
    };
    let mut slow = Source::open(&world, "/v1/events?from=oldest", None).await;
    slow.event().await.unwrap();
    for n in 1..=limits::EVENTS_KEPT as u32 + 10 {
        world.cluster.apply(scaled(n));
    }
    for (path, last) in [("/v1/events?after=1.0", None), ("/v1/events", Some("1.0"))] {
        let mut request = request("GET", path, None);
        if let Some(last) = last {
            request.headers_mut().insert("last-event-id", last.parse().unwrap());
        }
        let reply = world.send(request).await;
        assert_eq!(reply.status, 410);
        let oldest = reply.json()["oldest"].as_str().unwrap().to_owned();
        assert!(reply.refusal().0.contains(&oldest));
        let mut source = Source::open(&world, &format!("/v1/events?after={oldest}"), None).await;
        let first: store::EventId = source.event().await.unwrap().id.parse().unwrap();
        assert_eq!(first.index, oldest.parse::<store::EventId>().unwrap().index + 1);
    }
    let mut source = Source::open(&world, "/v1/events?from=oldest", None).await;
    assert_eq!(source.event().await.unwrap().name, "web");
    // Who fell behind within a stream is told, and the stream ends.
    let block = slow.block().await.unwrap();
    assert_eq!(block[0], ("event".into(), "gone".into()));
    let told: Value = serde_json::from_str(&block[1].1).unwrap();
    assert!(told["oldest"].is_string());
    assert!(slow.block().await.is_none());
    let text = world.get("/metrics").await.text;
    assert!(text.contains(&format!("quelea_events_kept {}\n", limits::EVENTS_KEPT)), "{text}");
}

#[tokio::test(start_paused = true)]
async fn wrong_places_are_refused_by_name() {
    let world = World::new();
    world.create("web", 1).await;
    for (query, field) in [
        ("after=x", "after"),
        ("after=1", "after"),
        ("after=99.0", "after"),
        ("from=yesterday", "from"),
        ("from=now&after=1.0", "from"),
    ] {
        let reply = world.get(&format!("/v1/events?{query}")).await;
        assert_eq!((reply.status, reply.refusal().1.as_deref()), (400, Some(field)), "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_serving_ends_streams() {
    let world = World::new();
    let mut source = Source::open(&world, "/v1/events", None).await;
    source.block().await.unwrap();
    let end = tokio::spawn(async move { source.block().await });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let begun = tokio::time::Instant::now();
    world.shutdown.begin();
    assert!(end.await.unwrap().is_none());
    assert_eq!(tokio::time::Instant::now(), begun);
}

#[tokio::test(start_paused = true)]
async fn events_say_what_changed() {
    let world = World::new();
    let node = world.cluster.add_node("alpha");
    let id = world.create("web", 3).await;
    let task = world.cluster.add_task(id, Slot::Number(0));
    let mut source = Source::open(&world, "/v1/events", None).await;
    source.block().await.unwrap();
    let next = tokio::spawn(async move { (source.event().await.unwrap(), source) });
    tokio::task::yield_now().await;
    world.scale("web", 5).await;
    let (event, mut source) = next.await.unwrap();
    assert_eq!((event.name.as_str(), event.changes), ("web", vec!["replicas 3 -> 5".to_owned()]));
    let body = serde_json::json!({ "availability": "drain", "labels": { "zone": "a" } });
    world.send(request("PATCH", "/v1/nodes/alpha", Some(body.to_string()))).await;
    let event = source.event().await.unwrap();
    assert_eq!(event.object, node.to_string());
    assert_eq!(event.changes, ["availability: active -> drain", "labels.zone=a added"]);
    // A task of a service that is gone keeps its name.
    world.send(request("DELETE", "/v1/services/web", None)).await;
    world.cluster.apply(store::ChangeSet::of(vec![store::Change::DeleteTask(task)]));
    let mut events = Vec::new();
    while events.last() != Some(&("deleted".to_owned(), "web.1".to_owned())) {
        let event = source.event().await.unwrap();
        events.push((event.action, event.name));
    }
    assert!(events.contains(&("deleted".to_owned(), "web".to_owned())), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_can_begin_at_the_beginning_or_at_a_moment() {
    let world = World::new();
    history(&world).await;
    let all = Source::open(&world, "/v1/events?from=oldest", None).await.until_end().await;
    for query in ["after=0.0", "after=0.7", "since=1970-01-01", "since=1h"] {
        let same = Source::open(&world, &format!("/v1/events?{query}"), None).await.until_end().await;
        assert_eq!(same, all, "{query}");
    }
    let mut none = Source::open(&world, "/v1/events?since=2200-01-01", None).await;
    assert!(none.block().await.is_some_and(|b| b.len() == 1), "its place only");
    let reply = world.get("/v1/events?since=someday").await;
    assert_eq!((reply.status, reply.refusal().1.as_deref()), (400, Some("since")));
}
