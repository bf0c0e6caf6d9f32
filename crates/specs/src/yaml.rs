//! A YAML text as a tree in which every value knows its line and column.
//!
//! Scalars keep the text that was written (`3.10`, `0440`, `22:22`, `on`), because what a scalar means is decided by
//! the field that it is for and not by its looks. Anchors, aliases and merge keys are resolved by the parser;
//! duplicate keys, alias bombs, depth, further documents and unknown tags are refused.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Location, Spanned};

/// Deepest nesting of a text.
const DEPTH: usize = 64;
/// Most values in a text, aliases expanded.
const NODES: usize = 200_000;
/// Most bytes of scalars in a text, aliases expanded.
const SCALAR_BYTES: usize = 8 << 20;

/// A place in the text; both count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    /// The line.
    pub line: u32,
    /// The column in characters.
    pub column: u32,
}

impl At {
    /// The beginning of the text.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    /// Where it is written; for an alias where its anchor is.
    pub at: At,
    /// What it is.
    pub value: Value,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Nothing: empty, `~` or `null`.
    Null,
    /// A text, a number, a truth value: as it is written.
    Scalar(String),
    /// Values in order.
    List(Vec<Node>),
    /// Keys with values, in the order of the text.
    Map(Vec<(Key, Node)>),
}

/// A key with its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    /// Where it is written.
    pub at: At,
    /// Its text.
    pub text: String,
}

impl Value {
    /// What it is, in a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Scalar(_) => "a single value",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// Why a text is no YAML that we take.
pub(crate) struct Unreadable {
    /// Where.
    pub at: At,
    /// Why.
    pub message: String,
}

/// Reads a text with one document; an empty text is [`Value::Null`].
pub(crate) fn parse(text: &str) -> Result<Node, Unreadable> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH,
            max_nodes: NODES,
            max_total_scalar_bytes: SCALAR_BYTES,
            max_recorded_anchor_bytes: SCALAR_BYTES,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: NODES,
            max_replay_stack_depth: DEPTH,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    };
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Ok(Node { at: At::START, value: Value::Null });
    }
    let raw: Raw = serde_saphyr::from_str_with_options(text, options).map_err(|e| unreadable(&e))?;
    Ok(raw.into_node(text))
}

fn unreadable(error: &serde_saphyr::Error) -> Unreadable {
    let error = error.without_snippet();
    let at = error.location().map_or(At::START, place);
    if let serde_saphyr::Error::DuplicateMappingKey { key, .. } = error {
        let key = key.as_ref().map(|key| key.chars().take(40).collect::<String>());
        let key = key.map(|key| format!("{key:?}")).unwrap_or_else(|| "a key".into());
        return Unreadable {
            at,
            message: format!("{key} is given twice in the same map; remove one of them"),
        };
    }
    let said = error.render_with_options(serde_saphyr::render_options! {
        snippets: serde_saphyr::SnippetMode::Off,
    });
    let mut message: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
    // The place is told once, in front; the parser adds it again in several shapes.
    for mark in [
        format!(" at line {}, column {}", at.line, at.column),
        format!("line {} column {}: ", at.line, at.column),
    ] {
        message = message.replace(&mark, "");
    }
    Unreadable { at, message }
}

fn place(location: Location) -> At {
    let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX).max(1);
    At { line: number(location.line()), column: number(location.column()) }
}

/// What the parser hands over.
struct Raw(Spanned<RawValue>);

enum RawValue {
    Null,
    /// A text; quoted, or plain and not to be taken for anything else.
    Text(String),
    /// A number or truth value: what was written is looked up in the text, this is what it was taken for.
    Typed(String),
    List(Vec<Raw>),
    Map(Vec<(Spanned<String>, Raw)>),
}

impl Raw {
    fn into_node(self, text: &str) -> Node {
        let location = self.0.defined;
        let at = place(location);
        let value = match self.0.value {
            RawValue::Null => Value::Null,
            RawValue::Text(text) => Value::Scalar(text),
            RawValue::Typed(taken_for) => Value::Scalar(written(text, location).unwrap_or(taken_for)),
            RawValue::List(items) => Value::List(items.into_iter().map(|i| i.into_node(text)).collect()),
            RawValue::Map(pairs) => Value::Map(
                pairs
                    .into_iter()
                    .map(|(key, value)| {
                        (Key { at: place(key.defined), text: key.value }, value.into_node(text))
                    })
                    .collect(),
            ),
        };
        Node { at, value }
    }
}

/// The characters of a plain scalar as they stand in the text; `None` for one with an explicit tag and quotes.
fn written(text: &str, location: Location) -> Option<String> {
    let start = usize::try_from(location.span().byte_offset()?).ok()?;
    let end = start.checked_add(usize::try_from(location.span().byte_len()?).ok()?)?;
    let plain = text.get(start..end)?.trim();
    let quoted = plain.starts_with(['"', '\'', '!', '|', '>', '&']);
    (!plain.is_empty() && !quoted).then(|| plain.to_owned())
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for RawValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

macro_rules! typed {
    ($($method:ident: $type:ty),+) => {$(
        fn $method<E: de::Error>(self, value: $type) -> Result<RawValue, E> {
            Ok(RawValue::Typed(value.to_string()))
        }
    )+};
}

impl<'de> Visitor<'de> for RawVisitor {
    type Value = RawValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<RawValue, E> {
        Ok(RawValue::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<RawValue, E> {
        Ok(RawValue::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawValue, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<RawValue, E> {
        Ok(RawValue::Text(value.to_owned()))
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<RawValue, E> {
        Ok(RawValue::Text(value))
    }

    typed!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_i128: i128, visit_u128: u128, visit_f64: f64);

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<RawValue, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(RawValue::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<RawValue, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = access.next_entry()? {
            pairs.push(pair);
        }
        Ok(RawValue::Map(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(node: &Node) -> String {
        match &node.value {
            Value::Null => "null".into(),
            Value::Scalar(text) => format!("{text:?}"),
            Value::List(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" ")),
            Value::Map(pairs) => {
                let pairs: Vec<_> = pairs.iter().map(|(k, v)| format!("{}={}", k.text, shown(v))).collect();
                format!("{{{}}}", pairs.join(" "))
            }
        }
    }

    fn check(text: &str, expected: &str) {
        match parse(text) {
            Ok(node) => assert_eq!(shown(&node), expected, "{text}"),
            Err(e) => panic!("{text}: {}:{}: {}", e.at.line, e.at.column, e.message),
        }
    }

    fn check_refused(text: &str, line: u32, part: &str) {
        match parse(text) {
            Ok(node) => panic!("{text}: read as {}", shown(&node)),
            Err(e) => {
                assert_eq!(e.at.line, line, "{text}: {}", e.message);
                assert!(e.message.contains(part), "{text}: {:?} lacks {part:?}", e.message);
            }
        }
    }

    #[test]
    fn scalars_keep_what_was_written() {
        for (written, read) in [
            ("22:22", "\"22:22\""),
            ("3.10", "\"3.10\""),
            ("0440", "\"0440\""),
            ("08", "\"08\""),
            ("0x1F", "\"0x1F\""),
            ("1_000", "\"1_000\""),
            ("on", "\"on\""),
            ("yes", "\"yes\""),
            ("True", "\"True\""),
            (".nan", "\".nan\""),
            ("-.inf", "\"-.inf\""),
            ("1e3", "\"1e3\""),
            ("1e999", "\"1e999\""),
            (
                "99999999999999999999999999999999999999999999",
                "\"99999999999999999999999999999999999999999999\"",
            ),
            ("\"3.10\"", "\"3.10\""),
            ("'on'", "\"on\""),
            ("!!str 5", "\"5\""),
            ("~", "null"),
            ("null", "null"),
            ("", "null"),
            ("'null'", "\"null\""),
            ("2024-01-01", "\"2024-01-01\""),
            ("a # comment", "\"a\""),
            ("3.10 # comment", "\"3.10\""),
            ("&x 3.10", "\"3.10\""),
        ] {
            check(&format!("k: {written}\n"), &format!("{{k={read}}}"));
            if !written.is_empty() && !written.contains('#') {
                check(&format!("k: [{written}, {written}]\n"), &format!("{{k=[{read} {read}]}}"));
            }
        }
    }

    #[test]
    fn anchors_and_merge_keys() {
        check(
            "a: &x {k: 1.10, l: 2}\nb:\n  <<: *x\n  l: 3\nc: *x\n",
            "{a={k=\"1.10\" l=\"2\"} b={l=\"3\" k=\"1.10\"} c={k=\"1.10\" l=\"2\"}}",
        );
    }

    #[test]
    fn places_count_from_one() {
        let node = parse("a:\n  b: [1,\n    é, two]\n").unwrap_or_else(|e| panic!("{}", e.message));
        let Value::Map(top) = node.value else { panic!() };
        let Value::Map(inner) = &top[0].1.value else { panic!() };
        assert_eq!(inner[0].0.at, At { line: 2, column: 3 });
        let Value::List(items) = &inner[0].1.value else { panic!() };
        assert_eq!(items[2].at, At { line: 3, column: 8 });
    }

    #[test]
    fn what_is_no_yaml_that_we_take() {
        check_refused("a: 1\nb: 2\na: 3\n", 3, "\"a\" is given twice in the same map; remove one of them");
        check_refused("s:\n  k: [1]\n  k: {x: 1}\n", 3, "\"k\" is given twice");
        check_refused("a: 1\n---\nb: 2\n", 2, "document");
        check_refused("a:\n\tb: 1\n", 2, "tab");
        check_refused("a: *nowhere\n", 1, "unknown anchor");
        check_refused("a: [1, 2\n", 1, "unclosed");
        check_refused("a: !thing 1\n", 1, "tag");
        check_refused("\"a: 1\n", 1, "");
        check_refused(&format!("a: {}{}\n", "[".repeat(100), "]".repeat(100)), 1, "");
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for i in 1..12 {
            let alias = format!("*a{}", i - 1);
            bomb.push_str(&format!("a{i}: &a{i} [{}]\n", vec![alias; 10].join(",")));
        }
        check_refused(&bomb, 6, "");
    }
}
