//! Whole amounts: bytes and times as files write them, one value each.

use std::fmt;
use std::time::Duration;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Dimension, parse_amount};

/// Bytes, written as `"256 MiB"`; a whole number of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// Nanoseconds, written as `"50 ms"`; a whole number of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpan(pub u64);

impl TimeSpan {
    /// An amount of `millis` milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Converts the span to a [`Duration`].
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

macro_rules! amounts {
    ($($name:ident $dimension:ident $unit:literal $example:literal;)*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let form = Form { dimension: Dimension::$dimension, example: $example };
                deserializer.deserialize_any(form).map(Self)
            }
        }

        /// Read back, it is the same.
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&format_args!(concat!("{} ", $unit), self.0))
            }
        }
    )*};
}

amounts! {
    ByteSize Size "B" "256 MiB";
    TimeSpan Time "ns" "50 ms";
}

struct Form {
    dimension: Dimension,
    example: &'static str,
}

impl Visitor<'_> for Form {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "text as in \"{}\"", self.example)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        // Up to here every whole number is a float.
        const WHOLE_MAX: f64 = (1_u64 << 53) as f64;
        let base = parse_amount(text, self.dimension, None)
            .map(|(number, unit)| (number * unit.in_base()).round());
        match base {
            Some(base) if (0.0..=WHOLE_MAX).contains(&base) => Ok(base as u64),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::{ByteSize, TimeSpan};
    use crate::{Document, Limits};

    #[derive(Deserialize)]
    struct Both {
        memory: ByteSize,
        wait: TimeSpan,
    }

    #[test]
    fn amounts_are_whole_and_of_their_dimension() {
        let read = |text: &str| {
            let document = Document::toml("f", text, Limits::bytes(1000)).unwrap();
            document.read::<Both>().map_err(|error| error.to_string())
        };
        let both = read("memory = \"1.5 KiB\"\nwait = \"50 ms\"").ok().unwrap();
        assert_eq!((both.memory.0, both.wait.0), (1536, 50_000_000));
        for wrong in ["\"5\"", "\"5 ms\"", "\"-1 B\"", "5", "\"1e30 GiB\""] {
            let error = read(&format!("memory = {wrong}\nwait = \"1 s\"")).err();
            let error = error.unwrap();
            assert!(error.contains("as in \"256 MiB\""), "{error}");
        }
    }
}
