//! Values of the tree, read as what a field needs. Whatever does not fit is a finding with its place and path.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::keys::{self, Kind, Known};
use crate::problem::Findings;
use crate::yaml::{At, Key, Node, Value};

/// A value with the path that leads to it.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    /// The value.
    pub node: &'a Node,
    /// Its path, such as `services.web.ports[0]`.
    pub path: String,
}

impl<'a> Field<'a> {
    /// A field of this path.
    pub fn new(node: &'a Node, path: impl Into<String>) -> Self {
        Self { node, path: path.into() }
    }

    /// The path of a key below `path`.
    pub fn join(path: &str, key: &str) -> String {
        if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
    }

    /// Its place.
    pub fn at(&self) -> At {
        self.node.at
    }

    /// True when nothing is written.
    pub fn is_null(&self) -> bool {
        self.node.value == Value::Null
    }

    /// Refuses this value.
    pub fn refuse(&self, findings: &mut Findings, message: impl Into<String>) {
        findings.refuse(self.at(), self.path.clone(), message);
    }

    fn unfit(&self, findings: &mut Findings, wanted: &str) {
        self.refuse(findings, format!("{wanted} is expected here, not {}", self.node.value.kind()));
    }

    /// A single value as it is written.
    pub fn text(&self, findings: &mut Findings) -> Option<&'a str> {
        match &self.node.value {
            Value::Scalar(text) => Some(text),
            _ => {
                self.unfit(findings, "a single value");
                None
            }
        }
    }

    /// A single value, read by `read`.
    pub fn parsed<T, E: std::fmt::Display>(
        &self,
        findings: &mut Findings,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(findings)?;
        read(text).map_err(|e| self.refuse(findings, e.to_string())).ok()
    }

    /// A whole number.
    pub fn whole<T: FromStr>(&self, findings: &mut Findings) -> Option<T> {
        self.parsed(findings, |text| {
            let fine = text.strip_prefix('+').unwrap_or(text);
            fine.parse().map_err(|_| {
                let clipped: String = text.chars().take(40).collect();
                let negative =
                    clipped.strip_prefix('-').is_some_and(|d| d.bytes().all(|b| b.is_ascii_digit()));
                if negative {
                    format!("{clipped} is negative")
                } else {
                    format!("{clipped:?} is not a whole number that can stand here")
                }
            })
        })
    }

    /// The values of a list.
    pub fn items(&self, findings: &mut Findings) -> Option<Vec<Field<'a>>> {
        match &self.node.value {
            Value::List(items) => {
                let item = |(i, node)| Field::new(node, format!("{}[{i}]", self.path));
                Some(items.iter().enumerate().map(item).collect())
            }
            _ => {
                self.unfit(findings, "a list");
                None
            }
        }
    }

    /// The keys of a map with their values.
    pub fn pairs(&self, findings: &mut Findings) -> Option<Vec<(&'a Key, Field<'a>)>> {
        match &self.node.value {
            Value::Map(pairs) => {
                let pair =
                    |(key, node): &'a (Key, Node)| (key, Field::new(node, Self::join(&self.path, &key.text)));
                Some(pairs.iter().map(pair).collect())
            }
            _ => {
                self.unfit(findings, "a map");
                None
            }
        }
    }

    /// The keys of a map, of which `known` are allowed; keys with nothing behind them are left out.
    pub fn fields(&self, findings: &mut Findings, known: &Known) -> Option<Fields<'a>> {
        let mut fields = BTreeMap::new();
        for (key, field) in self.pairs(findings)? {
            match keys::kind(known, &key.text) {
                Kind::Read if !field.is_null() => {
                    fields.insert(key.text.as_str(), field);
                }
                Kind::Refused(advice) if !field.is_null() => findings.refuse(key.at, field.path, advice),
                Kind::Unknown(message) => findings.refuse(key.at, field.path, message),
                Kind::Read | Kind::Refused(_) | Kind::Extension => {}
            }
        }
        Some(Fields(fields))
    }

    /// Texts by name: a map, or a list of `name=value`. A name without a value is `None`.
    pub fn named_texts(&self, findings: &mut Findings) -> Vec<NamedText<'a>> {
        match &self.node.value {
            Value::Map(_) => {
                let mut texts = Vec::new();
                for (key, field) in self.pairs(findings).unwrap_or_default() {
                    let value = if field.is_null() { None } else { field.text(findings) };
                    if value.is_some() || field.is_null() {
                        texts.push(NamedText { at: key.at, path: field.path, name: &key.text, value });
                    }
                }
                texts
            }
            Value::List(_) => {
                let mut texts: Vec<NamedText<'a>> = Vec::new();
                for field in self.items(findings).unwrap_or_default() {
                    let Some(text) = field.text(findings) else { continue };
                    let (name, value) = match text.split_once('=') {
                        Some((name, value)) => (name, Some(value)),
                        None => (text, None),
                    };
                    if texts.iter().any(|t| t.name == name) {
                        let clipped: String = name.chars().take(40).collect();
                        field.refuse(findings, format!("{clipped:?} is given twice"));
                        continue;
                    }
                    texts.push(NamedText { at: field.at(), path: field.path, name, value });
                }
                texts
            }
            _ => {
                self.unfit(findings, "a map, or a list of name=value,");
                Vec::new()
            }
        }
    }
}

/// A name with a text.
#[derive(Debug)]
pub(crate) struct NamedText<'a> {
    /// Where it is written.
    pub at: At,
    /// Its path.
    pub path: String,
    /// The name.
    pub name: &'a str,
    /// The text; `None` for a name alone.
    pub value: Option<&'a str>,
}

/// The fields of a map by key; keys with nothing behind them are left out.
#[derive(Debug)]
pub(crate) struct Fields<'a>(BTreeMap<&'a str, Field<'a>>);

impl<'a> Fields<'a> {
    /// The field of this key.
    pub fn get(&self, key: &str) -> Option<&Field<'a>> {
        self.0.get(key)
    }

    /// True when the key is written with something behind it.
    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }
}
