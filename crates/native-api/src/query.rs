//! Query parameters, strictly: what a route does not know is refused, and so is what is said twice.

use jiff::Timestamp;
use model::{Span, Time};

use crate::errors::ApiError;
use crate::routes::Param;

/// The query parameters of a request, each known to its route.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pairs: Vec<(&'static str, String)>,
}

impl Query {
    /// Reads the part of a target after the question mark.
    pub(crate) fn parse(text: &str, known: &'static [Param]) -> Result<Self, ApiError> {
        let mut pairs: Vec<(&'static str, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            let Some(param) = known.iter().find(|p| p.name == name) else {
                let shown: String = name.chars().take(40).collect();
                return Err(ApiError::invalid(shown, unknown(known)));
            };
            if !param.many && pairs.iter().any(|(n, _)| *n == param.name) {
                return Err(ApiError::invalid(param.name, "is given twice"));
            }
            pairs.push((param.name, value.into_owned()));
        }
        Ok(Self { pairs })
    }

    /// The value of a parameter, if it is given.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_str())
    }

    /// Every value of a parameter; a value may hold several, with commas between.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.pairs.iter().filter(move |(n, _)| *n == name).flat_map(|(_, value)| value.split(','))
    }

    /// A whole number from 0.
    pub(crate) fn number(&self, name: &'static str) -> Result<Option<u64>, ApiError> {
        let read = |text: &str| {
            text.parse()
                .map_err(|_| ApiError::invalid(name, format!("{text:?} is not a whole number from 0")))
        };
        self.get(name).map(read).transpose()
    }

    /// `true` or `false`; a parameter without a value is true.
    pub(crate) fn boolean(&self, name: &'static str) -> Result<bool, ApiError> {
        match self.get(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1" | "") => Ok(true),
            Some(other) => Err(ApiError::invalid(name, format!("{other:?} is neither true nor false"))),
        }
    }

    /// A duration as Go writes it.
    pub(crate) fn span(&self, name: &'static str) -> Result<Option<Span>, ApiError> {
        let read = |text| Span::parse(text).map_err(|e| ApiError::invalid(name, e.to_string()));
        self.get(name).map(read).transpose()
    }
}

fn unknown(known: &[Param]) -> String {
    let names: Vec<&str> = known.iter().map(|p| p.name).collect();
    match names[..] {
        [] => "is not a parameter here; there are none".into(),
        _ => format!("is not a parameter here; known are {}", names.join(", ")),
    }
}

/// A moment, or how long ago: the value of the parameter `field`.
///
/// # Errors
/// What is expected, for anything else.
pub(crate) fn moment(field: &'static str, text: &str, now: Time) -> Result<Time, ApiError> {
    if let Ok(span) = Span::parse(text) {
        return Ok(now - span);
    }
    let moment = text.parse::<Timestamp>().ok().or_else(|| {
        // A date, or a date with a time of day: in UTC.
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        jiff::tz::TimeZone::UTC.to_timestamp(civil).ok()
    });
    // Our clock ends in the year 2262: beyond that there is nothing either.
    let moment = moment.map(|t| {
        let nanos = t.as_nanosecond().clamp(i64::MIN.into(), i64::MAX.into());
        i64::try_from(nanos).unwrap_or(i64::MAX)
    });
    moment.map(Time).ok_or_else(|| {
        let problem =
            format!("{text:?} is neither a moment such as 2027-01-15T08:00:00Z nor a duration such as 10m");
        ApiError::invalid(field, problem)
    })
}
