//! The OpenAPI document: made from the route table and the types, so that it cannot say anything else than they do.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::routes::{Content, Param, ParamKind, ROUTES, Route, path_parameter};
use crate::types::ErrorBody;

/// Statuses of refusals, and what they mean here.
const REFUSALS: [(u16, &str); 10] = [
    (400, "A field or parameter cannot be accepted, or a reference may mean several things."),
    (401, "The bearer token is missing or wrong (TCP only)."),
    (403, "The request comes from a web page."),
    (404, "There is nothing of this name."),
    (408, "The body did not arrive in time."),
    (409, "The request does not fit the state: a name is taken, or a version has changed."),
    (410, "The events after the asked id are no longer kept."),
    (413, "The body is too large."),
    (421, "The host is none of this daemon's names (TCP only)."),
    (503, "This daemon cannot do it now."),
];

/// The whole document.
pub(crate) fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation(route, &mut generator);
    }
    let refusal = generator.subschema_for::<ErrorBody>();
    let responses: Map<String, Value> = REFUSALS
        .iter()
        .map(|(status, about)| {
            let media = json!({ "application/json": { "schema": refusal } });
            (status.to_string(), json!({ "description": about, "content": media }))
        })
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Quelea native API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Services, tasks, nodes and stacks of a cluster. Every answer carries X-Quelea-Index, the index of the state it saw; reads of lists and objects also carry X-Quelea-Changed, the index that last changed what they show, and wait for a later one when they are given it as `index`."
        },
        "security": [{ "token": [] }, {}],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "responses": responses,
            "headers": {
                "X-Quelea-Index": header("The index of the state that was read, or at which the request took effect."),
                "X-Quelea-Changed": header("The index that last changed what is shown."),
                "X-Quelea-Next": { "description": "The task after which the list goes on; absent when this is all.", "schema": { "type": "string" } },
            },
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "Needed on TCP, except for /health and /metrics; not on the socket." }
            }
        }
    })
}

fn header(about: &str) -> Value {
    json!({ "description": about, "schema": { "type": "integer", "minimum": 0 } })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let varying = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = varying
        .map(|name| {
            json!({
                "name": name, "in": "path", "required": true,
                "description": path_parameter(name), "schema": { "type": "string" }
            })
        })
        .collect();
    parameters.extend(route.query.iter().map(|p| parameter(p, "query")));
    parameters.extend(route.headers.iter().map(|p| parameter(p, "header")));
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.about,
        "parameters": parameters,
        "responses": responses(route, generator),
    });
    if let Some(body) = route.body {
        let media = json!({ "application/json": { "schema": body(generator) } });
        operation["requestBody"] = json!({ "required": true, "content": media });
    }
    operation
}

fn parameter(param: &Param, place: &str) -> Value {
    let schema = match param.kind {
        ParamKind::Text => json!({ "type": "string" }),
        ParamKind::Number => json!({ "type": "integer", "minimum": 0 }),
        ParamKind::Boolean => json!({ "type": "boolean" }),
        ParamKind::Word(words) => json!({ "type": "string", "enum": words }),
    };
    let schema = if param.many { json!({ "type": "array", "items": schema }) } else { schema };
    let mut shown = json!({ "name": param.name, "in": place, "required": false, "description": param.about, "schema": schema });
    if param.many {
        shown["style"] = "form".into();
        shown["explode"] = false.into();
    }
    shown
}

fn responses(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let (status, media, schema) = match route.answer {
        Content::Json(status, schema) => (status, "application/json", schema(generator).to_value()),
        Content::Text(media) => (200, media, json!({ "type": "string" })),
        Content::Lines(schema) => (200, "application/x-ndjson", schema(generator).to_value()),
        Content::Events(schema) => (200, "text/event-stream", schema(generator).to_value()),
    };
    let mut headers = json!({ "X-Quelea-Index": { "$ref": "#/components/headers/X-Quelea-Index" } });
    if route.query.iter().any(|p| p.name == "index") {
        headers["X-Quelea-Changed"] = json!({ "$ref": "#/components/headers/X-Quelea-Changed" });
    }
    if route.query.iter().any(|p| p.name == "limit") {
        headers["X-Quelea-Next"] = json!({ "$ref": "#/components/headers/X-Quelea-Next" });
    }
    let mut responses = json!({
        status.to_string(): {
            "description": route.about,
            "headers": headers,
            "content": { media: { "schema": schema } }
        }
    });
    for status in refusals(route) {
        responses[status.to_string()] = json!({ "$ref": format!("#/components/responses/{status}") });
    }
    responses
}

/// The refusals that a route can answer.
fn refusals(route: &Route) -> Vec<u16> {
    let writes = route.method != crate::routes::Method::Get;
    let streams = matches!(route.answer, Content::Lines(_));
    REFUSALS
        .iter()
        .map(|(status, _)| *status)
        .filter(|status| match status {
            401 => route.path.starts_with("/v1/"),
            404 => route.path.contains('{'),
            408 | 413 => route.body.is_some(),
            409 => writes,
            410 => matches!(route.answer, Content::Events(_)),
            503 => writes || streams,
            _ => true,
        })
        .collect()
}
