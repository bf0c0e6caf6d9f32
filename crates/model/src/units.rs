//! Time, spans, sizes and shares of a processor, and the texts people write for them.
//!
//! Times and spans are signed nanoseconds (UTC), sizes are bytes, processors are nano-CPUs.

use std::fmt;
use std::ops::{Add, Sub};

/// The number of a log entry; the cluster's logical time.
pub type Index = u64;

/// A moment: nanoseconds since the Unix epoch, UTC. Zero means "not yet".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub i64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub i64);

/// Why a text is not a duration, size or processor share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a duration as Go and docker write it.
    #[error("{0:?} is not a duration; write for example 300ms, 5s or 1m30s")]
    Span(String),
    /// Not a size as docker writes it.
    #[error("{0:?} is not a size; write for example 512k, 64MiB or 2g")]
    Bytes(String),
    /// Not a share.
    #[error("{0:?} is not a ratio; write a number from 0 to 1, such as 0.25")]
    Ratio(String),
    /// Neither a number of tasks nor a percentage.
    #[error("{0:?} is neither a number of tasks nor a percentage; write for example 2 or 50%")]
    Amount(String),
    /// Not a number of processors.
    #[error("{0:?} is not a number of CPUs; write for example 0.5 or 2")]
    Cpus(String),
}

impl Time {
    /// The earliest moment, also used for "never happened".
    pub const ZERO: Self = Self(0);

    /// The span from `earlier` to `self`; negative if it is later.
    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Time {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of whole nanoseconds in milliseconds.
    pub const fn from_millis(ms: i64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// A span of whole seconds.
    pub const fn from_secs(s: i64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }

    /// Reads a duration as Go and docker write it: `300ms`, `-5s`, `1.5h`, `1m30s`, `0`.
    ///
    /// # Errors
    /// [`UnitError::Span`] for anything else, `1d` included.
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        parse_span(text).ok_or_else(|| UnitError::Span(clip(text)))
    }
}

impl fmt::Display for Span {
    /// As Go prints it: `1h2m3.5s`, `300ms`, `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        let text = if nanos < 1_000 {
            if nanos == 0 { "0s".into() } else { format!("{nanos}ns") }
        } else if nanos < 1_000_000 {
            format!("{}µs", decimal(nanos, 1_000))
        } else if nanos < 1_000_000_000 {
            format!("{}ms", decimal(nanos, 1_000_000))
        } else {
            let (hours, minutes) = (nanos / 3_600_000_000_000, nanos / 60_000_000_000 % 60);
            let seconds = decimal(nanos % 60_000_000_000, 1_000_000_000);
            match (hours, minutes) {
                (0, 0) => format!("{seconds}s"),
                (0, m) => format!("{m}m{seconds}s"),
                (h, m) => format!("{h}h{m}m{seconds}s"),
            }
        };
        f.pad(&format!("{sign}{text}"))
    }
}

/// `value / unit` in decimals without trailing zeros.
fn decimal(value: u64, unit: u64) -> String {
    let (whole, rest) = (value / unit, value % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

fn parse_span(text: &str) -> Option<Span> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(Span::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let nanos: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        total = total.checked_add(scaled(number, nanos)?)?;
        rest = tail;
    }
    let signed = if negative { -total } else { total };
    i64::try_from(signed).ok().map(Span)
}

/// A plain decimal number times `unit`, rounded toward zero; `None` if it is no such number.
fn scaled(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction = &fraction[..fraction.len().min(18)];
    let part: i128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse::<i128>().ok()?.checked_mul(unit)? / 10i128.pow(fraction.len() as u32)
    };
    whole.checked_mul(unit)?.checked_add(part)
}

/// Reads a size as docker does: a number and `b`, `k`, `m`, `g`, `t`, `p` with an optional `b` or `ib`, in
/// any case, all binary (`10m` is 10 MiB); a bare number is bytes.
///
/// # Errors
/// [`UnitError::Bytes`] for anything else, negative sizes included.
pub fn parse_bytes(text: &str) -> Result<i64, UnitError> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let power = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => Some(0),
        "k" | "kb" | "kib" => Some(1),
        "m" | "mb" | "mib" => Some(2),
        "g" | "gb" | "gib" => Some(3),
        "t" | "tb" | "tib" => Some(4),
        "p" | "pb" | "pib" => Some(5),
        _ => None,
    };
    power
        .and_then(|p| scaled(number, 1024i128.pow(p)))
        .and_then(|v| i64::try_from(v).ok())
        .ok_or_else(|| UnitError::Bytes(clip(text)))
}

/// Reads a number of processors (`0.5`, `2`) as nano-CPUs.
///
/// # Errors
/// [`UnitError::Cpus`] for anything else, negative numbers included.
pub fn parse_cpus(text: &str) -> Result<i64, UnitError> {
    scaled(text.trim(), 1_000_000_000)
        .and_then(|v| i64::try_from(v).ok())
        .ok_or_else(|| UnitError::Cpus(clip(text)))
}

/// A size for people: the largest binary unit that keeps it at one or more, up to two decimals.
pub fn format_bytes(bytes: i64) -> String {
    let units = [(50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    for (shift, unit) in units {
        let size = 1i64 << shift;
        if bytes >= size {
            let hundredths = (i128::from(bytes) * 100 / i128::from(size)) as u64;
            return format!("{} {unit}", decimal(hundredths, 100));
        }
    }
    format!("{bytes} B")
}

/// Nano-CPUs as a number of processors: `0.5`, `2`.
pub fn format_cpus(nano: i64) -> String {
    let sign = if nano < 0 { "-" } else { "" };
    format!("{sign}{}", decimal(nano.unsigned_abs(), 1_000_000_000))
}

/// At most 40 characters of what somebody wrote, for an error message.
fn clip(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_as_go_reads_them() {
        for (text, nanos) in [
            ("0", 0),
            ("5s", 5_000_000_000),
            ("-5s", -5_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("1m30s", 90_000_000_000),
            ("300ms", 300_000_000),
            ("1us", 1_000),
            (".5s", 500_000_000),
        ] {
            assert_eq!(Span::parse(text), Ok(Span(nanos)), "{text}");
        }
        for text in ["", "5", "1d", "s", "5 s", "1.2.3s", "-", "9999999h", "5sx", "."] {
            assert!(Span::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_as_go_prints_them() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (300_000_000, "300ms"),
            (5_000_000_000, "5s"),
            (90_000_000_000, "1m30s"),
            (3_600_000_000_000, "1h0m0s"),
            (-1_500_000_000, "-1.5s"),
        ] {
            assert_eq!(Span(nanos).to_string(), text);
            assert_eq!(Span::parse(text), Ok(Span(nanos)));
        }
    }

    #[test]
    fn sizes_are_binary_as_in_docker() {
        for (text, bytes) in [
            ("0", 0),
            ("64kb", 65_536),
            ("10m", 10 << 20),
            ("64MiB", 64 << 20),
            ("1.5g", 3 << 29),
            ("2 GB", 2 << 30),
            ("100b", 100),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "12 bananas", "-1m", "1e3", "g", "9999999999999g"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_for_people() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1 << 30, "1 GiB"), (3 << 29, "1.5 GiB")]
        {
            assert_eq!(format_bytes(bytes), text);
        }
    }

    #[test]
    fn cpus_are_decimal() {
        for (text, nano) in [("0.5", 500_000_000), ("2", 2_000_000_000), (".25", 250_000_000)] {
            assert_eq!(parse_cpus(text), Ok(nano), "{text}");
        }
        for text in ["", "-1", "two", "1.5.1", "1e9"] {
            assert!(parse_cpus(text).is_err(), "{text}");
        }
        assert_eq!(format_cpus(1_500_000_000), "1.5");
    }
}
