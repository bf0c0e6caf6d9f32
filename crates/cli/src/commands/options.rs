//! Flags that several commands share, and how their values are read.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{ArgAction, Args};
use model::{Span, parse_bytes, parse_cpus};
use native_api::types::{Cpus, Size};

use crate::failure::Failure;
use crate::progress;

/// How a command that changes something waits for it.
#[derive(Clone, Debug, Args)]
pub struct WaitFlags {
    /// Do not wait until the services are as they should be.
    #[arg(short, long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set)]
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

    /// Takes what was waited already from the time that is left.
    pub fn spend(&mut self, spent: Duration) {
        // 0 would mean for ever; what has run out has no time left, and that is the shortest there is.
        if self.timeout.0 > 0 {
            let spent = i64::try_from(spent.as_nanos()).unwrap_or(i64::MAX);
            self.timeout = Span(self.timeout.0.saturating_sub(spent).max(1));
        }
    }
}

/// Flags of docker's about registries. A process has no image, so that there is nothing that they could change.
#[derive(Clone, Debug, Default, Args)]
pub struct RegistryFlags {
    /// Nothing to do: there is no registry.
    #[arg(long, hide = true, default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set)]
    with_registry_auth: bool,
    /// Nothing to do: there is no image.
    #[arg(long, hide = true, default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set)]
    no_resolve_image: bool,
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
    fn time_that_was_waited_is_spent() {
        let flags = |seconds| WaitFlags { detach: false, quiet: false, timeout: Span::from_secs(seconds) };
        for (seconds, spent, left) in [(10, 4, Span::from_secs(6)), (10, 11, Span(1)), (0, 4, Span::ZERO)] {
            let mut flags = flags(seconds);
            flags.spend(Duration::from_secs(spent));
            assert_eq!(flags.timeout, left, "{seconds} {spent}");
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
