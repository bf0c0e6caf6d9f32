//! Times as people read and write them.

use jiff::Timestamp;
use model::Span;

/// How long ago, or how long until, in the words of docker: `3 minutes`, `about an hour`; small letters,
/// since it stands within sentences.
pub fn human(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours) = (seconds / 60, (seconds + 1800) / 3600);
    match seconds {
        0 => "less than a second".into(),
        1 => "1 second".into(),
        2..60 => format!("{seconds} seconds"),
        60..120 => "about a minute".into(),
        _ if minutes < 60 => format!("{minutes} minutes"),
        _ if hours <= 1 => "about an hour".into(),
        _ if hours < 48 => format!("{hours} hours"),
        _ if hours < 24 * 7 * 2 => format!("{} days", hours / 24),
        _ if hours < 24 * 30 * 2 => format!("{} weeks", hours / 24 / 7),
        _ if hours < 24 * 365 * 2 => format!("{} months", hours / 24 / 30),
        _ => format!("{} years", hours / 24 / 365),
    }
}

/// A moment relative to now: `3 minutes ago`. A text that is no moment is shown as it is.
pub fn ago(text: &str, now: Timestamp) -> String {
    match text.parse::<Timestamp>() {
        Ok(at) => format!("{} ago", human(now.as_second() - at.as_second())),
        Err(_) => text.to_owned(),
    }
}

/// How long until a moment, in whole seconds rounded up: `3s`; `None` when it has passed or is no moment.
pub fn until(text: &str, now: Timestamp) -> Option<String> {
    let at: Timestamp = text.parse().ok()?;
    let nanos = at.as_nanosecond() - now.as_nanosecond();
    let seconds = i64::try_from((nanos + 999_999_999).div_euclid(1_000_000_000)).ok()?;
    (seconds > 0).then(|| Span::from_secs(seconds).to_string())
}

/// A moment as people name it: a duration before now (`10m`), an RFC 3339 time, a date with a time of day or without (in UTC), or
/// seconds since the epoch, with a fraction or without.
///
/// # Errors
/// What is expected, for anything else.
pub fn moment(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let wrong = || {
        format!("{text:?} is not a moment; write for example 10m (ago), 2026-01-31 or 2026-01-31T13:00:00Z")
    };
    if let Some(moment) = epoch(text) {
        return moment.ok_or_else(wrong);
    }
    if let Ok(span) = Span::parse(text) {
        let before = now.as_nanosecond() - i128::from(span.0);
        return Timestamp::from_nanosecond(before).map_err(|_| wrong());
    }
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    let civil: jiff::civil::DateTime = text.parse().map_err(|_| wrong())?;
    jiff::tz::TimeZone::UTC.to_timestamp(civil).map_err(|_| wrong())
}

/// Seconds since the epoch with at most nine digits behind the point. The outer `None`: it is no such number; the inner one: no
/// clock goes there.
fn epoch(text: &str) -> Option<Option<Timestamp>> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    let unsigned = seconds.strip_prefix('-').filter(|_| fraction == "0").unwrap_or(seconds);
    if !digits(unsigned) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let nanos: i32 = format!("{fraction:0<9}").parse().ok()?;
    Some(seconds.parse().ok().and_then(|seconds| Timestamp::new(seconds, nanos).ok()))
}

/// A moment for a stream of lines, with milliseconds, so that columns stay aligned.
pub fn stamp(text: &str) -> String {
    match text.parse::<Timestamp>() {
        Ok(at) => format!("{at:.3}"),
        Err(_) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn spans_in_dockers_words() {
        for (seconds, text) in [
            (-5, "less than a second"),
            (0, "less than a second"),
            (1, "1 second"),
            (59, "59 seconds"),
            (60, "about a minute"),
            (119, "about a minute"),
            (120, "2 minutes"),
            (3599, "59 minutes"),
            (3600, "about an hour"),
            (7200, "2 hours"),
            (47 * 3600, "47 hours"),
            (48 * 3600, "2 days"),
            (13 * 86_400, "13 days"),
            (14 * 86_400, "2 weeks"),
            (60 * 86_400, "2 months"),
            (730 * 86_400, "2 years"),
        ] {
            assert_eq!(human(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn moments() {
        let now = at("2026-01-31T13:00:00Z");
        for (text, moment_at) in [
            ("10m", "2026-01-31T12:50:00Z"),
            ("1.5h", "2026-01-31T11:30:00Z"),
            ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
            ("2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00Z"),
            ("1769864400", "2026-01-31T13:00:00Z"),
            ("1769864400.25", "2026-01-31T13:00:00.25Z"),
            ("2026-01-31", "2026-01-31T00:00:00Z"),
            ("2026-01-31T13:00", "2026-01-31T13:00:00Z"),
            ("2026-01-31 13:00:01.5", "2026-01-31T13:00:01.5Z"),
            ("1969-12-31T23:59:59.5", "1969-12-31T23:59:59.5Z"),
            ("0", "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!(moment(text, now), Ok(at(moment_at)), "{text}");
        }
        for text in ["", "yesterday", "1d", "99999999999999999999", "2026-13-01T00:00:00Z"] {
            assert!(moment(text, now).is_err(), "{text}");
        }
        assert_eq!(ago("2026-01-31T12:57:00Z", now), "3 minutes ago");
        assert_eq!(ago("never", now), "never");
        assert_eq!(until("2026-01-31T13:00:02.1Z", now).as_deref(), Some("3s"));
        assert_eq!(until("2026-01-31T13:00:00Z", now), None);
        assert_eq!(stamp("2026-01-31T13:00:00.1234567Z"), "2026-01-31T13:00:00.123Z");
    }
}
