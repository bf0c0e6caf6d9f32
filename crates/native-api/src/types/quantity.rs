//! Amounts that people may write as a number or as a text: sizes, durations, shares of a processor.
//!
//! They are kept as they were written; whether a text means anything is found out when it is read as an amount, so that
//! the refusal can name the field.

use std::borrow::Cow;
use std::fmt;

use model::{Span, UnitError, parse_bytes, parse_cpus};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An amount as it was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantity {
    /// A whole number.
    Integer(i64),
    /// A decimal number.
    Decimal(f64),
    /// A text with a unit.
    Text(String),
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(n) => n.fmt(f),
            Self::Decimal(n) => n.fmt(f),
            Self::Text(text) => f.pad(text),
        }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(n) => out.serialize_i64(*n),
            Self::Decimal(n) => out.serialize_f64(*n),
            Self::Text(text) => out.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a text")
            }

            fn visit_i64<E: Error>(self, n: i64) -> Result<Quantity, E> {
                Ok(Quantity::Integer(n))
            }

            fn visit_u64<E: Error>(self, n: u64) -> Result<Quantity, E> {
                Ok(i64::try_from(n).map_or(Quantity::Decimal(n as f64), Quantity::Integer))
            }

            fn visit_f64<E: Error>(self, n: f64) -> Result<Quantity, E> {
                Ok(Quantity::Decimal(n))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
                Ok(Quantity::Text(text.to_owned()))
            }
        }
        input.deserialize_any(Reader)
    }
}

macro_rules! quantities {
    ($($(#[$doc:meta])* $name:ident, $description:literal, $types:tt;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Quantity);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": $types, "description": $description })
            }
        }
    )+};
}

quantities! {
    /// A size in bytes.
    Size, "A size: whole bytes, or a text such as 512k, 64MiB or 2g. Answers give bytes.", ["integer", "string"];
    /// A length of time.
    Duration, "A duration as Go writes it, such as 300ms, 5s or 1m30s, or a number of nanoseconds. Answers give the text.", ["string", "integer"];
    /// A number of tasks, or a share of them.
    Amount, "A number of tasks, or a percentage of the replicas, rounded up: 2 or 50%. Answers give the number or the text.", ["integer", "string"];
    /// A number of processors.
    Cpus, "A number of processors, such as 0.5 or 2, as number or text. Answers give the number.", ["number", "string"];
}

impl Amount {
    /// This amount.
    pub fn of(amount: model::Amount) -> Self {
        Self(match amount {
            model::Amount::Count(n) => Quantity::Integer(n.into()),
            model::Amount::Percent(_) => Quantity::Text(amount.to_string()),
        })
    }

    /// What it means.
    ///
    /// # Errors
    /// What was written, when it is neither.
    pub fn amount(&self) -> Result<model::Amount, UnitError> {
        model::Amount::parse(&self.0.to_string())
    }
}

impl Size {
    /// A size of so many bytes.
    pub fn of(bytes: i64) -> Self {
        Self(Quantity::Integer(bytes))
    }

    /// How many bytes it is.
    ///
    /// # Errors
    /// What was written, when it is no size.
    pub fn bytes(&self) -> Result<i64, UnitError> {
        match &self.0 {
            Quantity::Integer(n) if *n >= 0 => Ok(*n),
            Quantity::Text(text) => parse_bytes(text),
            other => Err(UnitError::Bytes(other.to_string())),
        }
    }
}

impl Duration {
    /// A duration of this span.
    pub fn of(span: Span) -> Self {
        Self(Quantity::Text(span.to_string()))
    }

    /// The span it is.
    ///
    /// # Errors
    /// What was written, when it is no duration.
    pub fn span(&self) -> Result<Span, UnitError> {
        match &self.0 {
            Quantity::Integer(n) => Ok(Span(*n)),
            Quantity::Text(text) => Span::parse(text),
            other => Err(UnitError::Span(other.to_string())),
        }
    }
}

impl Cpus {
    /// So many billionths of a processor.
    pub fn of(nano_cpus: i64) -> Self {
        Self(if nano_cpus % 1_000_000_000 == 0 {
            Quantity::Integer(nano_cpus / 1_000_000_000)
        } else {
            Quantity::Decimal(nano_cpus as f64 / 1e9)
        })
    }

    /// How many billionths of a processor it is.
    ///
    /// # Errors
    /// What was written, when it is no number of processors.
    pub fn nano_cpus(&self) -> Result<i64, UnitError> {
        // The number goes through its shortest text, so that 0.1 is exactly a tenth.
        parse_cpus(&self.0.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: for<'de> Deserialize<'de>>(json: &str) -> T {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn numbers_and_texts_are_read() {
        assert_eq!(read::<Size>("1048576").bytes(), Ok(1 << 20));
        assert_eq!(read::<Size>("\"1m\"").bytes(), Ok(1 << 20));
        assert_eq!(read::<Duration>("5000000000").span(), Ok(Span::from_secs(5)));
        assert_eq!(read::<Duration>("\"1m30s\"").span(), Ok(Span::from_secs(90)));
        assert_eq!(read::<Cpus>("0.1").nano_cpus(), Ok(100_000_000));
        assert_eq!(read::<Cpus>("2").nano_cpus(), Ok(2_000_000_000));
        assert_eq!(read::<Cpus>("\"0.5\"").nano_cpus(), Ok(500_000_000));
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for json in ["-1", "1.5", "\"12 bananas\"", "18446744073709551615"] {
            assert!(read::<Size>(json).bytes().is_err(), "{json}");
        }
        for json in ["1.5", "\"5\"", "\"1d\""] {
            assert!(read::<Duration>(json).span().is_err(), "{json}");
        }
        for json in ["-1", "\"two\"", "1e30"] {
            assert!(read::<Cpus>(json).nano_cpus().is_err(), "{json}");
        }
        for json in ["true", "null", "[1]", "{}"] {
            assert!(serde_json::from_str::<Size>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for nano in [0, 1_000_000, 100_000_000, 1_500_000_000, 3_000_000_000, 999_999_999] {
            let json = serde_json::to_string(&Cpus::of(nano)).unwrap();
            assert_eq!(read::<Cpus>(&json).nano_cpus(), Ok(nano), "{json}");
        }
        let json = serde_json::to_string(&Duration::of(Span::from_millis(1500))).unwrap();
        assert_eq!(json, "\"1.5s\"");
    }
}
