//! What a reference means: a name, an id, or the beginning of an id.

use std::ops::RangeInclusive;

use model::Id;

use crate::error::MATCHES_SHOWN;
use crate::{Kind, RequestError};

/// The one object that a reference means. `exact` finds by whole id or by name; `prefix` lists the objects whose ids
/// are in a range; `show` names one for a person.
pub(crate) fn one<'t, T, I>(
    kind: Kind,
    reference: &str,
    exact: impl FnOnce(Option<Id>) -> Option<&'t T>,
    prefix: impl FnOnce(RangeInclusive<Id>) -> I,
    show: impl Fn(&T) -> String,
) -> Result<&'t T, RequestError>
where
    I: Iterator<Item = &'t T>,
{
    not_empty(kind, reference)?;
    if let Some(found) = exact(reference.parse().ok()) {
        return Ok(found);
    }
    let mut fits: Vec<&T> = Vec::new();
    if let Some(range) = Id::prefix_range(reference) {
        fits.extend(prefix(range).take(MATCHES_SHOWN + 1));
    }
    match fits[..] {
        [] => Err(not_found(kind, reference)),
        [only] => Ok(only),
        _ => Err(ambiguous(reference, fits.into_iter().map(show))),
    }
}

/// Refuses an empty reference, which would be the beginning of every id.
pub(crate) fn not_empty(kind: Kind, reference: &str) -> Result<(), RequestError> {
    if reference.is_empty() {
        return Err(RequestError::invalid(kind.as_str(), "a name or an id is needed"));
    }
    Ok(())
}

pub(crate) fn not_found(kind: Kind, reference: &str) -> RequestError {
    RequestError::NotFound { kind, reference: reference.chars().take(80).collect() }
}

pub(crate) fn ambiguous(reference: &str, matches: impl Iterator<Item = String>) -> RequestError {
    RequestError::Ambiguous { reference: reference.to_owned(), matches: matches.collect() }
}
