//! One record of a log, from bytes and to bytes.

/// The most text that one record carries, in bytes; longer lines are split. Docker's value.
pub const MAX_TEXT_BYTES: usize = 16 * 1024;
/// What stands before the text, at most: timestamp, stream, letter and three blanks.
pub(crate) const MAX_HEAD_BYTES: usize = 41;
const STAMP_BYTES: usize = 30;
const SECOND_NS: i64 = 1_000_000_000;

/// Which of its two outputs a program wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogStreamName {
    /// Descriptor 1.
    Stdout,
    /// Descriptor 2; also what the supervisor itself has to say, e.g. that output was lost.
    Stderr,
}

/// A line that a program wrote, or a piece of a long one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// When it was read from the program, in nanoseconds since 1970, UTC. Rises strictly within one log.
    pub at_unix_ns: i64,
    /// Where it was written to.
    pub stream: LogStreamName,
    /// Whether the line goes on in the next record of this stream.
    pub partial: bool,
    /// The bytes, without the line's end.
    pub text: Vec<u8>,
}

impl LogStreamName {
    /// `stdout` or `stderr`.
    pub fn as_str(self) -> &'static str {
        match self {
            LogStreamName::Stdout => "stdout",
            LogStreamName::Stderr => "stderr",
        }
    }
}

/// Appends one record with its newline.
pub(crate) fn write_record(
    out: &mut Vec<u8>,
    at_unix_ns: i64,
    stream: LogStreamName,
    partial: bool,
    text: &[u8],
) {
    write_stamp(out, at_unix_ns);
    out.push(b' ');
    out.extend_from_slice(stream.as_str().as_bytes());
    out.extend_from_slice(if partial { b" P " } else { b" F " });
    out.extend_from_slice(text);
    out.push(b'\n');
}

/// Reads one line without its newline. `None` for what is no record, e.g. one torn by a full disk.
pub(crate) fn parse_record(line: &[u8]) -> Option<LogRecord> {
    let (at_unix_ns, stream, partial, text) = parse_head(line)?;
    Some(LogRecord { at_unix_ns, stream, partial, text: text.to_vec() })
}

/// As [`parse_record`], with the text still in place.
pub(crate) fn parse_head(line: &[u8]) -> Option<(i64, LogStreamName, bool, &[u8])> {
    let at_unix_ns = parse_stamp(line.get(..STAMP_BYTES)?)?;
    let rest = line.get(STAMP_BYTES..)?;
    let (stream, rest) = if let Some(rest) = rest.strip_prefix(b" stdout ") {
        (LogStreamName::Stdout, rest)
    } else {
        (LogStreamName::Stderr, rest.strip_prefix(b" stderr ")?)
    };
    if let Some(text) = rest.strip_prefix(b"F ") {
        return Some((at_unix_ns, stream, false, text));
    }
    Some((at_unix_ns, stream, true, rest.strip_prefix(b"P ")?))
}

fn write_stamp(out: &mut Vec<u8>, at_unix_ns: i64) {
    let seconds = at_unix_ns.div_euclid(SECOND_NS);
    let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
    let second = seconds.rem_euclid(86_400);
    let parts = [
        (year, 4, b'-'),
        (month, 2, b'-'),
        (day, 2, b'T'),
        (second / 3600, 2, b':'),
        (second / 60 % 60, 2, b':'),
        (second % 60, 2, b'.'),
        (at_unix_ns.rem_euclid(SECOND_NS), 9, b'Z'),
    ];
    for (value, digits, after) in parts {
        let start = out.len();
        out.resize(start + digits, b'0');
        let mut rest = value;
        for place in (start..start + digits).rev() {
            out[place] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        out.push(after);
    }
}

fn parse_stamp(stamp: &[u8]) -> Option<i64> {
    let number = |from: usize, to: usize| {
        stamp[from..to]
            .iter()
            .try_fold(0i64, |value, b| b.is_ascii_digit().then(|| value * 10 + i64::from(b - b'0')))
    };
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (29, b'Z')];
    if marks.iter().any(|(at, mark)| stamp[*at] != *mark) {
        return None;
    }
    let days = days_from_civil(number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let seconds = days * 86_400 + number(11, 13)? * 3600 + number(14, 16)? * 60 + number(17, 19)?;
    seconds.checked_mul(SECOND_NS)?.checked_add(number(20, 29)?)
}

/// The date of a day counted from 1970-01-01, in the Gregorian calendar. Years begin in March here, so that the
/// leap day is the last one, and repeat every 400 years (146,097 days).
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// The inverse of [`civil_from_days`].
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let march_month = (month + 9) % 12;
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_the_round_trip() {
        let cases: [(i64, &str); 5] = [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_400_000_000_001, "2000-02-29T00:00:00.000000001Z"),
            (1_709_251_199_999_999_999, "2024-02-29T23:59:59.999999999Z"),
            (1_796_045_709_123_456_789, "2026-11-30T13:35:09.123456789Z"),
            (4_102_444_800_000_000_000, "2100-01-01T00:00:00.000000000Z"),
        ];
        for (at, stamp) in cases {
            let mut out = Vec::new();
            write_record(&mut out, at, LogStreamName::Stderr, true, b"a\xff b");
            assert_eq!(out, [stamp.as_bytes(), b" stderr P a\xff b\n"].concat());
            assert!(out.len() - 5 <= MAX_HEAD_BYTES);
            let record = parse_record(&out[..out.len() - 1]).unwrap();
            assert_eq!(
                record,
                LogRecord {
                    at_unix_ns: at,
                    stream: LogStreamName::Stderr,
                    partial: true,
                    text: b"a\xff b".to_vec()
                }
            );
        }
    }

    #[test]
    fn every_day_of_four_centuries_is_its_own_inverse() {
        for days in -1000..150_000 {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }

    #[test]
    fn what_is_no_record_is_none() {
        let bad: [&[u8]; 5] = [
            b"",
            b"garbage",
            b"2026-11-30T13:35:09.123456789Z",
            b"2026-11-30T13:35:09.123456789Z stdlog F x",
            b"2026-11-30T13:35:09.1234x6789Z stdout F x",
        ];
        for line in bad {
            assert_eq!(parse_record(line), None);
        }
    }
}
