//! Blocking reads: they wake once for each change of what they read, and miss none.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall say where")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use common::{PATIENCE, Reply, World};
use control::Cluster;
use model::Slot;
use serde_json::json;
use tokio::time::{Instant, timeout};

/// A read that has begun to wait is polled once and not done.
async fn waits(read: &mut (impl Future<Output = Reply> + Unpin)) {
    let mut once = std::pin::pin!(tokio::task::yield_now());
    tokio::select! {
        biased;
        reply = read => panic!("answered {} at once: {}", reply.status, reply.text),
        () = &mut once => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_waits_for_what_it_reads_and_for_nothing_else() {
    let world = World::new();
    let here = world.cluster.add_node("here");
    let web = world.create("web", 1).await;
    world.create("db", 1).await;
    let first = world.get("/v1/services/web").await;
    let path = format!("/v1/services/web?index={}&wait=1m", first.changed());
    let mut read = Box::pin(world.get(&path));
    waits(&mut read).await;
    world.scale("db", 2).await;
    waits(&mut read).await;
    let index = world.scale("web", 2).await;
    let reply = timeout(PATIENCE, &mut read).await.unwrap();
    assert_eq!((reply.index(), reply.changed()), (index, index));
    assert_eq!(reply.json()["spec"]["replicas"], 2);

    // Its tasks count as well, and so does what happens to them.
    let path = format!("/v1/services/web?index={index}");
    let mut read = Box::pin(world.get(&path));
    waits(&mut read).await;
    let task = world.cluster.add_task(web, Slot::Number(0));
    assert_eq!(read.await.json()["status"]["waiting"], 1);
    let tasks = world.get("/v1/services/web/tasks").await;
    let path = format!("/v1/services/web/tasks?index={}", tasks.changed());
    let mut read = Box::pin(world.get(&path));
    waits(&mut read).await;
    world.cluster.assign(task, here);
    assert_eq!(read.await.json()["items"][0]["state"], "assigned");
}

#[tokio::test(start_paused = true)]
async fn at_the_timeout_the_state_is_answered() {
    let world = World::new();
    world.create("web", 1).await;
    let index = world.get("/v1/services").await.index();
    for (wait, expected) in [("&wait=30s", 30), ("&wait=0s", 0), ("", 300), ("&wait=10m", 600)] {
        let begun = Instant::now();
        let reply = world.get(&format!("/v1/services?index={index}{wait}")).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.json()["items"].as_array().unwrap().len(), 1);
        let waited = Instant::now() - begun;
        assert!(
            waited >= Duration::from_secs(expected) && waited < Duration::from_secs(expected + 1),
            "{wait}"
        );
    }
    for (query, field) in [
        ("wait=5s", "wait"),
        ("index=1&wait=11m", "wait"),
        ("index=1&wait=-5s", "wait"),
        ("index=1&wait=5", "wait"),
        ("index=-1", "index"),
        ("index=x", "index"),
    ] {
        let reply = world.get(&format!("/v1/services?{query}")).await;
        assert_eq!((reply.status, reply.refusal().1.as_deref()), (400, Some(field)), "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_removed_wakes_at_once() {
    let world = World::new();
    let here = world.cluster.add_node("here");
    let web = world.create("web", 1).await;
    let task = world.cluster.add_task(web, Slot::Number(0));
    world.cluster.assign(task, here);
    let deploy = json!({ "source": "services:\n  db:\n    command: sleep 100\n" });
    assert_eq!(world.ask("PUT", "/v1/stacks/shop", deploy).await.status, 200);
    let index = world.cluster.snapshot().index();
    let paths = [
        "/v1/services/web".to_owned(),
        "/v1/services/web/tasks".into(),
        "/v1/stacks/shop".into(),
        "/v1/stacks/shop/tasks".into(),
    ];
    let paths: Vec<String> = paths.iter().map(|p| format!("{p}?index={index}")).collect();
    let mut reads: Vec<_> = paths.iter().map(|p| Box::pin(world.get(p))).collect();
    for read in &mut reads {
        waits(read).await;
    }
    let begun = Instant::now();
    world.send(common::request("DELETE", "/v1/services/web", None)).await;
    world.send(common::request("DELETE", "/v1/stacks/shop", None)).await;
    for read in reads {
        assert_eq!(read.await.status, 404);
    }
    assert_eq!(Instant::now(), begun, "nobody waited for a timeout");

    // The tasks of a service that is gone can be followed to their end under its id.
    let of_gone = |index: u64| format!("/v1/tasks?service={web}&index={index}");
    let path = of_gone(world.get(&format!("/v1/tasks?service={web}")).await.changed());
    let mut read = Box::pin(world.get(&path));
    waits(&mut read).await;
    world.cluster.report(task, model::TaskState::Shutdown, None);
    let reply = read.await;
    assert_eq!(reply.json()["items"][0]["state"], "shutdown");
    let path = of_gone(reply.changed());
    let mut read = Box::pin(world.get(&path));
    waits(&mut read).await;
    world.cluster.apply(store::ChangeSet::of(vec![store::Change::DeleteTask(task)]));
    assert_eq!(read.await.json()["items"], json!([]));
    assert_eq!(Instant::now(), begun, "nobody waited for a timeout");
}

#[tokio::test(start_paused = true)]
async fn every_blocking_route_wakes_for_its_change() {
    let world = World::new();
    let here = world.cluster.add_node("here");
    world.set_up();
    let web = world.create("web", 1).await;
    let task = world.cluster.add_task(web, Slot::Number(0));
    let deploy = |n: u32| json!({ "source": format!("services:\n  db:\n    command: sleep {n}\n") });
    world.ask("PUT", "/v1/stacks/shop", deploy(1)).await;
    let document = world.get("/v1/openapi.json").await.json();
    for (path, operation) in document["paths"].as_object().unwrap() {
        let parameters = operation["get"]["parameters"].as_array().cloned().unwrap_or_default();
        if !parameters.iter().any(|p| p["name"] == "index") {
            continue;
        }
        let target = path
            .replace("{service}", "web")
            .replace("{task}", &task.to_string())
            .replace("{node}", "here")
            .replace("{stack}", "shop");
        let first = world.get(&target).await;
        assert_eq!(first.status, 200, "{target}: {}", first.text);
        assert!(first.changed() <= first.index(), "{target}");
        let blocked = format!("{target}?index={}", first.changed());
        let mut read = Box::pin(world.get(&blocked));
        waits(&mut read).await;
        // Something that each of them shows.
        let n = world.cluster.snapshot().index() as u32 + 2;
        if path.contains("stack") {
            world.ask("PUT", "/v1/stacks/shop", deploy(n)).await;
        } else if path.contains("cluster") {
            world.ask("PATCH", "/v1/cluster", json!({ "task_history_limit": n })).await;
        } else if path.contains("node") {
            let labels = json!({ "labels": { "n": n.to_string() } });
            world.ask("PATCH", "/v1/nodes/here", labels).await;
        } else if path.contains("task") {
            world.cluster.apply(store::ChangeSet::of(vec![store::Change::ExplainTasks {
                tasks: vec![task],
                unplaced: Some(Arc::new(model::Unplaced {
                    refusals: vec![model::Refusal {
                        filter: model::FilterKind::Ready,
                        nodes: n,
                        text: "no".into(),
                    }],
                })),
            }]));
        } else {
            world.scale("web", n).await;
        }
        let second = timeout(Duration::from_secs(1), read).await.expect(&target);
        assert!(second.changed() > first.changed(), "{target}");
        assert_ne!(second.text, first.text, "{target}");
    }
    let node = world.get("/v1/nodes/here").await;
    let path = format!("/v1/nodes/here?index={}", node.changed());
    let mut read = Box::pin(world.get(&path));
    waits(&mut read).await;
    world.cluster.assign(task, here);
    assert_eq!(read.await.json()["tasks"], 1, "a node shows what its tasks hold");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_serving_ends_every_wait() {
    let world = World::new();
    world.create("web", 1).await;
    let index = world.get("/v1/services").await.index();
    let path = format!("/v1/services?index={index}");
    let mut read = Box::pin(world.get(&path));
    waits(&mut read).await;
    let begun = Instant::now();
    world.shutdown.begin();
    assert_eq!(read.await.status, 200);
    assert_eq!(world.get(&path).await.status, 200);
    assert_eq!(Instant::now(), begun);
}

/// Writers scale a service; readers block on it, its tasks or the list. Each reader sees indexes that only rise (no change
/// twice), never an older state after a newer one, and comes to the last state although no change follows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_writers_and_readers_agree_in_the_end() {
    const WRITERS: u32 = 8;
    const EACH: u32 = 50;
    let world = Arc::new(World::new());
    world.create("web", 0).await;
    let last = WRITERS * EACH + 1000;
    let readers: Vec<_> = (0..24)
        .map(|n| {
            let world = Arc::clone(&world);
            let path = if n % 2 == 0 { "/v1/services/web" } else { "/v1/services" };
            tokio::spawn(async move {
                let (mut index, mut seen) = (0, Vec::new());
                loop {
                    let reply = world.get(&format!("{path}?index={index}&wait=1m")).await;
                    assert_eq!(reply.status, 200);
                    assert!(reply.changed() > index, "woken without a change");
                    index = reply.changed();
                    let json = reply.json();
                    let service = if n % 2 == 0 { &json } else { &json["items"][0] };
                    let replicas = service["spec"]["replicas"].as_u64().expect("replicas");
                    assert_eq!(service["version"], index, "what is read is what woke");
                    seen.push((index, replicas));
                    if replicas == u64::from(last) {
                        return seen;
                    }
                }
            })
        })
        .collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|w| {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                for n in 0..EACH {
                    world.scale("web", 1 + w * EACH + n).await;
                }
            })
        })
        .collect();
    for writer in writers {
        timeout(PATIENCE, writer).await.unwrap().unwrap();
    }
    let end = world.scale("web", last).await;
    let mut states = BTreeSet::new();
    for reader in readers {
        let seen = timeout(PATIENCE, reader).await.expect("no change is missed").unwrap();
        assert!(seen.windows(2).all(|pair| pair[0].0 < pair[1].0), "each change at most once, in order");
        assert_eq!(seen.last(), Some(&(end, u64::from(last))));
        states.extend(seen);
    }
    // Two readers never saw different states under one index.
    let indexes: BTreeSet<u64> = states.iter().map(|(index, _)| *index).collect();
    assert_eq!(indexes.len(), states.len());
}
