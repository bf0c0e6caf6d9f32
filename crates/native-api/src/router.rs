//! The router: made from the route table, behind the door of [`Access`].

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderValue, Method as HttpMethod, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter};
use control::Cluster;

use crate::access::Access;
use crate::api::{Api, Call, INDEX, set_index};
use crate::errors::ApiError;
use crate::query::Query;
use crate::routes::{Method, ROUTES, Route};
use crate::shutdown::Shutdown;

/// The native API of a cluster, for whoever `access` lets in. Streams and blocking reads end when `shutdown` begins.
pub fn router(cluster: Arc<dyn Cluster>, access: Access, shutdown: Shutdown) -> Router {
    let api = Arc::new(Api { cluster, shutdown });
    let mut router = Router::new();
    for route in ROUTES {
        let api = Arc::clone(&api);
        let handler =
            move |params: Params, request: Request| dispatch(Arc::clone(&api), route, params, request);
        router = router.route(route.path, MethodRouter::new().on(filter(route.method), handler));
    }
    router
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(Arc::new(access), guard))
}

fn filter(method: Method) -> MethodFilter {
    match method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Put => MethodFilter::PUT,
        Method::Patch => MethodFilter::PATCH,
        Method::Delete => MethodFilter::DELETE,
    }
}

async fn guard(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let mut response = match access.check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The parts of a path that have names, unless they are no text.
type Params = Result<RawPathParams, RawPathParamsRejection>;

async fn dispatch(api: Arc<Api>, route: &'static Route, params: Params, request: Request) -> Response {
    let Ok(params) = params else {
        let problem = "the path is not UTF-8 text once %XX is read";
        return ApiError::new(StatusCode::BAD_REQUEST, problem).into_response();
    };
    // Taken before the handler looks: a refusal must not claim to have seen a later state than it did.
    let floor = api.cluster.snapshot().index();
    let query = Query::parse(request.uri().query().unwrap_or_default(), route.query);
    let path = params.iter().map(|(_, value)| value.to_owned()).collect();
    let (parts, body) = request.into_parts();
    let answer = match query {
        Ok(query) => (route.handler)(Call::new(api, path, query, parts.headers, body)).await,
        Err(refusal) => Err(refusal),
    };
    let mut response = answer.unwrap_or_else(IntoResponse::into_response);
    if !response.headers().contains_key(INDEX) {
        set_index(&mut response, floor);
    }
    response
}

async fn no_such_path(request: Request) -> ApiError {
    let path: String = request.uri().path().chars().take(80).collect();
    let sentence = format!("there is no {path:?} here; GET /v1/openapi.json lists what there is");
    ApiError::new(StatusCode::NOT_FOUND, sentence)
}

async fn no_such_method(method: HttpMethod, request: Request) -> ApiError {
    let path: String = request.uri().path().chars().take(80).collect();
    let sentence = format!("{path:?} has no {method}; GET /v1/openapi.json lists what it has");
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, sentence)
}
