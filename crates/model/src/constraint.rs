//! Placement constraints: `key==value` and `key!=value`, with SwarmKit's rules; `key version >= 1.2` and
//! `key semver >= 1.2.0`, with Nomad's; and `distinct_hosts`.
//!
//! Keys are read without regard to case, but the name of a label is exact. Values are compared without
//! regard to case; nothing is a pattern. A missing label counts as empty. A key that no node knows is refused when it
//! is written (SwarmKit accepts it and never matches).

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use crate::version::{Reading, Requirement};
use crate::{Node, same_arch};

/// One condition that a node must meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// What is looked at.
    pub key: ConstraintKey,
    /// How it is compared.
    pub operator: Operator,
    /// What it is compared with.
    pub value: Arc<str>,
    /// The value as it is asked of versions; read once, because every node is asked. `None` when it compares no versions, or
    /// is none that can be met.
    asked: Option<Arc<Requirement>>,
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
    /// `distinct_hosts`: not about a node by itself, but that no node has two tasks of the service.
    DistinctHosts,
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `==`
    Equal,
    /// `!=`
    Different,
    /// `version`: the value is comparisons such as `>= 1.2, < 2`; a prerelease meets only one with a prerelease of the same version.
    Version,
    /// `semver`: likewise, by the order of Semantic Versioning.
    Semver,
}

/// Why a text is not a constraint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintError {
    /// No `==` and no `!=`.
    #[error(
        "{0:?} is not a constraint; write key==value, key!=value, key version >= 1.2, key semver >= 1.2.0 or distinct_hosts"
    )]
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
    /// What is asked of a version cannot be read.
    #[error(
        "{0:?} is not what can be asked of a version; write for example >= 1.2, or >= 1.2, < 2 (known are = != > >= < <= and, for version, ~>)"
    )]
    Version(String),
    /// `distinct_hosts` knows two values.
    #[error(
        "{0:?} is neither true nor false; write distinct_hosts, distinct_hosts==true or distinct_hosts==false"
    )]
    DistinctHosts(String),
    /// `node.role` knows two values.
    #[error("{0:?} is not a role; roles are worker and manager")]
    Role(String),
}

impl FromStr for Constraint {
    type Err = ConstraintError;

    fn from_str(text: &str) -> Result<Self, ConstraintError> {
        let clipped = || text.chars().take(80).collect::<String>();
        if let Some((key, operator, asked)) = split_version(text.trim()) {
            return of_version(parse_key(key)?, operator, asked);
        }
        if text.trim().eq_ignore_ascii_case(DISTINCT_HOSTS) {
            return distinct_hosts("true");
        }
        let (key, operator, value) = if let Some((k, v)) = text.split_once("==") {
            (k, Operator::Equal, v)
        } else if let Some((k, v)) = text.split_once("!=") {
            (k, Operator::Different, v)
        } else {
            return Err(ConstraintError::NoOperator(clipped()));
        };
        if key.trim().eq_ignore_ascii_case(DISTINCT_HOSTS) {
            let written = if operator == Operator::Equal { value.trim() } else { text.trim() };
            return distinct_hosts(written);
        }
        let key = parse_key(key.trim())?;
        let value = value.trim();
        let allowed =
            |c: char| c.is_ascii_alphanumeric() || c.is_whitespace() || ":-_.*()?+[]\\^$/|".contains(c);
        if value.is_empty() || value.len() > VALUE_LEN || !value.chars().all(allowed) {
            return Err(ConstraintError::Value(value.chars().take(80).collect()));
        }
        if key == ConstraintKey::Ip && parse_block(value).is_none() {
            return Err(ConstraintError::Address(value.into()));
        }
        let is_role = ["worker", "manager"].iter().any(|r| value.eq_ignore_ascii_case(r));
        if key == ConstraintKey::Role && !is_role {
            return Err(ConstraintError::Role(value.into()));
        }
        Ok(Self::of(key, operator, value.into()))
    }
}

/// What asks for at most one task of a service on a node.
const DISTINCT_HOSTS: &str = "distinct_hosts";

fn distinct_hosts(value: &str) -> Result<Constraint, ConstraintError> {
    let word = ["true", "false"].into_iter().find(|word| value.eq_ignore_ascii_case(word));
    let word = word.ok_or_else(|| ConstraintError::DistinctHosts(value.chars().take(80).collect()))?;
    Ok(Constraint::of(ConstraintKey::DistinctHosts, Operator::Equal, word.into()))
}

/// The parts of `key version >= 1.2`: no key has a space, and no value begins with one of these words and a comparison.
fn split_version(text: &str) -> Option<(&str, Operator, &str)> {
    let (key, rest) = text.split_once(char::is_whitespace)?;
    let rest = rest.trim_start();
    [("version", Operator::Version), ("semver", Operator::Semver)].into_iter().find_map(|(word, operator)| {
        let asked =
            rest.get(..word.len()).filter(|w| w.eq_ignore_ascii_case(word)).map(|_| &rest[word.len()..])?;
        let ends = asked.is_empty() || asked.starts_with(|c: char| c.is_whitespace() || "<>=!~".contains(c));
        ends.then_some((key, operator, asked.trim()))
    })
}

fn of_version(key: ConstraintKey, operator: Operator, asked: &str) -> Result<Constraint, ConstraintError> {
    let refused = || ConstraintError::Version(asked.chars().take(80).collect());
    let requirement = operator.reading().and_then(|reading| Requirement::read(asked, reading));
    // As it is compared, so that equal constraints are equal texts.
    let requirement = requirement.ok_or_else(refused)?;
    let value = requirement.to_string();
    if value.len() > VALUE_LEN {
        return Err(refused());
    }
    Ok(Constraint { key, operator, value: value.into(), asked: Some(Arc::new(requirement)) })
}

/// Longest value of a constraint, in bytes.
const VALUE_LEN: usize = 512;

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
    /// A constraint of these parts, as they stand: nothing is checked. One that compares versions with what is no
    /// requirement holds nowhere.
    pub fn of(key: ConstraintKey, operator: Operator, value: Arc<str>) -> Self {
        let asked = operator.reading().and_then(|reading| Requirement::read(&value, reading)).map(Arc::new);
        Self { key, operator, value, asked }
    }

    /// True when `node` meets it by itself; what it asks of several tasks on one node is no matter of the node.
    pub fn holds(&self, node: &Node) -> bool {
        if self.key == ConstraintKey::DistinctHosts {
            return true;
        }
        let found = self.key.value_on(node);
        if self.operator.reading().is_some() {
            return self.asked.as_ref().is_some_and(|asked| asked.is_met_by(&found));
        }
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

impl Operator {
    /// How versions are read, when it compares any.
    fn reading(self) -> Option<Reading> {
        match self {
            Self::Equal | Self::Different => None,
            Self::Version => Some(Reading::Version),
            Self::Semver => Some(Reading::Semver),
        }
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
            Self::DistinctHosts => "",
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
            Self::DistinctHosts => f.write_str(DISTINCT_HOSTS),
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = match self.operator {
            Operator::Equal => "==",
            Operator::Different => "!=",
            Operator::Version => " version ",
            Operator::Semver => " semver ",
        };
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
            labels: Labels::from([("Zone".into(), "East 1".into()), ("kernel".into(), "1.3.0-beta1".into())]),
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
            // Outer spaces are trimmed, inner ones belong to the value; keys without regard to case, names of labels exactly.
            ("  engine.labels.OS==ubuntu 14.04", false),
            ("engine.labels.os==ubuntu  14.04", false),
            ("Node.Labels.Zone == EAST 1", true),
            ("node.ip==10.0.0.0/8", true),
            ("node.labels.kernel version >= 0.6.1", false),
            ("node.labels.kernel semver>= 0.6.1", true),
            ("NODE.labels.kernel VERSION>=1.3.0-alpha", true),
            ("node.labels.kernel version >= 1.2, < 2", false),
            ("node.labels.kernel semver >= 1.2, < 2", true),
            ("node.labels.absent version >= 0", false),
            ("node.labels.Zone version >= 0", false),
            ("distinct_hosts", true),
            ("distinct_hosts == TRUE", true),
            ("Distinct_Hosts==false", true),
        ] {
            let parsed: Constraint = text.parse().expect(text);
            assert_eq!(parsed.holds(&node()), holds, "{text}");
            assert_eq!(parsed.to_string().parse(), Ok(parsed), "{text}");
        }
    }

    #[test]
    fn an_unknown_key_is_answered_with_those_that_are_known() {
        let said = "server.type == front".parse::<Constraint>().map_err(|e| e.to_string()).unwrap_err();
        for part in ["server.type", "node.labels.<name>", "engine.labels.<name>", "node.role"] {
            assert!(said.contains(part), "{said}");
        }
        assert!("distinct_hosts".parse::<ConstraintKey>().is_err(), "nothing can be spread over it");
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
            "node.labels.a=>b",
            "node.labels.a~=b",
            "node.labels.a regexp [",
            "node.labels.a version abc",
            "node.labels.a version",
            "node.labels.a version >= 1 < 2",
            "node.labels.a semver ~> 1.2",
            "server.type version >= 1",
            "distinct_hosts==maybe",
            "distinct_hosts!=true",
            "distinct_hosts==",
            "distinct_hosts version >= 1",
            "",
        ] {
            assert!(text.parse::<Constraint>().is_err(), "{text}");
        }
    }
}
