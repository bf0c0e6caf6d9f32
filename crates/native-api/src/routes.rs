//! The route table: the one list from which both the router and the OpenAPI document are made.

use control::BoxFuture;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::api::{Answer, Call};
use crate::handlers::{cluster, events, info, logs, nodes, plan, rebalance, services, stacks, tasks, why};
use crate::types;

/// One operation.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// With `{name}` for each part that varies.
    pub(crate) path: &'static str,
    /// Its name in the document.
    pub(crate) id: &'static str,
    /// What it does, in a sentence.
    pub(crate) about: &'static str,
    /// The query parameters it knows.
    pub(crate) query: &'static [Param],
    /// The request headers that change what it does.
    pub(crate) headers: &'static [Param],
    /// What it takes.
    pub(crate) body: Option<SchemaOf>,
    /// What it answers when it is done.
    pub(crate) answer: Content,
    pub(crate) handler: fn(Call) -> BoxFuture<'static, Answer>,
}

/// HTTP methods that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// A query parameter or header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) kind: ParamKind,
    /// May be given more than once.
    pub(crate) many: bool,
}

/// What a parameter's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParamKind {
    Text,
    Number,
    Boolean,
    /// One of these.
    Word(&'static [&'static str]),
}

/// Makes the schema of a type.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What an operation answers.
#[derive(Clone, Copy)]
pub(crate) enum Content {
    /// JSON, with this status.
    Json(u16, SchemaOf),
    /// A text of this media type.
    Text(&'static str),
    /// A stream of JSON values, one a line.
    Lines(SchemaOf),
    /// Server-sent events whose data is JSON.
    Events(SchemaOf),
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

const fn json<T: JsonSchema>() -> Content {
    Content::Json(200, schema::<T>)
}

const fn param(name: &'static str, kind: ParamKind, about: &'static str) -> Param {
    Param { name, about, kind, many: false }
}

const fn many(name: &'static str, kind: ParamKind, about: &'static str) -> Param {
    Param { name, about, kind, many: true }
}

const INDEX: Param = param(
    "index",
    ParamKind::Number,
    "Answer only once what is read has changed after this index, or after `wait`. Take it from X-Quelea-Changed or X-Quelea-Index of the last answer.",
);
const WAIT: Param = param(
    "wait",
    ParamKind::Text,
    "How long to wait for a change at most, as a duration such as 30s; 5m when it is not given, and at most 10m. Needs index.",
);
const LIMIT: Param = param(
    "limit",
    ParamKind::Number,
    "At most so many tasks; 100000 when it is not given, and never more. X-Quelea-Next names the last one when there are more.",
);
const AFTER: Param =
    param("after", ParamKind::Text, "Only what comes after the task with this id, taken from X-Quelea-Next.");
const BLOCKING: &[Param] = &[INDEX, WAIT];
const BLOCKING_TASKS: &[Param] = &[INDEX, WAIT, LIMIT, AFTER];
const TASK_FILTERS: &[Param] = &[
    param(
        "service",
        ParamKind::Text,
        "Only tasks of this service: name, id or beginning of an id; also the whole id of a removed one.",
    ),
    param("node", ParamKind::Text, "Only tasks on this node: host name, id or beginning of an id."),
    many(
        "desired",
        ParamKind::Word(tasks::DESIRED),
        "Only tasks of which this is wanted; several with commas between.",
    ),
    many("state", ParamKind::Word(tasks::STATES), "Only tasks in this state; several with commas between."),
    INDEX,
    WAIT,
    LIMIT,
    AFTER,
];
const LOG_PARAMS: &[Param] = &[
    param("follow", ParamKind::Boolean, "Go on with new lines."),
    param("tail", ParamKind::Number, "Only the last so many lines of each task."),
    param(
        "since",
        ParamKind::Text,
        "Only lines from this moment (RFC 3339) on, or from so long ago (a duration such as 10m).",
    ),
];
const EVENT_PARAMS: &[Param] = &[
    param(
        "from",
        ParamKind::Word(events::FROM),
        "Where to begin: with what happens from now on, or with the oldest event that is kept.",
    ),
    param("after", ParamKind::Text, "Begin after the event with this id."),
    param(
        "since",
        ParamKind::Text,
        "Only events from this moment on, or from so long ago on (`10m`), as far as they are kept.",
    ),
    many(
        "kind",
        ParamKind::Word(events::KINDS),
        "Only events about this kind of object; several with commas between.",
    ),
];
const LAST_EVENT_ID: Param = param(
    "Last-Event-ID",
    ParamKind::Text,
    "Begin after the event with this id; goes before `after`. Browsers and other clients of server-sent events send it when they reconnect.",
);
const VERSION: Param = param("version", ParamKind::Number, "Only if the object still has this version.");
const THRESHOLD: Param = param(
    "threshold",
    ParamKind::Number,
    "Move a task only from a node that has at least so many tasks more than the other; 2 when it is not given, and never less.",
);
const KIND: Param =
    param("kind", ParamKind::Word(why::KINDS), "What the reference means, when it may mean several things.");

macro_rules! route {
    ($method:ident $path:literal, $id:literal, $about:literal, $handler:path,
     $answer:expr $(, body: $body:ty)? $(, query: $query:expr)? $(, headers: $headers:expr)?) => {
        #[allow(unused_mut, unused_assignments, reason = "most routes have not every part")]
        Route {
            method: Method::$method,
            path: $path,
            id: $id,
            about: $about,
            query: { let mut query: &'static [Param] = &[]; $(query = $query;)? query },
            headers: { let mut headers: &'static [Param] = &[]; $(headers = $headers;)? headers },
            body: { let mut body: Option<SchemaOf> = None; $(body = Some(schema::<$body>);)? body },
            answer: $answer,
            handler: |call| Box::pin($handler(call)),
        }
    };
}

/// Every operation.
pub(crate) static ROUTES: &[Route] = &[
    route!(Get "/health", "health", "Says whether this daemon serves.", info::health, json::<types::Health>()),
    route!(Get "/metrics", "metrics", "Counts, in the text format of Prometheus.", info::metrics, Content::Text(info::METRICS_TYPE)),
    route!(Get "/v1/info", "info", "Says what this daemon is.", info::info, json::<types::Info>()),
    route!(Get "/v1/openapi.json", "document", "This document.", info::document, json::<serde_json::Map<String, serde_json::Value>>()),
    route!(Get "/v1/cluster", "getCluster", "The cluster and its settings.", cluster::get, json::<types::Cluster>(), query: BLOCKING),
    route!(Patch "/v1/cluster", "updateCluster", "Changes settings of the cluster; a request that changes nothing writes nothing.", cluster::update, json::<types::Written>(), body: types::ClusterUpdate),
    route!(Get "/v1/services", "listServices", "Every service, by name.", services::list, json::<types::List<types::Service>>(), query: BLOCKING),
    route!(Post "/v1/services", "createService", "Makes a service.", services::create, Content::Json(201, schema::<types::Written>), body: types::ServiceSpec),
    route!(Get "/v1/services/{service}", "getService", "One service.", services::get, json::<types::Service>(), query: BLOCKING),
    route!(Put "/v1/services/{service}", "updateService", "Makes a service what the spec says. A changed task spec makes a new revision; a request that changes nothing writes nothing.", services::update, json::<types::Written>(), body: types::ServiceUpdate),
    route!(Delete "/v1/services/{service}", "removeService", "Removes a service; its tasks end. The last service of a stack takes the stack with it.", services::remove, json::<types::Written>(), query: &[VERSION]),
    route!(Post "/v1/services/{service}/scale", "scaleService", "Makes a replicated service have so many tasks.", services::scale, json::<types::Written>(), body: types::Scale),
    route!(Post "/v1/services/{service}/rollback", "rollbackService", "Puts the revision before in the place of the current one; the number of tasks, labels and policies stay. Answers 409 when there is none.", services::rollback, json::<types::Written>(), query: &[VERSION]),
    route!(Post "/v1/services/{service}/promote", "promoteService", "Promotes the canaries of a service's update: they have their slots, and the others are changed as the policy says. Answers 409 when there are none, or one does not run.", services::promote, json::<types::Written>(), query: &[VERSION]),
    route!(Post "/v1/services/{service}/abort", "abortService", "Ends the canaries of a service's update; the tasks that they stand beside are not touched. Answers 409 when there are none.", services::abort, json::<types::Written>(), query: &[VERSION]),
    route!(Get "/v1/services/{service}/tasks", "listServiceTasks", "The tasks of a service, ended ones included, by slot, the oldest first.", services::tasks, json::<types::List<types::Task>>(), query: BLOCKING_TASKS),
    route!(Get "/v1/services/{service}/logs", "serviceLogs", "What the tasks of a service wrote.", logs::of_service, Content::Lines(schema::<types::LogItem>), query: LOG_PARAMS),
    route!(Get "/v1/tasks", "listTasks", "Tasks, ended ones included: those of a service by slot, others by id.", tasks::list, json::<types::List<types::Task>>(), query: TASK_FILTERS),
    route!(Get "/v1/tasks/{task}", "getTask", "One task.", tasks::get, json::<types::Task>(), query: BLOCKING),
    route!(Get "/v1/tasks/{task}/logs", "taskLogs", "What a task wrote.", logs::of_task, Content::Lines(schema::<types::LogItem>), query: LOG_PARAMS),
    route!(Get "/v1/nodes", "listNodes", "Every node, by host name.", nodes::list, json::<types::List<types::Node>>(), query: BLOCKING),
    route!(Get "/v1/nodes/{node}", "getNode", "One node.", nodes::get, json::<types::Node>(), query: BLOCKING),
    route!(Patch "/v1/nodes/{node}", "updateNode", "Changes what operators want of a node.", nodes::update, json::<types::Written>(), body: types::NodeUpdate),
    route!(Get "/v1/stacks", "listStacks", "Every stack, by name.", stacks::list, json::<types::List<types::Stack>>(), query: BLOCKING),
    route!(Get "/v1/stacks/{stack}", "getStack", "One stack, with the file it was deployed from.", stacks::get, json::<types::Stack>(), query: BLOCKING),
    route!(Put "/v1/stacks/{stack}", "deployStack", "Makes a stack what a stack file says, whole or not at all.", stacks::deploy, json::<types::StackDeployed>(), body: types::StackDeploy),
    route!(Delete "/v1/stacks/{stack}", "removeStack", "Removes a stack with all its services, at once.", stacks::remove, json::<types::Written>()),
    route!(Get "/v1/stacks/{stack}/tasks", "listStackTasks", "The tasks of a stack's services.", stacks::tasks, json::<types::List<types::Task>>(), query: BLOCKING_TASKS),
    route!(Get "/v1/events", "events", "What happens, as it happens. Resumes exactly after any of the last 65,536 events; answers 410 with the oldest id when the asked one is no longer kept.", events::stream, Content::Events(schema::<types::Event>), query: EVENT_PARAMS, headers: &[LAST_EVENT_ID]),
    route!(Get "/v1/why/{ref}", "why", "Why a task, service, node or stack is as it is.", why::explain, json::<types::Why>(), query: &[KIND]),
    route!(Post "/v1/plan/services", "planCreateService", "What making a service would do; nothing is changed.", plan::create, json::<types::Plan>(), body: types::ServiceSpec),
    route!(Put "/v1/plan/services/{service}", "planUpdateService", "What an update of a service would do; nothing is changed.", plan::update, json::<types::Plan>(), body: types::ServiceUpdate),
    route!(Delete "/v1/plan/services/{service}", "planRemoveService", "What removing a service would do; nothing is changed.", plan::remove, json::<types::Plan>(), query: &[VERSION]),
    route!(Post "/v1/plan/services/{service}/scale", "planScaleService", "What another number of tasks would do; nothing is changed.", plan::scale, json::<types::Plan>(), body: types::Scale),
    route!(Post "/v1/plan/services/{service}/rollback", "planRollbackService", "What a rollback would do; nothing is changed.", plan::rollback, json::<types::Plan>(), query: &[VERSION]),
    route!(Post "/v1/plan/services/{service}/promote", "planPromoteService", "What promoting the canaries of a service would do; nothing is changed.", plan::promote, json::<types::Plan>(), query: &[VERSION]),
    route!(Post "/v1/plan/services/{service}/abort", "planAbortService", "What aborting the canaries of a service would do; nothing is changed.", plan::abort, json::<types::Plan>(), query: &[VERSION]),
    route!(Put "/v1/plan/stacks/{stack}", "planDeployStack", "What a deployment of a stack file would do; nothing is changed.", plan::deploy, json::<types::Plan>(), body: types::StackDeploy),
    route!(Delete "/v1/plan/stacks/{stack}", "planRemoveStack", "What removing a stack would do; nothing is changed.", plan::remove_stack, json::<types::Plan>()),
    route!(Post "/v1/simulate", "simulate", "What would happen if nodes failed, were drained, left or were added; nothing is changed.", plan::simulate, json::<types::Plan>(), body: types::Simulation),
    route!(Get "/v1/rebalance", "planRebalance", "The few moves that would even out the cluster; nothing is changed.", rebalance::plan, json::<types::Rebalance>(), query: &[THRESHOLD]),
    route!(Post "/v1/rebalance", "rebalance", "Makes the first of those moves, of each service at most as many as an update changes at once. Repeat it once they have been made, until none is.", rebalance::apply, json::<types::Rebalanced>(), body: types::RebalanceRequest),
];

/// What each `{name}` in a path may be.
pub(crate) fn path_parameter(name: &str) -> &'static str {
    match name {
        "service" => "The service's name, its id, or the beginning of its id.",
        "task" => "The task's id, the beginning of its id, or its name, such as web.1.",
        "node" => {
            "The node's host name, its id, the beginning of its id, or self for the node of this daemon."
        }
        "stack" => "The stack's name; unless it is deployed, also its id or the beginning of its id.",
        _ => "A service, a task or a node: a name, an id, or the beginning of an id.",
    }
}
