//! The OpenAPI document against the router: every operation is there, every answer is what it says.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall say where")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use common::schema::{undocumented, violations};
use common::{Reply, START, World, request};
use control::{Cluster, LogItem, LogLine};
use model::{FilterKind, Lack, Refusal, Rule, Slot, TaskState, Unplaced, Verdict};
use serde_json::{Value, json};
use store::{Change, ChangeSet};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

async fn document(world: &World) -> Value {
    world.get("/v1/openapi.json").await.json()
}

/// Every operation of the document: method, path, and itself.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let all = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods");
        methods.iter().map(|(method, operation)| (method.to_uppercase(), path.clone(), operation.clone()))
    });
    all.collect()
}

/// A path with something in place of its parts that vary.
fn filled(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').map(|p| if p.starts_with('{') { "nothing" } else { p }).collect();
    parts.join("/")
}

#[tokio::test]
async fn the_router_has_what_is_documented_and_nothing_else() {
    let world = World::new();
    let document = document(&world).await;
    let documented: BTreeSet<(String, String)> =
        operations(&document).into_iter().map(|(method, path, _)| (path, method)).collect();
    assert!(documented.len() >= 25);
    let paths: BTreeSet<&String> = documented.iter().map(|(path, _)| path).collect();
    for path in paths {
        for method in METHODS.map(str::to_uppercase) {
            // Without a body, so that nothing happens; of a stream only the head is looked at.
            let status = world.open(request(&method, &filled(path), None)).await.status().as_u16();
            let known = documented.contains(&(path.clone(), method.clone()));
            assert_eq!(status != 405, known, "{method} {path}: {status}");
        }
    }
    for path in ["/", "/v1", "/v2/services", "/v1/services/a/b", "/v1/services/", "/openapi.json"] {
        let reply = world.get(path).await;
        assert_eq!(reply.status, 404, "{path}");
        assert!(reply.refusal().0.contains("GET /v1/openapi.json lists what there is"), "{path}");
    }
}

#[tokio::test]
async fn every_parameter_is_known_and_no_other() {
    let world = World::new();
    let document = document(&world).await;
    for (method, path, operation) in operations(&document) {
        let empty = Vec::new();
        let parameters = operation["parameters"].as_array().unwrap_or(&empty);
        let in_path: Vec<_> = parameters.iter().filter(|p| p["in"] == "path").collect();
        assert_eq!(in_path.len(), path.matches('{').count(), "{path}");
        for parameter in parameters.iter().filter(|p| p["in"] == "query") {
            let name = parameter["name"].as_str().unwrap();
            let twice = parameter["schema"]["type"] == "array";
            // No value fits any parameter twice unless it may be given twice; none is called unknown.
            let reply = world.open(request(&method, &format!("{}?{name}=%00", filled(&path)), None)).await;
            assert_ne!(reply.status().as_u16(), 200, "{method} {path}?{name}= takes anything");
            let target = format!("{}?{name}=a&{name}=a", filled(&path));
            let reply = world.send(request(&method, &target, None)).await;
            let (sentence, _) = reply.refusal();
            assert_eq!(sentence.contains("is given twice"), !twice, "{method} {path}?{name}: {sentence}");
            assert!(!sentence.contains("is not a parameter"), "{method} {path}?{name}: {sentence}");
        }
        let reply = world.send(request(&method, &format!("{}?nope=1", filled(&path)), None)).await;
        let (sentence, field) = reply.refusal();
        assert_eq!((reply.status, field.as_deref()), (400, Some("nope")), "{method} {path}: {sentence}");
    }
}

/// Answers, each checked against the document as it comes.
struct Checked<'a> {
    world: &'a World,
    document: Value,
    /// Statuses seen, by operation.
    seen: BTreeMap<String, BTreeSet<u16>>,
}

impl Checked<'_> {
    /// Sends a request to the operation with this method and path pattern.
    async fn send(&mut self, method: &str, pattern: &str, target: &str, body: Option<Value>) -> Reply {
        let operation = &self.document["paths"][pattern][method.to_lowercase()];
        let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {pattern}")).to_owned();
        if let Some(body) = &body {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            assert_eq!(violations(&self.document, schema, body), [""; 0], "the body of {id}");
        }
        let reply = self.world.send(request(method, target, body.map(|b| b.to_string()))).await;
        self.check(&id, pattern, method, &reply);
        reply
    }

    fn check(&mut self, id: &str, pattern: &str, method: &str, reply: &Reply) {
        let operation = &self.document["paths"][pattern][method.to_lowercase()];
        let mut answer = &operation["responses"][reply.status.to_string()];
        if let Some(reference) = answer["$ref"].as_str() {
            answer = self.document.pointer(&reference[1..]).expect("a reference leads somewhere");
        }
        assert!(answer.is_object(), "{id} does not document {}: {}", reply.status, reply.text);
        for name in answer["headers"].as_object().into_iter().flatten().map(|(name, _)| name) {
            let there = reply.headers.contains_key(name.as_str());
            assert!(there || name == "X-Quelea-Next", "{id} has no header {name}");
        }
        let media = reply.headers["content-type"].to_str().unwrap();
        let schema = &answer["content"][media]["schema"];
        assert!(schema.is_object(), "{id} does not document {media}");
        let values: Vec<Value> = match media {
            "application/json" => vec![reply.json()],
            "application/x-ndjson" => reply.text.lines().map(|l| serde_json::from_str(l).unwrap()).collect(),
            "text/event-stream" => reply
                .text
                .lines()
                .filter_map(|l| l.strip_prefix("data: "))
                .map(|l| serde_json::from_str(l).unwrap())
                .collect(),
            _ => vec![Value::from(reply.text.clone())],
        };
        assert!(!values.is_empty(), "{id} answers nothing that could be checked");
        for value in values {
            assert_eq!(violations(&self.document, schema, &value), [""; 0], "{id}: {value}");
            // The document is described by the standard that it follows, not by itself.
            if id != "document" {
                assert_eq!(undocumented(&self.document, schema, &value), [""; 0], "{id}: {value}");
            }
        }
        self.seen.entry(id.to_owned()).or_default().insert(reply.status);
    }

    async fn get(&mut self, pattern: &str, target: &str) -> Reply {
        self.send("GET", pattern, target, None).await
    }
}

/// A cluster in which every kind of thing is there in every kind of state that an answer can show.
async fn populate(world: &World) {
    let cluster = &world.cluster;
    let here = cluster.add_node("here");
    cluster.set_node(here);
    let id = world.create("web", 3).await;
    let tasks: Vec<_> = (0..3).map(|n| cluster.add_task(id, Slot::Number(n))).collect();
    cluster.assign(tasks[0], here);
    cluster.report(tasks[0], TaskState::Running, Some("it runs"));
    cluster.assign(tasks[1], here);
    cluster.report(tasks[1], TaskState::Failed, Some("exit status 1"));
    let refusal =
        Refusal { filter: FilterKind::Resources, nodes: 1, text: "too little memory on 1 node".into() };
    cluster.apply(ChangeSet::of(vec![
        Change::ExplainTasks {
            tasks: vec![tasks[2]],
            unplaced: Some(Arc::new(Unplaced { refusals: vec![refusal] })),
        },
        Change::Decide { service: id, rule: Rule::Replace, task: Some(tasks[1]), text: "it failed".into() },
    ]));
    cluster.set_verdicts(vec![
        Verdict { node: here, hostname: "here".into(), refusal: None, lacks: Vec::new() },
        Verdict {
            node: here,
            hostname: "there".into(),
            refusal: Some((FilterKind::Ready, "it is down".into())),
            lacks: vec![Lack { filter: FilterKind::Ready, text: "its daemon back".into(), cost: 9 }],
        },
    ]);
    cluster.set_logs(vec![
        LogItem::Line(LogLine {
            task: tasks[0],
            name: "web.1".into(),
            hostname: "here".into(),
            program: "main".into(),
            at: START,
            stderr: true,
            partial: false,
            text: "hello \"world\"".into(),
        }),
        LogItem::Warning("1 line is missing".into()),
    ]);
}

const STACK: &str = "services:\n  db:\n    command: sleep 100\n    deploy:\n      replicas: 2\n";

#[tokio::test]
async fn every_answer_is_what_the_document_says() {
    let world = World::new();
    populate(&world).await;
    let document = document(&world).await;
    let mut api = Checked { world: &world, document, seen: BTreeMap::new() };
    let task = api.get("/v1/tasks", "/v1/tasks?state=failed").await.json()["items"][0]["id"].clone();
    let task = task.as_str().unwrap().to_owned();

    for path in
        ["/health", "/metrics", "/v1/info", "/v1/openapi.json", "/v1/services", "/v1/tasks", "/v1/nodes"]
    {
        assert_eq!(api.get(path, path).await.status, 200);
    }
    let spec = json!({ "name": "other", "command": ["a"], "resources": { "limits": { "memory": "64m" } } });
    assert_eq!(api.send("POST", "/v1/services", "/v1/services", Some(spec.clone())).await.status, 201);
    assert_eq!(api.send("POST", "/v1/services", "/v1/services", Some(spec.clone())).await.status, 409);
    let one = "/v1/services/{service}";
    let shown = api.get(one, "/v1/services/web").await.json();
    assert_eq!(shown["status"]["reason"], "no suitable node (too little memory on 1 node)");
    assert_eq!(api.get(one, "/v1/services/nope").await.status, 404);
    assert_eq!(api.send("PUT", one, "/v1/services/other", Some(json!({ "spec": spec }))).await.status, 200);
    let rollback = "/v1/services/{service}/rollback";
    assert_eq!(api.send("POST", rollback, "/v1/services/other/rollback", None).await.status, 409);
    let other = json!({ "name": "other", "command": ["another"] });
    api.send("PUT", one, "/v1/services/other", Some(json!({ "spec": other }))).await;
    assert_eq!(api.send("POST", rollback, "/v1/services/other/rollback", None).await.status, 200);
    let shown = api.get(one, "/v1/services/other").await;
    assert_eq!(shown.json()["update_status"]["state"], "rollback_started");
    for how in ["promote", "abort"] {
        let (path, plan) = (format!("{one}/{how}"), format!("/v1/plan/services/{{service}}/{how}"));
        let refused = api.send("POST", &path, &format!("/v1/services/other/{how}"), None).await;
        assert_eq!(refused.status, 409);
        assert_eq!(
            api.send("POST", &plan, &format!("/v1/plan/services/other/{how}"), None).await.status,
            409
        );
    }
    for (how, command) in [("abort", "third"), ("promote", "fourth")] {
        let tried =
            json!({ "name": "other", "command": [command], "update": { "canary": 1, "monitor": "0s" } });
        api.send("PUT", one, "/v1/services/other", Some(json!({ "spec": tried }))).await;
        canaries_are_ready(&world, "other");
        let (path, plan) = (format!("{one}/{how}"), format!("/v1/plan/services/{{service}}/{how}"));
        let planned = api.send("POST", &plan, &format!("/v1/plan/services/other/{how}"), None).await;
        assert_eq!(planned.status, 200, "{}", planned.text);
        let done = api.send("POST", &path, &format!("/v1/services/other/{how}"), None).await;
        assert_eq!(done.status, 200, "{}", done.text);
    }
    let plan = "/v1/plan/services/{service}/rollback";
    assert_eq!(api.send("POST", plan, "/v1/plan/services/other/rollback", None).await.status, 200);
    let scale = "/v1/services/{service}/scale";
    assert_eq!(
        api.send("POST", scale, "/v1/services/other/scale", Some(json!({ "replicas": 2 }))).await.status,
        200
    );
    assert_eq!(api.send("DELETE", one, "/v1/services/other", None).await.status, 200);
    api.get("/v1/services/{service}/tasks", "/v1/services/web/tasks").await;
    api.get("/v1/services/{service}/logs", "/v1/services/web/logs").await;
    for reference in [&*task, "web.1", "web.3"] {
        assert_eq!(api.get("/v1/tasks/{task}", &format!("/v1/tasks/{reference}")).await.status, 200);
        assert_eq!(
            api.get("/v1/tasks/{task}/logs", &format!("/v1/tasks/{reference}/logs")).await.status,
            200
        );
    }
    assert_eq!(api.get("/v1/nodes/{node}", "/v1/nodes/self").await.status, 200);
    let labels = json!({ "add_labels": { "zone": "east" }, "availability": "pause" });
    assert_eq!(api.send("PATCH", "/v1/nodes/{node}", "/v1/nodes/here", Some(labels)).await.status, 200);
    let cluster = "/v1/cluster";
    world.set_up();
    assert_eq!(api.get(cluster, cluster).await.status, 200);
    for (limit, status) in [(3, 200), (30_000, 400)] {
        let body = json!({ "task_history_limit": limit });
        assert_eq!(api.send("PATCH", cluster, cluster, Some(body)).await.status, status);
    }
    let stack = "/v1/stacks/{stack}";
    assert_eq!(api.send("PUT", stack, "/v1/stacks/shop", Some(json!({ "source": STACK }))).await.status, 200);
    assert_eq!(
        api.send("PUT", stack, "/v1/stacks/shop", Some(json!({ "source": "nope" }))).await.status,
        400
    );
    for (pattern, target) in [("/v1/stacks", "/v1/stacks"), (stack, "/v1/stacks/shop")] {
        assert_eq!(api.get(pattern, target).await.status, 200);
    }
    let db = control::services::find(&world.cluster.snapshot(), "shop_db").unwrap().id;
    world.cluster.add_task(db, Slot::Number(0));
    assert_eq!(
        api.get("/v1/stacks/{stack}/tasks", "/v1/stacks/shop/tasks").await.json()["items"][0]["slot"],
        1
    );
    assert_eq!(api.send("DELETE", stack, "/v1/stacks/shop", None).await.status, 200);
    for reference in ["web", "here", "web.2", &*task] {
        assert_eq!(api.get("/v1/why/{ref}", &format!("/v1/why/{reference}")).await.status, 200);
    }
    plans(&mut api).await;
    // A stream ends with serving, so that its body is whole.
    let events = world.open(request("GET", "/v1/events?from=oldest", None)).await;
    let (parts, mut body) = events.into_parts();
    let mut text = String::new();
    while !text.contains("\"kind\":\"job\",\"action\":\"deleted\"") {
        use http_body_util::BodyExt;
        let frame = body.frame().await.expect("more events").expect("a frame").into_data().expect("data");
        text.push_str(std::str::from_utf8(&frame).unwrap());
    }
    let reply = Reply { status: parts.status.as_u16(), headers: parts.headers, text };
    api.check("events", "/v1/events", "GET", &reply);

    let documented: BTreeSet<String> = operations(&api.document)
        .iter()
        .map(|(_, _, operation)| operation["operationId"].as_str().unwrap().to_owned())
        .collect();
    let done = |statuses: &BTreeSet<u16>| statuses.iter().any(|s| *s < 300);
    let exercised: BTreeSet<String> =
        api.seen.iter().filter(|(_, s)| done(s)).map(|(id, _)| id.clone()).collect();
    assert_eq!(exercised, documented, "every operation is exercised here");
}

/// The canary of a service runs, and its update waits for somebody who promotes or aborts it.
fn canaries_are_ready(world: &World, name: &str) {
    let tables = world.cluster.snapshot();
    let service = tables.service_by_name(model::NamespaceId::DEFAULT, name).expect("the service").id;
    let node = tables.nodes().next().expect("a node").id;
    let task = world.cluster.add_task(service, Slot::Number(0));
    world.cluster.assign(task, node);
    world.cluster.report(task, TaskState::Running, None);
    let state = model::UpdateState::Canary;
    world.cluster.apply(ChangeSet::of(vec![Change::MoveUpdate {
        service,
        state,
        message: "it runs".into(),
    }]));
}

/// A forecast in which every field has something.
fn full_forecast(tables: &store::Tables) -> model::Forecast {
    use model::{Fate, Load, Place, ServiceForecast, ServiceState, TaskCounts, TaskForecast};
    let service = tables.services().find(|s| &*s.name == "web").unwrap();
    let task = Arc::clone(&tables.revision(service.revision).unwrap().task);
    let state = |labels: &str| {
        let mut service = model::Service::clone(service);
        service.labels.insert("colour".into(), labels.into());
        Some(ServiceState { service: Arc::new(service), task: Arc::clone(&task) })
    };
    let node = tables.nodes().next().unwrap();
    let place = || Some(Place { node: node.id, hostname: "here".into() });
    let refusals = vec![Refusal { filter: FilterKind::Ready, nodes: 1, text: "1 node is down".into() }];
    model::Forecast {
        index: 0,
        writes: true,
        complete: true,
        stacks: vec![model::StackForecast {
            id: model::JobId::from_u128(1),
            name: "shop".into(),
            before: false,
            after: true,
        }],
        services: vec![ServiceForecast {
            id: service.id,
            name: "web".into(),
            before: state("red"),
            after: state("blue"),
            tasks: TaskCounts { kept: 2, lost: 1, unplaceable: 1, ..TaskCounts::default() },
        }],
        tasks: vec![TaskForecast {
            service: service.id,
            slot: Slot::Number(0),
            name: "web.1".into(),
            fate: Fate::Moved,
            task: tables.tasks().next().map(|t| t.id),
            from: place(),
            to: place(),
            reason: "node here is down".into(),
        }],
        unplaceable: vec![model::UnplaceableForecast {
            service: service.id,
            first: "web.2".into(),
            count: 2,
            unplaced: Some(Arc::new(Unplaced { refusals })),
            verdicts: Vec::new(),
        }],
        waiting: 3,
        nodes: vec![model::NodeForecast {
            id: node.id,
            hostname: "here".into(),
            change: "down",
            total: node.description.resources.clone(),
            before: Some(Load::default()),
            after: Some(Load::default()),
        }],
    }
}

/// The questions, each with an answer that has everything; and that none of them writes.
async fn plans(api: &mut Checked<'_>) {
    let world = api.world;
    let cluster = &world.cluster;
    let there = cluster.add_node("there");
    let tables = cluster.snapshot();
    let forecast = full_forecast(&tables);
    let moved = &forecast.tasks[0];
    let from = moved.from.clone().unwrap();
    let to = model::Place { node: there, hostname: "there".into() };
    cluster.set_rebalance(model::Rebalance {
        complete: true,
        moves: vec![model::Move {
            service: moved.service,
            name: "web.1".into(),
            slot: moved.slot,
            task: moved_task(api),
            from,
            to,
            reason: "2 tasks here, 0 there".into(),
        }],
        before: (2, 0),
        after: (1, 1),
        nodes: forecast.nodes.clone(),
        ..model::Rebalance::default()
    });
    cluster.set_forecast(forecast);
    let proposed = cluster.proposed();
    let spec = |name: &str| json!({ "name": name, "command": ["a"] });
    let stack = "/v1/plan/stacks/{stack}";
    for (method, pattern, target, body) in [
        ("POST", "/v1/plan/services", "/v1/plan/services", Some(spec("new"))),
        ("PUT", "/v1/plan/services/{service}", "/v1/plan/services/web", Some(json!({ "spec": spec("web") }))),
        (
            "POST",
            "/v1/plan/services/{service}/scale",
            "/v1/plan/services/web/scale",
            Some(json!({ "replicas": 9 })),
        ),
        ("DELETE", "/v1/plan/services/{service}", "/v1/plan/services/web", None),
        ("PUT", stack, "/v1/plan/stacks/other", Some(json!({ "source": STACK }))),
        ("POST", "/v1/simulate", "/v1/simulate", Some(json!({ "down": ["here"] }))),
    ] {
        let reply = api.send(method, pattern, target, body).await;
        assert_eq!(reply.status, 200, "{method} {target}: {}", reply.text);
        let plan = reply.json();
        assert_eq!(plan["changes"], true, "{method} {target}");
        assert_eq!(plan["services"][0]["fields"][0]["field"], "labels.colour");
        assert_eq!(plan["services"][0]["revised"], false);
    }
    let name_taken = api.send("POST", "/v1/plan/services", "/v1/plan/services", Some(spec("web"))).await;
    assert_eq!(name_taken.status, 409, "as the request itself would be");
    let same = json!({ "replicas": 3 });
    let quiet = api
        .send("POST", "/v1/plan/services/{service}/scale", "/v1/plan/services/web/scale", Some(same))
        .await;
    assert_eq!(quiet.json()["changes"], false);
    let nothing = api.send("POST", "/v1/simulate", "/v1/simulate", Some(json!({}))).await;
    assert_eq!(nothing.json()["changes"], false);
    assert_eq!(api.get("/v1/rebalance", "/v1/rebalance?threshold=1").await.status, 400);
    assert_eq!(api.get("/v1/rebalance", "/v1/rebalance?threshold=3").await.json()["threshold"], 3);
    assert_eq!(cluster.proposed(), proposed, "nothing of all that writes");
    api.send("PUT", "/v1/stacks/{stack}", "/v1/stacks/other", Some(json!({ "source": STACK }))).await;
    assert_eq!(api.send("DELETE", stack, "/v1/plan/stacks/other", None).await.status, 200);
    let done = api.send("POST", "/v1/rebalance", "/v1/rebalance", Some(json!({}))).await;
    assert_eq!((done.status, done.json()["made"][0]["name"].as_str()), (200, Some("web.1")));
    assert!(cluster.snapshot().task(moved_task(api)).unwrap().leave.is_some());
}

/// The task that the rebalancing moves.
fn moved_task(api: &Checked<'_>) -> model::TaskId {
    let tables = api.world.cluster.snapshot();
    tables.tasks().find(|t| t.holds_reservation() && t.desired.is_wanted()).unwrap().id
}

#[tokio::test]
async fn the_document_is_whole() {
    let world = World::new();
    let document = document(&world).await;
    assert_eq!(document["openapi"], "3.1.0");
    let mut names = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        assert!(names.insert(operation["operationId"].as_str().unwrap().to_owned()), "{method} {path}");
        assert!(operation["summary"].as_str().unwrap().ends_with('.'), "{method} {path}");
    }
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(references.len() > 50);
    for reference in references {
        assert!(document.pointer(&reference[1..]).is_some(), "{reference} leads nowhere");
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let fields = schema["properties"].as_object().into_iter().flatten();
        for (field, of) in fields {
            let about = of.get("description").or_else(|| of.get("$ref"));
            assert!(about.is_some(), "{name}.{field} says nothing of itself");
        }
    }
}

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                match inner.as_str() {
                    Some(text) if name == "$ref" => references.push(text.to_owned()),
                    _ => collect(inner, references),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
        _ => {}
    }
}
