//! Variables in values: `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME-default}`, `${NAME:?error}`,
//! `${NAME?error}`, `${NAME:+other}`, `${NAME+other}`, and `$$` for a dollar sign, as docker reads them.
//!
//! Defaults may have variables of their own. The walk over the tree expands values, never keys, and only those that
//! are used: what stands under `x-` at the top is expanded where an alias uses it.

use std::collections::{BTreeMap, BTreeSet};

use model::limits;

use crate::problem::Findings;
use crate::reader::Field;
use crate::yaml::{At, Node, Value};

/// How deep defaults may nest.
const DEPTH: usize = 16;

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable { name: String, or: Or },
}

/// What a variable stands for when it is not set, or (with a colon: `empty` too) empty.
#[derive(Debug, PartialEq, Eq)]
enum Or {
    /// Nothing is said: empty, with a warning.
    Empty,
    /// `-`
    Default { empty_too: bool, word: Vec<Piece> },
    /// `?`
    Refuse { empty_too: bool, word: Vec<Piece> },
    /// `+`: the word when it is set, else nothing.
    Other { empty_too: bool, word: Vec<Piece> },
}

/// The names of the variables that a text mentions.
pub(crate) fn names(text: &str, names: &mut BTreeSet<String>) {
    fn walk(pieces: &[Piece], names: &mut BTreeSet<String>) {
        for piece in pieces {
            if let Piece::Variable { name, or } = piece {
                names.insert(name.clone());
                match or {
                    Or::Empty => {}
                    Or::Default { word, .. } | Or::Refuse { word, .. } | Or::Other { word, .. } => {
                        walk(word, names);
                    }
                }
            }
        }
    }
    if let Ok(pieces) = parse(text, 0) {
        walk(&pieces, names);
    }
}

fn parse(text: &str, depth: usize) -> Result<Vec<Piece>, String> {
    if depth > DEPTH {
        return Err(format!("defaults are nested deeper than {DEPTH}"));
    }
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        plain.push_str(&rest[..dollar]);
        let after = &rest[dollar + 1..];
        if let Some(tail) = after.strip_prefix('$') {
            plain.push('$');
            rest = tail;
            continue;
        }
        let (variable, tail) = match after.strip_prefix('{') {
            Some(inside) => braced(inside, depth)?,
            None => {
                let (name, tail) = split_name(after);
                if name.is_empty() {
                    return Err("a $ stands before no name; write $$ for a dollar sign".into());
                }
                (Piece::Variable { name: name.to_owned(), or: Or::Empty }, tail)
            }
        };
        if !plain.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
        }
        pieces.push(variable);
        rest = tail;
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Ok(pieces)
}

/// What stands between `${` and its `}`, and what comes after.
fn braced(inside: &str, depth: usize) -> Result<(Piece, &str), String> {
    let end = closing_brace(inside).ok_or("a ${ is not closed; write $$ for a dollar sign")?;
    let (body, tail) = (&inside[..end], &inside[end + 1..]);
    let (name, operator) = split_name(body);
    if name.is_empty() {
        return Err(format!("${{{body}}} has no name; write $$ for a dollar sign"));
    }
    let (empty_too, sign) = match operator.strip_prefix(':') {
        Some(sign) => (true, sign),
        None => (false, operator),
    };
    let mut sign_chars = sign.chars();
    let kind = sign_chars.next();
    let word = || parse(sign_chars.as_str(), depth + 1);
    let or = match kind {
        None if !empty_too => Or::Empty,
        Some('-') => Or::Default { empty_too, word: word()? },
        Some('?') => Or::Refuse { empty_too, word: word()? },
        Some('+') => Or::Other { empty_too, word: word()? },
        _ => {
            return Err(format!(
                "${{{body}}} is not understood; write ${{NAME}}, ${{NAME:-default}}, ${{NAME:?error}} or ${{NAME:+other}}"
            ));
        }
    };
    Ok((Piece::Variable { name: name.to_owned(), or }, tail))
}

fn closing_brace(inside: &str) -> Option<usize> {
    let bytes = inside.as_bytes();
    let (mut open, mut i) = (0usize, 0usize);
    while i < bytes.len() {
        match (bytes[i], bytes.get(i + 1)) {
            (b'$', Some(b'$')) => i += 1,
            (b'$', Some(b'{')) => {
                open += 1;
                i += 1;
            }
            (b'}', _) if open == 0 => return Some(i),
            (b'}', _) => open -= 1,
            _ => {}
        }
        i += 1;
    }
    None
}

fn split_name(text: &str) -> (&str, &str) {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    if !text.starts_with(first) {
        return ("", text);
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    text.split_at(end)
}

/// Expands values; counts how much text comes of it, so that variables cannot blow a small file up.
pub(crate) struct Expander<'a> {
    vars: &'a BTreeMap<String, String>,
    told: BTreeSet<String>,
    bytes: usize,
    full_told: bool,
}

impl<'a> Expander<'a> {
    /// With these variables.
    pub fn new(vars: &'a BTreeMap<String, String>) -> Self {
        Self { vars, told: BTreeSet::new(), bytes: 0, full_told: false }
    }

    /// The tree under `node` with its variables replaced.
    pub fn expand(&mut self, node: &Node, path: &str, findings: &mut Findings) -> Node {
        let value = match &node.value {
            Value::Null => Value::Null,
            Value::Scalar(text) if text.contains('$') => {
                Value::Scalar(self.expand_text(text, node.at, path, findings))
            }
            Value::Scalar(text) => Value::Scalar(text.clone()),
            Value::List(items) => {
                let item = |(i, n)| self.expand(n, &format!("{path}[{i}]"), findings);
                Value::List(items.iter().enumerate().map(item).collect())
            }
            Value::Map(pairs) => {
                let pair = |(key, n): &(crate::yaml::Key, Node)| {
                    (key.clone(), self.expand(n, &Field::join(path, &key.text), findings))
                };
                Value::Map(pairs.iter().map(pair).collect())
            }
        };
        Node { at: node.at, value }
    }

    fn expand_text(&mut self, text: &str, at: At, path: &str, findings: &mut Findings) -> String {
        let mut expanded = String::new();
        let done = parse(text, 0).and_then(|pieces| {
            self.append(&pieces, &mut expanded, &mut |name| {
                findings.warn(at, path, format!("the variable {name} is not set and counts as empty"));
            })
        });
        match done {
            // Told once: everything after it is too much as well.
            Err(_) if std::mem::replace(&mut self.full_told, self.bytes > limits::SPEC_BYTES) => {}
            Err(message) => findings.refuse(at, path, message),
            Ok(()) => {}
        }
        expanded
    }

    fn append(
        &mut self,
        pieces: &[Piece],
        out: &mut String,
        warn: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.push(text, out)?,
                Piece::Variable { name, or } => self.append_variable(name, or, out, warn)?,
            }
        }
        Ok(())
    }

    fn append_variable(
        &mut self,
        name: &str,
        or: &Or,
        out: &mut String,
        warn: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        let vars = self.vars;
        let set = vars.get(name).map(String::as_str);
        let counts = |empty_too: bool| set.filter(|v| !(empty_too && v.is_empty()));
        match or {
            Or::Empty => {
                if set.is_none() && self.told.insert(name.to_owned()) {
                    warn(name);
                }
                self.push(set.unwrap_or_default(), out)
            }
            Or::Default { empty_too, word } => match counts(*empty_too) {
                Some(value) => self.push(value, out),
                None => self.append(word, out, warn),
            },
            Or::Other { empty_too, word } => match counts(*empty_too) {
                Some(_) => self.append(word, out, warn),
                None => Ok(()),
            },
            Or::Refuse { empty_too, word } => match counts(*empty_too) {
                Some(value) => self.push(value, out),
                None => {
                    let mut said = String::new();
                    self.append(word, &mut said, warn)?;
                    let colon = if said.is_empty() { "" } else { ": " };
                    Err(format!("the variable {name} is needed and not set{colon}{said}"))
                }
            },
        }
    }

    fn push(&mut self, text: &str, out: &mut String) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > limits::SPEC_BYTES {
            return Err(format!("with its variables the text has more than {} bytes", limits::SPEC_BYTES));
        }
        out.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> Result<(String, usize), String> {
        let set = |(k, v): (&str, &str)| (k.to_owned(), v.to_owned());
        let vars = BTreeMap::from([("A", "one"), ("EMPTY", ""), ("D", "$B")].map(set));
        let mut findings = Findings::new("f");
        let out = Expander::new(&vars).expand_text(text, At::START, "p", &mut findings);
        match findings.problems.first() {
            Some(p) => Err(p.message.clone()),
            None => Ok((out, findings.warnings.len())),
        }
    }

    #[test]
    fn variables_as_docker_reads_them() {
        for (text, out, warnings) in [
            ("plain", "plain", 0),
            ("$A", "one", 0),
            ("${A}", "one", 0),
            ("x${A}y$A.z", "xoney\u{6f}ne.z", 0),
            ("$$A", "$A", 0),
            ("$$$A", "$one", 0),
            ("a$$", "a$", 0),
            ("$${A}", "${A}", 0),
            ("$B", "", 1),
            ("${B}${B}", "", 1),
            ("${B:-x}", "x", 0),
            ("${B-x}", "x", 0),
            ("${EMPTY:-x}", "x", 0),
            ("${EMPTY-x}", "", 0),
            ("${A:-x}", "one", 0),
            ("${B:-}", "", 0),
            ("${B:-a:b}", "a:b", 0),
            ("${B:-${A}}", "one", 0),
            ("${B:-${C:-deep}}!", "deep!", 0),
            ("${B:-$$}", "$", 0),
            ("${A:+x}", "x", 0),
            ("${B:+x}", "", 0),
            ("${EMPTY:+x}", "", 0),
            ("${EMPTY+x}", "x", 0),
            ("${A:?no}", "one", 0),
            ("${EMPTY?no}", "", 0),
            // What a variable stands for is not read again.
            ("$D", "$B", 0),
            ("${B:-/srv/é}", "/srv/é", 0),
        ] {
            assert_eq!(expand(text), Ok((out.to_owned(), warnings)), "{text}");
        }
    }

    #[test]
    fn what_is_no_variable() {
        for (text, part) in [
            ("$", "write $$"),
            ("$ x", "write $$"),
            ("$1", "write $$"),
            ("${", "not closed"),
            ("${A", "not closed"),
            ("${}", "no name"),
            ("${1A}", "no name"),
            ("${A:}", "not understood"),
            ("${A:x}", "not understood"),
            ("${A!}", "not understood"),
            ("${é}", "no name"),
            ("${B:?}", "B is needed and not set"),
            ("${B:?set it to $A}", "B is needed and not set: set it to one"),
            ("${EMPTY:?no}", "EMPTY is needed"),
        ] {
            let message = expand(text).expect_err(text);
            assert!(message.contains(part), "{text}: {message}");
        }
        let deep = format!("{}x{}", "${B:-".repeat(100), "}".repeat(100));
        assert!(expand(&deep).unwrap_err().contains("nested"));
    }

    #[test]
    fn names_of_every_branch() {
        let mut found = BTreeSet::new();
        names("$A ${B:-${C}} ${D:?$E} $$F ${G:+$H}", &mut found);
        assert_eq!(found.into_iter().collect::<String>(), "ABCDEGH");
    }
}
