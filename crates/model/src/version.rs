//! Versions of what is on a node, and what a constraint asks of them: `>= 1.2, < 2`.
//!
//! Two readings, as in Nomad. Both take `1`, `1.2`, `v1.2.3`, any number of parts (missing ones are 0), a prerelease and a build
//! (`1.2.3-rc.1+abc`, the build is not compared).
//!
//! - [`Reading::Version`]: a prerelease (also without its dash, as in `1.2rc1`) is asked for by name: it meets only comparisons
//!   with a prerelease of the same parts, so `1.3.0-beta1` does not meet `>= 0.6.1`. `~> 1.2.3` is from 1.2.3 up to below 1.3.
//! - [`Reading::Semver`]: the order of Semantic Versioning alone: `1.3.0-beta1` comes after 0.6.1 and before 1.3.0.
//!
//! The crate `semver` wants exactly three parts and has cargo's rules for prereleases, which are neither.

use std::cmp::Ordering;
use std::fmt;

/// How versions are read and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Version,
    Semver,
}

/// A version.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    parts: Vec<u64>,
    /// Its identifiers; none for a release.
    pre: Vec<String>,
}

/// Most parts of a version, and identifiers of its prerelease.
const PARTS: usize = 16;

impl Version {
    fn read(text: &str, reading: Reading) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let (text, build) = text.split_once('+').map_or((text, None), |(t, b)| (t, Some(b)));
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (numbers, pre) = text.split_at(end);
        let pre = match (pre.strip_prefix('-'), reading) {
            (Some(pre), _) => Some(pre),
            (None, _) if pre.is_empty() => None,
            (None, Reading::Version) => Some(pre),
            (None, Reading::Semver) => return None,
        };
        let fine = |c: char| c.is_ascii_alphanumeric() || "-~".contains(c);
        let identifiers = |text: &str| -> Option<Vec<String>> {
            let all: Vec<String> = text.split('.').map(str::to_owned).collect();
            let each = all.iter().all(|one| !one.is_empty() && one.chars().all(fine));
            (each && all.len() <= PARTS).then_some(all)
        };
        if let Some(build) = build {
            identifiers(build)?;
        }
        let parts: Vec<u64> = numbers.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        let pre = pre.map_or(Some(Vec::new()), identifiers)?;
        (parts.len() <= PARTS).then_some(Self { parts, pre })
    }

    fn part(&self, at: usize) -> u64 {
        self.parts.get(at).copied().unwrap_or(0)
    }

    fn same_parts(&self, other: &Self) -> bool {
        (0..self.parts.len().max(other.parts.len())).all(|at| self.part(at) == other.part(at))
    }

    fn compare(&self, other: &Self) -> Ordering {
        let parts = (0..self.parts.len().max(other.parts.len())).map(|at| self.part(at).cmp(&other.part(at)));
        let by_parts = parts.fold(Ordering::Equal, Ordering::then);
        by_parts.then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => compare_pre(&self.pre, &other.pre),
        })
    }
}

/// Identifier by identifier: numbers by value and before texts, texts by their bytes, fewer before more.
fn compare_pre(one: &[String], other: &[String]) -> Ordering {
    let each = one.iter().zip(other).map(|(a, b)| match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    });
    each.fold(Ordering::Equal, Ordering::then).then(one.len().cmp(&other.len()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Different,
    AtLeast,
    AtMost,
    Above,
    Below,
    /// `~>`: at least, and below the next of the part before the last one given.
    Pessimistic,
}

/// With the longest first.
const COMPARISONS: [(&str, Comparison); 8] = [
    (">=", Comparison::AtLeast),
    ("<=", Comparison::AtMost),
    ("!=", Comparison::Different),
    ("~>", Comparison::Pessimistic),
    ("==", Comparison::Equal),
    ("=", Comparison::Equal),
    (">", Comparison::Above),
    ("<", Comparison::Below),
];

/// Comparisons that must all hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Requirement {
    reading: Reading,
    each: Vec<(Comparison, Version, String)>,
}

/// Most comparisons in one constraint.
const EACH: usize = 16;

impl Requirement {
    /// Reads `>= 1.2, < 2`; `None` when it is none.
    pub(crate) fn read(text: &str, reading: Reading) -> Option<Self> {
        let one = |part: &str| {
            let part = part.trim();
            let (sign, comparison) = COMPARISONS.iter().find(|(sign, _)| part.starts_with(sign))?;
            let written = part[sign.len()..].trim();
            let known = reading == Reading::Version || *comparison != Comparison::Pessimistic;
            known.then_some(())?;
            Some((*comparison, Version::read(written, reading)?, written.to_owned()))
        };
        let each: Vec<_> = text.split(',').map(one).collect::<Option<_>>()?;
        (each.len() <= EACH).then_some(Self { reading, each })
    }

    /// True when a version meets every comparison; what is no version meets none.
    pub(crate) fn is_met_by(&self, text: &str) -> bool {
        let Some(found) = Version::read(text, self.reading) else { return false };
        self.each.iter().all(|(comparison, asked, _)| self.holds(*comparison, &found, asked))
    }

    fn holds(&self, comparison: Comparison, found: &Version, asked: &Version) -> bool {
        let order = found.compare(asked);
        let ordered = match comparison {
            Comparison::Equal => return order == Ordering::Equal,
            Comparison::Different => return order != Ordering::Equal,
            Comparison::AtLeast => order != Ordering::Less,
            Comparison::AtMost => order != Ordering::Greater,
            Comparison::Above => order == Ordering::Greater,
            Comparison::Below => order == Ordering::Less,
            Comparison::Pessimistic => {
                let fixed = asked.parts.len().saturating_sub(1);
                let same = (0..fixed).all(|at| found.part(at) == asked.part(at));
                let like = asked.pre.is_empty() || !found.pre.is_empty();
                order != Ordering::Less && same && like
            }
        };
        let comparable = match (found.pre.is_empty(), asked.pre.is_empty()) {
            _ if self.reading == Reading::Semver => true,
            (true, _) => true,
            (false, true) => false,
            (false, false) => found.same_parts(asked),
        };
        ordered && comparable
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (comparison, _, written)) in self.each.iter().enumerate() {
            let sign = COMPARISONS.iter().rev().find(|(_, c)| c == comparison).map_or("", |(sign, _)| sign);
            write!(f, "{}{sign} {written}", if at > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_versions_meet_what() {
        use Reading::{Semver, Version};
        for (reading, asked, found, met) in [
            // A prerelease is asked for by name, or compared like everything else.
            (Version, ">= 0.6.1", "1.3.0-beta1", false),
            (Semver, ">= 0.6.1", "1.3.0-beta1", true),
            (Version, ">= 1.6.0-beta1", "1.7.0-rc1", false),
            (Semver, ">= 1.6.0-beta1", "1.7.0-rc1", true),
            (Version, ">= 1.7.0-beta1", "1.7.0-rc1", true),
            (Version, ">= 1.7.0-beta1", "1.7.0", true),
            (Version, "< 1.7.0", "1.7.0-rc1", false),
            (Semver, "< 1.7.0", "1.7.0-rc1", true),
            (Version, "= 1.7.0-rc1", "1.7.0-rc1", true),
            (Version, "!= 1.7.0", "1.7.0-rc1", true),
            // Parts that are not there are 0; any number of them; more than one comparison.
            (Version, ">= 1.2", "1.2.0", true),
            (Version, "= 1.2", "1.2.0.0", true),
            (Version, "> 1.2", "1.2.0.1", true),
            (Version, ">=1.2,<2", "v1.10", true),
            (Version, ">= 1.2, < 2", "2.0", false),
            (Version, "<= 1.9", "1.10", false),
            (Semver, "== 1.2.3+build5", "1.2.3", true),
            (Version, ">= 4.15", "4.15.0-20-generic", false),
            (Semver, ">= 4.14", "4.15.0-20-generic", true),
            (Version, ">= 1.2rc1", "1.2rc2", true),
            // Up to the part before the last one.
            (Version, "~> 1.2.3", "1.2.9", true),
            (Version, "~> 1.2.3", "1.3.0", false),
            (Version, "~> 1.2", "1.9", true),
            (Version, "~> 1.2", "2.0", false),
            (Version, "~> 1.2.3-rc1", "1.2.3", false),
            // The order of Semantic Versioning's own example.
            (Semver, "> 1.0.0-alpha", "1.0.0-alpha.1", true),
            (Semver, "> 1.0.0-alpha.1", "1.0.0-alpha.beta", true),
            (Semver, "> 1.0.0-beta.2", "1.0.0-beta.11", true),
            (Semver, "> 1.0.0-rc.1", "1.0.0", true),
            // What is no version meets nothing, whatever is asked.
            (Version, ">= 0", "", false),
            (Version, "!= 1", "abc", false),
            (Semver, ">= 0", "1.2rc1", false),
            (Version, ">= 0", "1..2", false),
            (Version, ">= 0", "99999999999999999999", false),
        ] {
            let requirement = Requirement::read(asked, reading).expect(asked);
            assert_eq!(requirement.is_met_by(found), met, "{reading:?} {found} {asked}");
            let written = requirement.to_string();
            let again = Requirement::read(&written, reading).expect("what is written is read");
            assert_eq!(again.to_string(), written, "{asked}");
        }
    }

    #[test]
    fn what_is_no_requirement_is_refused() {
        for text in
            ["", "abc", "1.2", ">=", ">= abc", ">= 1,", ">= 1.2.", "=> 1", ">= 1 < 2", &"> 1,".repeat(20)]
        {
            assert!(Requirement::read(text, Reading::Version).is_none(), "{text}");
        }
        assert!(Requirement::read("~> 1.2", Reading::Semver).is_none());
    }
}
