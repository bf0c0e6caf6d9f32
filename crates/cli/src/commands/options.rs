//! Flags that several commands share, and how their values are read.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use model::{Span, parse_bytes, parse_cpus};
use native_api::types::{Cpus, Size};

use crate::failure::Failure;
use crate::progress;

/// How a command that changes something waits for it.
#[derive(Clone, Debug, Args)]
pub struct WaitFlags {
    /// Do not wait until the services are as they should be.
    #[arg(short, long)]
    pub detach: bool,
    /// Show nothing while waiting.
    #[arg(short, long)]
    pub quiet: bool,
    /// Wait at most so long, then exit with 4; 0 waits for ever. What was asked stays asked.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = span)]
    pub timeout: Span,
}

impl WaitFlags {
    /// What to wait for, as these flags say.
    pub fn wait(&self, services: Vec<(String, String)>, index: u64, look: String) -> progress::Wait {
        let nanos = u64::try_from(self.timeout.0).unwrap_or(0);
        let timeout = (nanos > 0).then(|| Duration::from_nanos(nanos));
        progress::Wait { services, index, timeout, quiet: self.quiet, look }
    }
}

/// How a list is shown.
#[derive(Clone, Debug, Args)]
pub struct ListFlags {
    /// As JSON.
    #[arg(long, conflicts_with = "ids_only")]
    pub json: bool,
    /// Only ids.
    #[arg(short = 'q', long = "quiet")]
    pub ids_only: bool,
    /// Whole ids, nothing cut.
    #[arg(long)]
    pub no_trunc: bool,
    /// Not supported yet.
    #[arg(long, hide = true, value_parser = no_format)]
    format: Option<String>,
}

fn no_format(_: &str) -> Result<String, String> {
    Err("templates are not supported yet; use --json".into())
}

/// What a list shall be narrowed to: values of the same key are alternatives, different keys must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters(BTreeMap<String, Vec<String>>);

impl Filters {
    /// Reads `key=value` texts; only these keys are known.
    ///
    /// # Errors
    /// A text without a value, or a key that is not known.
    pub fn parse(texts: &[String], known: &[&str]) -> Result<Self, Failure> {
        let mut filters = Self::default();
        for text in texts {
            let (key, value) = text
                .split_once('=')
                .ok_or_else(|| Failure::Usage(format!("--filter {text:?} has no value; write KEY=VALUE")))?;
            if !known.contains(&key) {
                let known = known.join(", ");
                return Err(Failure::Usage(format!("--filter does not know {key:?}; known are {known}")));
            }
            filters.0.entry(key.into()).or_default().push(value.into());
        }
        Ok(filters)
    }

    /// True when nothing was asked under the key, or one of its values holds.
    pub fn hold(&self, key: &str, holds: impl Fn(&str) -> bool) -> bool {
        self.0.get(key).is_none_or(|values| values.iter().any(|v| holds(v)))
    }

    /// True when the label filters hold: `key` (there) or `key=value`.
    pub fn hold_labels(&self, key: &str, labels: &BTreeMap<String, String>) -> bool {
        self.hold(key, |wanted| match wanted.split_once('=') {
            Some((name, value)) => labels.get(name).is_some_and(|v| v == value),
            None => labels.contains_key(wanted),
        })
    }
}

/// `NAME=value`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("write NAME=VALUE".into()),
    }
}

/// A label: `NAME=value`, or a name alone for an empty value.
pub fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    if name.is_empty() { Err("write NAME=VALUE".into()) } else { Ok((name.into(), value.into())) }
}

/// A duration that is not negative.
pub fn span(text: &str) -> Result<Span, String> {
    let span = Span::parse(text).map_err(|e| e.to_string())?;
    if span.0 < 0 { Err(format!("{span} is negative")) } else { Ok(span) }
}

/// A size.
pub fn size(text: &str) -> Result<Size, String> {
    parse_bytes(text).map(Size::of).map_err(|e| e.to_string())
}

/// A number of processors.
pub fn cpus(text: &str) -> Result<Cpus, String> {
    parse_cpus(text).map(Cpus::of).map_err(|e| e.to_string())
}

/// A count that is not negative.
pub fn count(text: &str) -> Result<u32, String> {
    match text.parse::<i128>() {
        Ok(n) if n < 0 => Err(format!("{n} is negative")),
        Ok(n) => u32::try_from(n).map_err(|_| format!("{n} is too large")),
        Err(_) => Err(format!("{text:?} is not a whole number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_narrow() {
        let texts = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let filters = Filters::parse(&texts(&["name=a", "name=b", "label=x=1"]), &["name", "label"]).unwrap();
        assert!(filters.hold("name", |v| v == "b") && !filters.hold("name", |v| v == "c"));
        assert!(filters.hold("mode", |_| false));
        let labels = BTreeMap::from([("x".to_owned(), "1".to_owned())]);
        assert!(filters.hold_labels("label", &labels) && !filters.hold_labels("label", &BTreeMap::new()));
        for wrong in ["name", "colour=red"] {
            assert!(matches!(Filters::parse(&texts(&[wrong]), &["name"]), Err(Failure::Usage(_))));
        }
    }

    #[test]
    fn values_say_what_is_wrong() {
        assert_eq!(count("-1").unwrap_err(), "-1 is negative");
        assert_eq!(count("99999999999").unwrap_err(), "99999999999 is too large");
        assert_eq!(count("two").unwrap_err(), "\"two\" is not a whole number");
        assert!(size("12 bananas").unwrap_err().contains("not a size"));
        assert_eq!(span("-5s").unwrap_err(), "-5s is negative");
        assert_eq!(pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(pair("a").is_err() && pair("=b").is_err());
        assert_eq!(label("a"), Ok(("a".into(), String::new())));
    }
}
