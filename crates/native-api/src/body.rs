//! Bodies of requests: limited in size, and read so that a refusal names the field.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::StreamExt;
use model::format_bytes;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_path_to_error::Path;

use crate::errors::ApiError;

/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// How much of a body that is too large is read and dropped, so that a client that sends before it listens hears the
/// refusal instead of a broken connection.
const DRAINED_BYTES: usize = 32 << 20;

/// Reads the JSON body of a request.
pub(crate) async fn read_json<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<T, ApiError> {
    let bytes = tokio::time::timeout(BODY_TIMEOUT, read(headers, body, limit)).await.map_err(|_| {
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive within 60 s; send it again")
    })??;
    parse(&bytes)
}

async fn read(headers: &HeaderMap, body: Body, limit: usize) -> Result<Vec<u8>, ApiError> {
    let mut stream = body.into_data_stream();
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|n| n > limit as u64) {
        return Err(too_large(stream, limit).await);
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk =
            chunk.map_err(|_| ApiError::new(StatusCode::BAD_REQUEST, "the body broke off before its end"))?;
        if bytes.len() + chunk.len() > limit {
            return Err(too_large(stream, limit).await);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

async fn too_large(mut rest: BodyDataStream, limit: usize) -> ApiError {
    let mut drained = 0;
    while let Some(Ok(chunk)) = rest.next().await {
        drained += chunk.len();
        if drained > DRAINED_BYTES {
            break;
        }
    }
    let sentence =
        format!("the body is larger than the {} that a request may have", format_bytes(limit as i64));
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, sentence)
}

/// Reads JSON, naming the field that cannot be read.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "a JSON body is needed"));
    }
    if bytes.trim_ascii_start().first().is_some_and(|b| *b == b'[') {
        // serde would take a list for the fields in order.
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "the body must be a JSON object, not a list"));
    }
    // Into a map a key may come twice, and the last one would win without a word.
    read_whole::<EachKeyOnce>(bytes, refusal)?;
    // It is JSON: what is said to be none is a null where a word is wanted.
    read_whole(bytes, |path, error| match error.is_data() {
        true => refusal(path, error),
        false => ApiError::invalid(path.to_string(), "is not one of its words; use one, or leave it out"),
    })
}

fn read_whole<T: DeserializeOwned>(
    bytes: &[u8],
    refused: impl FnOnce(&Path, &serde_json::Error) -> ApiError,
) -> Result<T, ApiError> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|e| {
        let path = e.path().clone();
        refused(&path, e.inner())
    })?;
    json.end().map_err(|e| not_json(&e))?;
    Ok(value)
}

fn not_json(error: &serde_json::Error) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, format!("the body is not JSON: {error}"))
}

fn refusal(path: &Path, error: &serde_json::Error) -> ApiError {
    if !error.is_data() {
        return not_json(error);
    }
    let text = error.to_string();
    let at = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&at).unwrap_or(&text);
    let (field, problem) = explain(&path.to_string(), text);
    if field.is_empty() {
        return ApiError::new(StatusCode::BAD_REQUEST, format!("the body: {problem}"));
    }
    ApiError::invalid(field, problem)
}

/// The field a data error is about, and the error in a sentence of ours.
fn explain(path: &str, text: &str) -> (String, String) {
    let path = if path == "." { "" } else { path };
    let inside = |name: &str| match path {
        "" => name.to_owned(),
        // The path may already end in the name of the field that is not known.
        _ if path == name || path.ends_with(&format!(".{name}")) => path.to_owned(),
        _ => format!("{path}.{name}"),
    };
    let quoted = |rest: &str| rest.split('`').nth(1).unwrap_or_default().to_owned();
    if let Some(rest) = text.strip_prefix("unknown field ") {
        let known: Vec<&str> = rest.split('`').skip(3).step_by(2).collect();
        let name = quoted(rest);
        return (inside(&name), format!("is not a field here; known are {}", known.join(", ")));
    }
    if let Some(rest) = text.strip_prefix("missing field ") {
        return (inside(&quoted(rest)), "is needed".into());
    }
    if let Some(rest) = text.strip_prefix("duplicate field ") {
        return (inside(&quoted(rest)), "is given twice".into());
    }
    let number = text.strip_prefix("invalid value: integer `").and_then(|rest| rest.split('`').next());
    if let Some(number) = number {
        let problem = if number.starts_with('-') {
            format!("{number} is negative")
        } else {
            format!("{number} is too large")
        };
        return (path.to_owned(), problem);
    }
    (path.to_owned(), text.to_owned())
}

/// Any JSON in which no object has a key twice.
struct EachKeyOnce;

impl<'de> Deserialize<'de> for EachKeyOnce {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for EachKeyOnce {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            map.next_value::<Self>()?;
            if keys.contains(&key) {
                // As serde says it of the fields of a struct.
                return Err(A::Error::custom(format_args!("duplicate field `{key}`")));
            }
            keys.insert(key);
        }
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Scale, ServiceSpec, ServiceUpdate};

    fn refused<T: DeserializeOwned + fmt::Debug>(json: &str) -> (Option<String>, String) {
        let error = parse::<T>(json.as_bytes()).unwrap_err();
        (error.body.field.clone(), error.body.error.clone())
    }

    #[test]
    fn refusals_name_the_field() {
        for (json, field, sentence) in [
            (r#"{"replicas": -3}"#, "replicas", "replicas: -3 is negative"),
            (r#"{"mode": null}"#, "mode", "mode: is not one of its words; use one, or leave it out"),
            (r#"{"replicas": 4294967296}"#, "replicas", "replicas: 4294967296 is too large"),
            (r#"{"replicas": "3"}"#, "replicas", "replicas: invalid type: string \"3\", expected u32"),
            (
                r#"{"resources": {"limits": {"memory": true}}}"#,
                "resources.limits.memory",
                "resources.limits.memory: invalid type: boolean `true`, expected a number or a text",
            ),
            (
                r#"{"placement": {"nope": 1}}"#,
                "placement.nope",
                "placement.nope: is not a field here; known are constraints, max_replicas_per_node, platforms, preferences, affinities, strategy",
            ),
            (
                r#"{"ports": [{"published": 70000}]}"#,
                "ports[0].published",
                "ports[0].published: 70000 is too large",
            ),
            (
                r#"{"mode": "job"}"#,
                "mode",
                "mode: unknown variant `job`, expected one of `replicated`, `global`, `batch`, `global-batch`",
            ),
            (r#"{"name": "a", "name": "b"}"#, "name", "name: is given twice"),
            (r#"{"env": {"A": "1", "B": "2", "A": "3"}}"#, "env.A", "env.A: is given twice"),
            (r#"{"labels": {"a": "1", "\u0061": "1"}}"#, "labels.a", "labels.a: is given twice"),
            (
                r#"{"programs": [{}, {"env": {"A": "1", "A": "1"}}]}"#,
                "programs[1].env.A",
                "programs[1].env.A: is given twice",
            ),
        ] {
            let (found, text) = refused::<ServiceSpec>(json);
            assert_eq!((found.as_deref(), &*text), (Some(field), sentence), "{json}");
        }
        let (field, text) = refused::<ServiceSpec>(r#"{"nope": 1}"#);
        assert_eq!(field.as_deref(), Some("nope"));
        assert!(text.starts_with("nope: is not a field here; known are name, labels,"), "{text}");
        let (field, text) = refused::<Scale>("{}");
        assert_eq!((field.as_deref(), &*text), (Some("replicas"), "replicas: is needed"));
        let (field, _) = refused::<ServiceUpdate>(r#"{"spec": {"env": {"A": 1}}}"#);
        assert_eq!(field.as_deref(), Some("spec.env.A"));
    }

    #[test]
    fn what_is_no_json_says_where() {
        for (json, begins) in [
            ("", "a JSON body is needed"),
            ("{", "the body is not JSON: EOF while parsing"),
            ("{} x", "the body is not JSON: trailing characters at line 1"),
            ("[]", "the body must be a JSON object"),
            ("7", "the body: invalid type: integer `7`"),
            ("\u{7}", "the body is not JSON: expected value at line 1"),
        ] {
            let (field, text) = refused::<ServiceSpec>(json);
            assert!(field.is_none() && text.starts_with(begins), "{json:?}: {text}");
        }
    }
}
