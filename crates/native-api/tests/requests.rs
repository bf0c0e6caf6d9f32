//! Requests about each resource, and what is refused.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall say where")]

mod common;

use common::{START, World, request};
use control::{Cluster, LogItem, LogLine, ProposeError};
use model::{Slot, TaskState, limits};
use native_api::types::{ErrorBody, List, Service, StackDeployed, Task, Why};
use serde_json::{Value, json};

#[tokio::test]
async fn a_service_from_its_making_to_its_end() {
    let world = World::new();
    let spec = json!({
        "name": "web", "command": ["sleep", "100"], "replicas": 2, "stop_grace_period": "3s",
        "resources": { "limits": { "memory": "64MiB", "cpus": 0.5 } },
    });
    let made = world.ask("POST", "/v1/services", spec.clone()).await;
    assert_eq!(made.status, 201);
    let shown: Service = serde_json::from_str(&world.get("/v1/services/web").await.text).unwrap();
    assert_eq!(shown.version, made.json()["version"]);
    assert_eq!(shown.spec.resources.limits.memory.bytes(), Ok(64 << 20));
    assert_eq!((shown.revision.number, shown.status.wanted), (1, 2));
    assert_eq!(shown.created_at, "2027-01-15T08:00:00Z");

    // What is read can be written back, and changes nothing.
    let again = json!({ "spec": shown.spec, "version": shown.version });
    let reply = world.ask("PUT", "/v1/services/web", again).await;
    assert_eq!((reply.status, &reply.json()["changed"]), (200, &json!(false)));

    let mut other = spec;
    other["command"] = json!(["sleep", "200"]);
    let reply =
        world.ask("PUT", "/v1/services/web", json!({ "spec": other, "version": shown.version })).await;
    assert_eq!((reply.status, &reply.json()["changed"]), (200, &json!(true)));
    let stale =
        world.ask("PUT", "/v1/services/web", json!({ "spec": other, "version": shown.version })).await;
    assert_eq!((stale.status, stale.refusal().1.as_deref()), (409, Some("version")));
    let shown: Service = serde_json::from_str(&world.get("/v1/services/web").await.text).unwrap();
    assert_eq!((shown.revision.number, shown.previous.unwrap().number), (2, 1));

    let list: List<Service> = serde_json::from_str(&world.get("/v1/services").await.text).unwrap();
    assert_eq!((list.items.len(), list.index), (1, world.cluster.snapshot().index()));
    let stale = world.send(request("DELETE", "/v1/services/web?version=1", None)).await;
    assert_eq!(stale.status, 409);
    assert_eq!(world.send(request("DELETE", "/v1/services/web", None)).await.status, 200);
    assert_eq!(world.get("/v1/services/web").await.status, 404);
}

#[tokio::test]
async fn bad_specs_are_refused_by_field_and_store_nothing() {
    let world = World::new();
    world.create("taken", 1).await;
    let before = world.cluster.proposed();
    for (body, status, field) in [
        (json!({ "name": "a", "command": ["x"], "nope": 1 }), 400, "nope"),
        (json!({ "name": "a", "command": ["x"], "replicas": -1 }), 400, "replicas"),
        (
            json!({ "name": "a", "command": ["x"], "placement": { "constraints": ["x==y"] } }),
            400,
            "placement.constraints[0]",
        ),
        (
            json!({ "name": "a", "command": ["x"], "resources": { "limits": { "memory": "12 bananas" } } }),
            400,
            "resources.limits.memory",
        ),
        (
            json!({ "name": "a", "command": ["x"], "resources": { "limits": { "memory": 5 } } }),
            400,
            "resources.limits.memory",
        ),
        (json!({ "name": "a" }), 400, "command"),
        (json!({ "command": ["x"] }), 400, "name"),
        (json!({ "name": "a b", "command": ["x"] }), 400, "name"),
        (json!({ "name": "Taken", "command": ["x"] }), 409, "name"),
        (json!({ "name": "a", "command": ["x"], "mode": "batch", "replicas": 2 }), 400, "replicas"),
        (
            json!({ "name": "a", "command": ["x"], "mode": "batch", "update": { "parallelism": 2 } }),
            400,
            "update",
        ),
        (json!({ "name": "a", "command": ["x"], "update": { "delay": "-1s" } }), 400, "update.delay"),
    ] {
        let reply = world.ask("POST", "/v1/services", body.clone()).await;
        let (sentence, found) = reply.refusal();
        assert_eq!((reply.status, found.as_deref()), (status, Some(field)), "{body}: {sentence}");
        assert!(sentence.starts_with(&format!("{field}: ")), "{sentence}");
    }
    for (path, body) in [
        ("/v1/services/taken/scale", json!({ "replicas": -1 })),
        ("/v1/services/taken/scale", json!({ "replicas": 1, "nope": 1 })),
        ("/v1/services/taken/scale", json!({})),
        ("/v1/services/nope/scale", json!({ "replicas": 1 })),
    ] {
        let reply = world.ask("POST", path, body.clone()).await;
        assert!([400, 404].contains(&reply.status), "{body}");
    }
    for spec in [json!({ "replicas": -1 }), json!({ "replicas": 99_999_999, "command": ["x"] })] {
        let mut body = json!({ "spec": { "name": "taken" } });
        body["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let reply = world.ask("PUT", "/v1/services/taken", body).await;
        let (sentence, field) = reply.refusal();
        assert_eq!((reply.status, field.as_deref()), (400, Some("replicas")), "{sentence}");
        assert!(sentence.starts_with("replicas: "), "{sentence}");
    }
    assert_eq!(world.cluster.proposed(), before);
    let empty = world.send(request("POST", "/v1/services", None)).await;
    assert_eq!((empty.status, &*empty.refusal().0), (400, "a JSON body is needed"));
}

#[tokio::test]
async fn too_large_is_too_large() {
    let world = World::new();
    let huge = json!({ "name": "a", "command": ["x".repeat(10 << 20)] });
    let reply = world.ask("POST", "/v1/services", huge).await;
    assert_eq!(reply.status, 413);
    assert_eq!(reply.refusal().0, "the body is larger than the 1 MiB that a request may have");
    let long = format!("#{}\nservices:\n  a:\n    command: x\n", "x".repeat(limits::SPEC_BYTES));
    let reply = world.ask("PUT", "/v1/stacks/shop", json!({ "source": long })).await;
    assert_eq!((reply.status, reply.refusal().1.as_deref()), (413, Some("source")));
    // A file just as large as it may be is taken, whatever JSON makes of its line ends.
    let mut file = "services:\n  a:\n    command: sleep 1\n".to_owned();
    file.push_str(&"\n".repeat(limits::SPEC_BYTES - file.len()));
    let reply = world.ask("PUT", "/v1/stacks/shop", json!({ "source": file })).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(world.cluster.proposed(), 1);
}

#[tokio::test]
async fn a_stack_is_deployed_changed_and_removed() {
    let world = World::new();
    let deploy = async |source: &str, more: Value| {
        let mut body = json!({ "source": source });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        world.ask("PUT", "/v1/stacks/shop", body).await
    };
    let two = "services:\n  web:\n    command: sleep ${N}\n    deploy: {replicas: 2}\n  db:\n    command: sleep 9\n";
    let missing = deploy(
        "services:\n  web:\n    command: sleep 1\n    nope: 1\n  db:\n    command: 7\n    bad: 2\n",
        json!({}),
    )
    .await;
    let refusal: ErrorBody = serde_json::from_str(&missing.text).unwrap();
    assert_eq!(missing.status, 400);
    assert!(refusal.problems.len() >= 2, "{refusal:?}");
    assert_eq!((refusal.problems[0].line, &*refusal.problems[0].field), (4, "services.web.nope"));
    assert!(refusal.error.starts_with("stack.yaml:4:"), "{}", refusal.error);
    let named = deploy("x: 1", json!({ "file_name": "my.yaml" })).await;
    assert!(named.refusal().0.starts_with("my.yaml:1:"), "{}", named.text);

    let first = deploy(two, json!({ "variables": { "N": "5" } })).await;
    assert_eq!(first.status, 200, "{}", first.text);
    let first: StackDeployed = serde_json::from_str(&first.text).unwrap();
    assert_eq!((first.number, first.changed, first.services.len()), (1, true, 2));
    let web: Service = serde_json::from_str(&world.get("/v1/services/shop_web").await.text).unwrap();
    assert_eq!(web.spec.command, ["sleep", "5"]);
    assert_eq!((web.stack.as_deref(), web.spec.labels.len()), (Some("shop"), 1));
    let index = world.cluster.snapshot().index();
    let same: StackDeployed =
        serde_json::from_str(&deploy(two, json!({ "variables": { "N": "5" } })).await.text).unwrap();
    assert_eq!((same.changed, same.number, world.cluster.snapshot().index()), (false, 1, index));

    let one = "services:\n  web:\n    command: sleep 6\n    deploy: {replicas: 2}\n";
    let kept = deploy(one, json!({})).await.json();
    assert_eq!(kept["services"][0]["change"], "kept");
    let pruned = deploy(one, json!({ "prune": true })).await.json();
    assert_eq!(
        (&pruned["services"][0]["change"], &pruned["services"][1]["change"]),
        (&json!("removed"), &json!("unchanged"))
    );
    let stack = world.get("/v1/stacks/shop").await.json();
    assert_eq!((&stack["source"], &stack["wanted"]), (&json!(one), &json!(2)));
    assert!(world.get("/v1/stacks").await.json()["items"][0].get("source").is_none());
    assert_eq!(world.send(request("DELETE", "/v1/stacks/shop", None)).await.status, 200);
    assert_eq!(world.get("/v1/services").await.json()["items"], json!([]));
    assert_eq!(world.get("/v1/stacks/shop").await.status, 404);
}

#[tokio::test]
async fn tasks_are_listed_by_what_is_asked() {
    let world = World::new();
    let (here, there) = (world.cluster.add_node("here"), world.cluster.add_node("there"));
    let (web, db) = (world.create("web", 2).await, world.create("db", 1).await);
    let first = world.cluster.add_task(web, Slot::Number(0));
    let second = world.cluster.add_task(web, Slot::Number(1));
    let third = world.cluster.add_task(db, Slot::Number(0));
    world.cluster.assign(first, here);
    world.cluster.assign(second, there);
    world.cluster.assign(third, here);
    world.cluster.report(first, TaskState::Running, None);
    world.cluster.report(second, TaskState::Failed, Some("no"));
    let list = async |query: &str| {
        let reply = world.get(&format!("/v1/tasks?{query}")).await;
        assert_eq!(reply.status, 200, "{query}: {}", reply.text);
        let list: List<Task> = serde_json::from_str(&reply.text).unwrap();
        let mut names: Vec<_> = list.items.into_iter().map(|t| t.name).collect();
        names.sort();
        names
    };
    for (query, names) in [
        ("", &["db.1", "web.1", "web.2"] as &[_]),
        ("service=web", &["web.1", "web.2"]),
        ("service=WEB&node=here", &["web.1"]),
        ("node=here", &["db.1", "web.1"]),
        ("state=running", &["web.1"]),
        ("state=running,failed", &["web.1", "web.2"]),
        ("state=running&state=failed", &["web.1", "web.2"]),
        ("desired=running&state=assigned", &["db.1"]),
        ("desired=shutdown", &[]),
        (&format!("service={}", &web.to_string()[..20]), &["web.1", "web.2"]),
    ] {
        assert_eq!(list(query).await, names, "{query}");
    }
    for (query, status, field) in [
        ("service=nope", 404, None),
        ("node=nope", 404, None),
        ("state=broken", 400, Some("state")),
        ("desired=broken", 400, Some("desired")),
    ] {
        let reply = world.get(&format!("/v1/tasks?{query}")).await;
        assert_eq!((reply.status, reply.refusal().1.as_deref()), (status, field), "{query}");
    }
    let task: Task = serde_json::from_str(&world.get("/v1/tasks/web.1").await.text).unwrap();
    assert_eq!((task.slot, task.hostname.as_deref(), task.id.len()), (Some(1), Some("here"), 25));
    assert!(task.current);
}

#[tokio::test]
async fn long_lists_of_tasks_come_in_pages() {
    let world = World::new();
    let web = world.create("web", 7).await;
    for n in 0..7 {
        world.cluster.add_task(web, Slot::Number(n));
    }
    let deploy = json!({ "source": "services:\n  a:\n    command: sleep 1\n" });
    world.ask("PUT", "/v1/stacks/shop", deploy).await;
    let a = control::services::find(&world.cluster.snapshot(), "shop_a").unwrap().id;
    for n in 0..7 {
        world.cluster.add_task(a, Slot::Number(n));
    }
    for path in ["/v1/services/web/tasks", "/v1/stacks/shop/tasks", "/v1/tasks"] {
        let all = world.get(path).await;
        assert!(!all.headers.contains_key("x-quelea-next"));
        let all: Vec<Value> = all.json()["items"].as_array().unwrap().clone();
        let (mut pages, mut after) = (Vec::new(), String::new());
        loop {
            let reply = world.get(&format!("{path}?limit=3{after}")).await;
            let items = reply.json()["items"].as_array().unwrap().clone();
            assert!(items.len() <= 3);
            pages.extend(items);
            let Some(next) = reply.headers.get("x-quelea-next") else { break };
            after = format!("&after={}", next.to_str().unwrap());
        }
        assert_eq!(pages, all, "{path}");
    }
    for (query, field) in
        [("limit=x", "limit"), ("after=x", "after"), ("after=0000000000000000000000001", "after")]
    {
        let reply = world.get(&format!("/v1/tasks?{query}")).await;
        assert_eq!((reply.status, reply.refusal().1.as_deref()), (400, Some(field)), "{query}");
    }
}

#[tokio::test]
async fn settings_of_the_cluster_are_changed_in_part() {
    let world = World::new();
    assert_eq!(world.get("/v1/cluster").await.status, 503);
    world.set_up();
    let cluster = world.get("/v1/cluster").await.json();
    let defaults = [
        ("task_history_limit", json!(5)),
        ("task_history_failed", json!(0)),
        ("task_history_age", json!("0s")),
        ("dispatcher_heartbeat", json!("5s")),
        ("orphan_after", json!("24h0m0s")),
        ("strategy", json!("spread")),
    ];
    for (field, value) in defaults {
        assert_eq!(cluster[field], value, "{field}");
    }
    let patch = async |body: Value| world.ask("PATCH", "/v1/cluster", body).await;
    let body = json!({ "dispatcher_heartbeat": "30s", "strategy": "binpack", "version": cluster["version"] });
    let reply = patch(body.clone()).await;
    assert_eq!((reply.status, &reply.json()["changed"]), (200, &json!(true)));
    let changed = world.get("/v1/cluster").await.json();
    assert_eq!(
        (&changed["dispatcher_heartbeat"], &changed["orphan_after"]),
        (&json!("30s"), &json!("24h0m0s"))
    );
    let stale = patch(body).await;
    assert_eq!((stale.status, stale.refusal().1.as_deref()), (409, Some("version")));
    assert_eq!(patch(json!({ "strategy": "binpack" })).await.json()["changed"], json!(false));
    for (body, field) in [
        (json!({ "task_history_limit": 10_001 }), "task_history_limit"),
        (json!({ "task_history_limit": -1 }), "task_history_limit"),
        (json!({ "task_history_age": "-1s" }), "task_history_age"),
        (json!({ "dispatcher_heartbeat": "5" }), "dispatcher_heartbeat"),
        (json!({ "orphan_after": "0s" }), "orphan_after"),
        (json!({ "strategy": "pack" }), "strategy"),
        (json!({ "colour": "red" }), "colour"),
    ] {
        let refused = patch(body.clone()).await;
        assert_eq!((refused.status, refused.refusal().1.as_deref()), (400, Some(field)), "{body}");
    }
    // Which strategy holds for a service is said where the service is shown.
    world.create("web", 1).await;
    let shown: Service = serde_json::from_str(&world.get("/v1/services/web").await.text).unwrap();
    assert_eq!((shown.spec.placement.strategy, shown.strategy.as_str()), (None, "binpack"));
}

#[tokio::test]
async fn nodes_are_changed_in_part() {
    let world = World::new();
    let here = world.cluster.add_node("here");
    world.cluster.set_node(here);
    let patch = async |body: Value| world.ask("PATCH", "/v1/nodes/self", body).await;
    let first = patch(json!({ "add_labels": { "a": "1" } })).await.json();
    assert_eq!(first["changed"], true);
    assert_eq!(patch(json!({ "add_labels": { "a": "1" } })).await.json()["changed"], false);
    assert_eq!(patch(json!({ "availability": "drain", "version": first["version"] })).await.status, 200);
    assert_eq!(patch(json!({ "availability": "active", "version": first["version"] })).await.status, 409);
    let node = world.get("/v1/nodes/here").await.json();
    assert_eq!((&node["availability"], &node["labels"]), (&json!("drain"), &json!({ "a": "1" })));
    assert_eq!(node["resources"], json!({ "cpus": 4, "memory": 8_589_934_592_i64, "generic_resources": {} }));
    for (body, field) in [
        (json!({ "availability": "gone" }), "availability"),
        (json!({ "remove_labels": ["b"] }), "remove_labels"),
        (json!({ "role": "manager" }), "role"),
    ] {
        let reply = patch(body.clone()).await;
        assert_eq!((reply.status, reply.refusal().1.as_deref()), (400, Some(field)), "{body}");
    }
}

#[tokio::test]
async fn logs_are_lines_of_json() {
    let world = World::new();
    let web = world.create("web", 1).await;
    let task = world.cluster.add_task(web, Slot::Number(0));
    let line = |n: i64| {
        LogItem::Line(LogLine {
            task,
            name: "web.1".into(),
            hostname: "here".into(),
            program: "main".into(),
            at: START + model::Span::from_secs(n),
            stderr: n % 2 == 1,
            partial: false,
            text: format!("line {n}"),
        })
    };
    world.cluster.set_logs((0..5).map(line).collect());
    world.cluster.set_now(START + model::Span::from_secs(4));
    let lines = async |query: &str| {
        let reply = world.get(&format!("/v1/services/web/logs{query}")).await;
        assert_eq!(
            (reply.status, &reply.headers["content-type"]),
            (200, &"application/x-ndjson".parse().unwrap())
        );
        reply.text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()).collect::<Vec<_>>()
    };
    let all = lines("").await;
    assert_eq!(all.len(), 5);
    assert_eq!(all[1]["stream"], "stderr");
    assert_eq!((&all[0]["name"], &all[0]["at"]), (&json!("web.1"), &json!("2027-01-15T08:00:00Z")));
    assert_eq!(lines("?tail=2").await.len(), 2);
    assert_eq!(lines("?since=2s").await.len(), 3);
    assert_eq!(lines("?since=2027-01-15T08:00:03Z").await.len(), 2);
    for (since, count) in [("2027-01-15", 5), ("2027-01-15T08:00:03", 2), ("2999-01-01T00:00:00Z", 0)] {
        assert_eq!(lines(&format!("?since={since}")).await.len(), count, "{since}");
    }
    for (query, field) in [("since=yesterday", "since"), ("tail=-1", "tail"), ("follow=maybe", "follow")] {
        let reply = world.get(&format!("/v1/tasks/web.1/logs?{query}")).await;
        assert_eq!((reply.status, reply.refusal().1.as_deref()), (400, Some(field)), "{query}");
    }
    // One that follows breaks off with serving: that is not the end of the lines.
    let open = world.open(request("GET", "/v1/tasks/web.1/logs?follow=true", None)).await;
    world.shutdown.begin();
    assert!(http_body_util::BodyExt::collect(open.into_body()).await.is_err());
}

#[tokio::test]
async fn why_answers_in_sentences() {
    let world = World::new();
    let web = world.create("web", 1).await;
    world.cluster.add_task(web, Slot::Number(0));
    world.cluster.add_node("web");
    let why = async |path: &str| {
        let reply = world.get(&format!("/v1/why/{path}")).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        serde_json::from_str::<Why>(&reply.text).unwrap()
    };
    assert_eq!(why("web").await.facts[0], "service web wants 1 task and runs 0");
    assert_eq!(why("web?kind=node").await.facts[0], "node web is ready and takes new tasks");
    assert!(why("web.1?kind=task").await.facts[0].starts_with("task web.1 waits for a node"));
    let reply = world.get("/v1/why/nope").await;
    assert_eq!(reply.status, 404);
    assert_eq!(world.get("/v1/why/web?kind=stack").await.status, 404);
    assert_eq!(world.get("/v1/why/web?kind=job").await.refusal().1.as_deref(), Some("kind"));
}

#[tokio::test]
async fn what_the_daemon_cannot_do_is_503() {
    let world = World::new();
    let spec = json!({ "name": "web", "command": ["x"] });
    world.cluster.fail_next(ProposeError::Unavailable("this node is not the leader".into()));
    let reply = world.ask("POST", "/v1/services", spec.clone()).await;
    assert_eq!(
        (reply.status, &*reply.refusal().0),
        (503, "this node is not the leader; nothing was changed, try again")
    );
    world.cluster.fail_next(ProposeError::Unknown("it stopped".into()));
    assert_eq!(world.ask("POST", "/v1/services", spec).await.status, 503);
}

#[tokio::test]
async fn metrics_count_what_there_is() {
    let world = World::new();
    world.cluster.add_node("here");
    let web = world.create("web", 1).await;
    world.cluster.add_task(web, Slot::Number(0));
    let reply = world.get("/metrics").await;
    for line in [
        "quelea_tasks{state=\"pending\"} 1",
        "quelea_tasks{state=\"running\"} 0",
        "quelea_nodes{state=\"ready\"} 1",
        "quelea_services 1",
        "quelea_index 3",
        "quelea_events_kept 3",
        "# TYPE quelea_tasks gauge",
    ] {
        assert!(reply.text.lines().any(|l| l == line), "{line} in {}", reply.text);
    }
    assert!(reply.headers["content-type"].to_str().unwrap().starts_with("text/plain"));
    let info = world.get("/v1/info").await.json();
    assert_eq!((&info["nodes"], &info["services"], &info["tasks"]), (&json!(1), &json!(1), &json!(1)));
}

#[tokio::test]
async fn a_refusal_never_claims_a_later_state_than_it_saw() {
    let world = World::new();
    world.create("web", 1).await;
    let reply = world.get("/v1/services/nope").await;
    assert_eq!((reply.status, reply.index()), (404, 1));
}

#[tokio::test]
async fn a_path_that_is_no_text_is_refused_as_everything_else() {
    let world = World::new();
    let answer = world.get("/v1/services/%ff").await;
    assert_eq!(answer.status, 400);
    assert!(answer.json()["error"].as_str().unwrap().contains("UTF-8"));
}
