//! The native HTTP API: routes, their JSON, and who may use them.
//!
//! It speaks to a running cluster through `control` alone. Its shape is that of every front-end: a route table, the types of
//! its JSON, one handler file a resource, the doors between JSON and model, and errors.
//!
//! | route | body | answer |
//! | --- | --- | --- |
//! | `GET /health`, `GET /metrics` | | `Health`; Prometheus text |
//! | `GET /v1/info`, `GET /v1/openapi.json` | | `Info`; the document |
//! | `GET /v1/services` | | `List<Service>` |
//! | `POST /v1/services` | `ServiceSpec` | 201 `Written` |
//! | `GET /v1/services/{service}` | | `Service` |
//! | `PUT /v1/services/{service}` | `ServiceUpdate` | `Written` |
//! | `DELETE /v1/services/{service}` | | `Written` |
//! | `POST /v1/services/{service}/scale` | `Scale` | `Written` |
//! | `GET /v1/services/{service}/tasks` | | `List<Task>` |
//! | `GET /v1/services/{service}/logs?follow=&tail=&since=` | | lines of `LogItem` |
//! | `GET /v1/tasks?service=&node=&desired=&state=` | | `List<Task>` |
//! | `GET /v1/tasks/{task}` | | `Task` |
//! | `GET /v1/tasks/{task}/logs?follow=&tail=&since=` | | lines of `LogItem` |
//! | `GET /v1/nodes`, `GET /v1/nodes/{node}` | | `List<Node>`, `Node` |
//! | `PATCH /v1/nodes/{node}` | `NodeUpdate` | `Written` |
//! | `GET /v1/stacks`, `GET /v1/stacks/{stack}` | | `List<Stack>`, `Stack` |
//! | `PUT /v1/stacks/{stack}` | `StackDeploy` | `StackDeployed` |
//! | `DELETE /v1/stacks/{stack}` | | `Written` |
//! | `GET /v1/stacks/{stack}/tasks` | | `List<Task>` |
//! | `GET /v1/events?from=&after=&since=&kind=` | | server-sent events of `Event` |
//! | `GET /v1/why/{ref}?kind=` | | `Why` |
//!
//! `{service}`, `{task}`, `{node}` and `{stack}` are a name (of a task `web.1`; of a node its host name), an id, or the beginning of an id that fits one
//! object only. Every read answers with the header `X-Quelea-Index`: the index of the state it saw; lists and single objects take `?index=N&wait=30s`
//! (see `List::changed`, `Service::changed`, and the header `X-Quelea-Changed` that every such read carries). A refusal is an
//! `ErrorBody` with status 400, 401, 403, 404, 409, 410, 413, 421 or 503.

#![forbid(unsafe_code)]

mod access;
mod api;
mod body;
mod errors;
mod from;
mod handlers;
mod openapi;
mod query;
mod router;
mod routes;
mod serve;
mod shutdown;
mod to;
pub mod types;

pub use access::{Access, Token};
pub use router::router;
pub use serve::{ServeLimits, serve_tcp, serve_unix};
pub use shutdown::Shutdown;
