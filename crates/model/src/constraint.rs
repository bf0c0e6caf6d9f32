//! Placement constraints: `key==value` and `key!=value`, with SwarmKit's rules.
//!
//! Keys are read without regard to case, but the name of a label is exact. Values are compared without
//! regard to case; nothing is a pattern. A missing label counts as empty. A key that no node knows is refused when it
//! is written (SwarmKit accepts it and never matches).

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use crate::{Node, same_arch};

/// One condition that a node must meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// What is looked at.
    pub key: ConstraintKey,
    /// Equal or different.
    pub operator: Operator,
    /// What it is compared with.
    pub value: Arc<str>,
}

/// What a constraint looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstraintKey {
    /// `node.id`
    NodeId,
    /// `node.hostname`
    Hostname,
    /// `node.ip`: an address or a CIDR block.
    Ip,
    /// `node.role`
    Role,
    /// `node.platform.os`
    Os,
    /// `node.platform.arch`
    Arch,
    /// `node.labels.<name>`
    NodeLabel(Arc<str>),
    /// `engine.labels.<name>`
    EngineLabel(Arc<str>),
}

/// Equal or different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `==`
    Equal,
    /// `!=`
    Different,
}

/// Why a text is not a constraint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintError {
    /// No `==` and no `!=`.
    #[error("{0:?} is not a constraint; write key==value or key!=value")]
    NoOperator(String),
    /// Nothing knows this key.
    #[error(
        "{0:?} is not a key of a constraint; known are node.id, node.hostname, node.ip, node.role, node.platform.os, node.platform.arch, node.labels.<name> and engine.labels.<name>"
    )]
    Key(String),
    /// The value is empty or has a character that no value has.
    #[error("{0:?} is not a value that a constraint can compare with")]
    Value(String),
    /// `node.ip` needs an address or a block.
    #[error("{0:?} is neither an IP address nor a CIDR block")]
    Address(String),
    /// `node.role` knows two values.
    #[error("{0:?} is not a role; roles are worker and manager")]
    Role(String),
}

impl FromStr for Constraint {
    type Err = ConstraintError;

    fn from_str(text: &str) -> Result<Self, ConstraintError> {
        let clipped = || text.chars().take(80).collect::<String>();
        let (key, operator, value) = if let Some((k, v)) = text.split_once("==") {
            (k, Operator::Equal, v)
        } else if let Some((k, v)) = text.split_once("!=") {
            (k, Operator::Different, v)
        } else {
            return Err(ConstraintError::NoOperator(clipped()));
        };
        let key = parse_key(key.trim())?;
        let value = value.trim();
        let allowed =
            |c: char| c.is_ascii_alphanumeric() || c.is_whitespace() || ":-_.*()?+[]\\^$/|".contains(c);
        if value.is_empty() || value.len() > 512 || !value.chars().all(allowed) {
            return Err(ConstraintError::Value(value.chars().take(80).collect()));
        }
        if key == ConstraintKey::Ip && parse_block(value).is_none() {
            return Err(ConstraintError::Address(value.into()));
        }
        let is_role = ["worker", "manager"].iter().any(|r| value.eq_ignore_ascii_case(r));
        if key == ConstraintKey::Role && !is_role {
            return Err(ConstraintError::Role(value.into()));
        }
        Ok(Self { key, operator, value: value.into() })
    }
}

impl FromStr for ConstraintKey {
    type Err = ConstraintError;

    fn from_str(text: &str) -> Result<Self, ConstraintError> {
        parse_key(text.trim())
    }
}

fn parse_key(key: &str) -> Result<ConstraintKey, ConstraintError> {
    let unknown = || ConstraintError::Key(key.chars().take(80).collect());
    let lower = key.to_ascii_lowercase();
    for (prefix, engine) in [("node.labels.", false), ("engine.labels.", true)] {
        if lower.starts_with(prefix) {
            let name = &key[prefix.len()..];
            let fine = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
            if name.is_empty() || !name.chars().all(fine) {
                return Err(unknown());
            }
            return Ok(if engine {
                ConstraintKey::EngineLabel(name.into())
            } else {
                ConstraintKey::NodeLabel(name.into())
            });
        }
    }
    match lower.as_str() {
        "node.id" => Ok(ConstraintKey::NodeId),
        "node.hostname" => Ok(ConstraintKey::Hostname),
        "node.ip" => Ok(ConstraintKey::Ip),
        "node.role" => Ok(ConstraintKey::Role),
        "node.platform.os" => Ok(ConstraintKey::Os),
        "node.platform.arch" => Ok(ConstraintKey::Arch),
        _ => Err(unknown()),
    }
}

fn parse_block(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = match text.split_once('/') {
        Some((a, b)) => (a, Some(b)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(width), |b| b.parse().ok().filter(|b| *b <= width))?;
    Some((address, bits))
}

fn inside(address: IpAddr, block: (IpAddr, u8)) -> bool {
    let shift = |width: u32| width - u32::from(block.1);
    match (address, block.0) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let differ = u32::from(a) ^ u32::from(b);
            differ.checked_shr(shift(32)).unwrap_or(0) == 0
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let differ = u128::from(a) ^ u128::from(b);
            differ.checked_shr(shift(128)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

impl Constraint {
    /// True when `node` meets it.
    pub fn holds(&self, node: &Node) -> bool {
        let found = self.key.value_on(node);
        let equal = if self.key == ConstraintKey::Ip {
            // An address that cannot be read matches nothing, whatever the operator.
            let Ok(address) = found.parse() else {
                return false;
            };
            parse_block(&self.value).is_some_and(|block| inside(address, block))
        } else if self.key == ConstraintKey::Arch {
            same_arch(&self.value, &found)
        } else {
            self.value.eq_ignore_ascii_case(&found)
        };
        equal == (self.operator == Operator::Equal)
    }
}

impl ConstraintKey {
    /// What `node` has for this key; empty for a label it does not carry.
    pub fn value_on<'n>(&self, node: &'n Node) -> Cow<'n, str> {
        let label = |labels: &'n crate::Labels, name: &str| labels.get(name).map_or("", |value| value);
        Cow::Borrowed(match self {
            Self::NodeId => return Cow::Owned(node.id.to_string()),
            Self::Hostname => &node.description.hostname,
            Self::Ip => &node.status.address,
            Self::Role => node.role.as_str(),
            Self::Os => &node.description.platform.os,
            Self::Arch => &node.description.platform.arch,
            Self::NodeLabel(name) => label(&node.labels, name),
            Self::EngineLabel(name) => label(&node.description.engine_labels, name),
        })
    }
}

impl fmt::Display for ConstraintKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeId => f.write_str("node.id"),
            Self::Hostname => f.write_str("node.hostname"),
            Self::Ip => f.write_str("node.ip"),
            Self::Role => f.write_str("node.role"),
            Self::Os => f.write_str("node.platform.os"),
            Self::Arch => f.write_str("node.platform.arch"),
            Self::NodeLabel(name) => write!(f, "node.labels.{name}"),
            Self::EngineLabel(name) => write!(f, "engine.labels.{name}"),
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = if self.operator == Operator::Equal { "==" } else { "!=" };
        write!(f, "{}{operator}{}", self.key, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Availability, Description, Labels, Meta, NodeId, NodeStatus, Platform, Role};

    fn node() -> Node {
        Node {
            id: NodeId::from_u128(7),
            meta: Meta::default(),
            role: Role::Worker,
            availability: Availability::Active,
            drain_until: None,
            labels: Labels::from([("Zone".into(), "East 1".into())]),
            description: Arc::new(Description {
                hostname: "alpha".into(),
                platform: Platform { os: "linux".into(), arch: "amd64".into() },
                engine_labels: Labels::from([("os".into(), "ubuntu 14.04".into())]),
                ..Description::default()
            }),
            status: NodeStatus { address: "10.1.2.3".into(), ..NodeStatus::default() },
        }
    }

    #[test]
    fn holds_or_not() {
        for (text, holds) in [
            ("node.labels.Zone==east 1", true),
            (" node.role == worker ", true),
            ("node.role!=manager", true),
            ("NODE.ROLE==Worker", true),
            ("engine.labels.os == ubuntu 14.04", true),
            ("node.labels.zone==East 1", false),
            ("node.labels.absent!=x", true),
            ("node.labels.absent==x", false),
            ("node.hostname==ALPHA", true),
            ("node.platform.arch==amd64", true),
            ("node.platform.arch==x86_64", true),
            ("node.platform.arch!=X86_64", false),
            ("node.platform.arch==aarch64", false),
            ("node.ip==10.0.0.0/8", true),
            ("node.ip==10.1.2.3", true),
            ("node.ip!=10.1.2.4", true),
            ("node.ip==192.168.0.0/16", false),
            ("node.ip==0.0.0.0/0", true),
            ("node.id==0000000000000000000000007", true),
        ] {
            let parsed: Constraint = text.parse().expect(text);
            assert_eq!(parsed.holds(&node()), holds, "{text}");
            assert_eq!(parsed.to_string().parse(), Ok(parsed), "{text}");
        }
    }

    #[test]
    fn refuses_what_cannot_hold() {
        for text in [
            "node.id=x",
            "node.labels.a!=b==c",
            "x==y",
            "node.hostname==",
            "server.type == front",
            "node.ip==300.0.0.1",
            "node.ip==10.0.0.0/33",
            "node.role==boss",
            "node.labels.==x",
            "node.labels.a==b\"c",
            "",
        ] {
            assert!(text.parse::<Constraint>().is_err(), "{text}");
        }
    }
}
