//! What the stories share: a cluster in memory behind the router, and a client.
#![allow(dead_code, reason = "each test binary uses its part of it")]

pub mod schema;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use control::Cluster;
use control::testing::MemoryCluster;
use http_body_util::BodyExt;
use model::{ServiceId, Time};
use native_api::{Access, Shutdown, router};
use serde_json::{Value, json};
use tower_service::Service;

/// The moment at which every story begins: 2027-01-15T08:00:00Z.
pub const START: Time = Time(1_800_000_000_000_000_000);
/// How long a test waits for what must happen before it fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct World {
    pub cluster: Arc<MemoryCluster>,
    pub router: Router,
    pub shutdown: Shutdown,
}

/// What was answered.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    /// A header that holds a number.
    pub fn number(&self, header: &str) -> u64 {
        self.headers[header].to_str().expect("text").parse().expect("a number")
    }

    pub fn index(&self) -> u64 {
        self.number("x-quelea-index")
    }

    pub fn changed(&self) -> u64 {
        self.number("x-quelea-changed")
    }

    /// The sentence and the field of a refusal.
    pub fn refusal(&self) -> (String, Option<String>) {
        let json = self.json();
        let text = |v: &Value| v.as_str().map(str::to_owned);
        (text(&json["error"]).expect("a sentence"), text(&json["field"]))
    }
}

impl World {
    pub fn new() -> Self {
        Self::with(Access::Socket)
    }

    pub fn with(access: Access) -> Self {
        let cluster = Arc::new(MemoryCluster::new(START));
        let shutdown = Shutdown::new();
        let router = router(Arc::clone(&cluster) as Arc<dyn Cluster>, access, shutdown.clone());
        Self { cluster, router, shutdown }
    }

    /// Makes the cluster object, which a daemon makes when it first starts.
    pub fn set_up(&self) {
        let cluster = model::Cluster::new(model::ClusterId::from_u128(1), "default");
        self.cluster.apply(store::ChangeSet::of(vec![store::Change::PutCluster(cluster)]));
    }

    /// Sends a request; the body is there once the future resolves.
    pub async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.open(request).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("a whole body").to_bytes();
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        Reply { status: parts.status.as_u16(), headers: parts.headers, text }
    }

    /// Sends a request; the body is still to come.
    pub async fn open(&self, request: Request<Body>) -> axum::response::Response {
        let mut router = self.router.clone();
        router.call(request).await.expect("a router answers")
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send(request("GET", path, None)).await
    }

    pub async fn ask(&self, method: &str, path: &str, body: Value) -> Reply {
        self.send(request(method, path, Some(body.to_string()))).await
    }

    /// Makes a replicated service of `sleep`.
    pub async fn create(&self, name: &str, replicas: u32) -> ServiceId {
        let spec = json!({ "name": name, "command": ["sleep", "100"], "replicas": replicas });
        let reply = self.ask("POST", "/v1/services", spec).await;
        assert_eq!(reply.status, 201, "{}", reply.text);
        reply.json()["id"].as_str().expect("an id").parse().expect("an id")
    }

    pub async fn scale(&self, name: &str, replicas: u32) -> u64 {
        let reply =
            self.ask("POST", &format!("/v1/services/{name}/scale"), json!({ "replicas": replicas })).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.index()
    }
}

pub fn request(method: &str, path: &str, body: Option<String>) -> Request<Body> {
    let body = body.map_or_else(Body::empty, Body::from);
    Request::builder().method(method).uri(path).header("host", "quelea").body(body).expect("a request")
}
