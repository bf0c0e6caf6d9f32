//! Why a request is not granted.

use std::fmt;

use model::Invalid;

/// What a request speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A task.
    Task,
    /// A service.
    Service,
    /// A node.
    Node,
    /// A stack.
    Stack,
    /// A task, a service, a node or a stack: what `why` can explain.
    Anything,
}

impl Kind {
    /// The word for one of them.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Service => "service",
            Self::Node => "node",
            Self::Stack => "stack",
            Self::Anything => "task, service, node or stack",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a request is not granted: one sentence each, that says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Nothing answers to the reference.
    #[error("there is no {kind} {reference:?}: give its name, its id or the beginning of its id")]
    NotFound {
        /// What was looked for.
        kind: Kind,
        /// Under which name.
        reference: String,
    },
    /// More than one thing answers to the reference.
    #[error("{reference:?} may mean {}; give more of the id", several(matches))]
    Ambiguous {
        /// The reference.
        reference: String,
        /// The first of them, with kind, name and id.
        matches: Vec<String>,
    },
    /// A field of the request cannot be accepted.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The request does not fit the state the cluster is in.
    #[error("{problem}")]
    Conflict {
        /// The field it is about, if it is about one.
        field: Option<&'static str>,
        /// What does not fit, and what to do.
        problem: String,
    },
    /// This daemon cannot do it now; nothing happened.
    #[error("{0}; nothing was changed, try again")]
    Unavailable(String),
    /// Whether it happened is not known.
    #[error("it is not known whether the change took effect ({0}); look at the state before you try again")]
    OutcomeUnknown(String),
}

impl RequestError {
    /// A field of a request that cannot be accepted.
    pub fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid(Invalid::new(field, problem))
    }

    /// The field that the refusal is about, if it is about one.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Invalid(invalid) => Some(&invalid.field),
            Self::Conflict { field, .. } => *field,
            _ => None,
        }
    }
}

/// How many matches an ambiguity lists.
pub(crate) const MATCHES_SHOWN: usize = 5;

/// `a, b or c`; beyond what is shown, `or more`.
fn several(matches: &[String]) -> String {
    let shown = &matches[..matches.len().min(MATCHES_SHOWN)];
    match shown.split_last() {
        _ if matches.len() > MATCHES_SHOWN => format!("{} or more", shown.join(", ")),
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => shown.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_sentences() {
        let ambiguous = |n: usize| RequestError::Ambiguous {
            reference: "a".into(),
            matches: (0..n).map(|i| format!("service s{i}")).collect(),
        };
        for (error, sentence) in [
            (
                RequestError::NotFound { kind: Kind::Service, reference: "web".into() },
                "there is no service \"web\": give its name, its id or the beginning of its id",
            ),
            (ambiguous(2), "\"a\" may mean service s0 or service s1; give more of the id"),
            (
                ambiguous(6),
                "\"a\" may mean service s0, service s1, service s2, service s3, service s4 or more; give more of the id",
            ),
            (RequestError::invalid("replicas", "-1 is negative"), "replicas: -1 is negative"),
        ] {
            assert_eq!(error.to_string(), sentence);
        }
    }
}
