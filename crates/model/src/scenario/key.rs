//! What can be asked of a scenario: keys, the values that they take, and how values are written.

use overside_config::{Error, parse_amount, quoted};

use crate::{Library, Unit};

/// Something that can be set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Its name, as in `value_size`.
    pub name: &'static str,
    /// What it means, in a few words.
    pub about: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Its value where none is given, written as in a file; several, with commas between them,
    /// are a sweep. Empty: it is not set.
    pub default: &'static str,
}

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A whole number between two.
    Count {
        /// The least.
        low: u64,
        /// The most.
        high: u64,
    },
    /// A number between two, in a unit. `2 MiB` and `40 Gb/s` are such values too: they are
    /// converted. [`Unit::Count`] is for plain numbers.
    Amount {
        /// The unit of the bounds, and of a number without one.
        unit: Unit,
        /// The least.
        low: f64,
        /// The most.
        high: f64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// The name of a profile.
    Profile,
}

/// A value that a key takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// As tables show it.
    pub text: String,
    /// In base units (bytes, bytes a second, nanoseconds, operations a second); `None` for words.
    pub number: Option<f64>,
}

impl Key {
    /// A whole number.
    pub const fn count(
        name: &'static str,
        low: u64,
        high: u64,
        default: &'static str,
        about: &'static str,
    ) -> Self {
        let kind = Kind::Count { low, high };
        Self {
            name,
            about,
            kind,
            default,
        }
    }

    /// A number in a unit; `bounds` are in it.
    pub const fn amount(
        name: &'static str,
        unit: Unit,
        bounds: (f64, f64),
        default: &'static str,
        about: &'static str,
    ) -> Self {
        let (low, high) = bounds;
        let kind = Kind::Amount { unit, low, high };
        Self {
            name,
            about,
            kind,
            default,
        }
    }

    /// One of several words.
    pub const fn choice(
        name: &'static str,
        words: &'static [&'static str],
        default: &'static str,
        about: &'static str,
    ) -> Self {
        let kind = Kind::Choice(words);
        Self {
            name,
            about,
            kind,
            default,
        }
    }

    /// The name of a profile. The keys `profile` and `host` may stand at the top of a file.
    pub const fn profile(name: &'static str, default: &'static str, about: &'static str) -> Self {
        let kind = Kind::Profile;
        Self {
            name,
            about,
            kind,
            default,
        }
    }

    /// Reads one value.
    ///
    /// # Errors
    /// [`Error`], with what is allowed.
    pub fn read(&self, text: &str, library: &Library) -> Result<Value, Error> {
        let text = text.trim();
        let refused = |problem: String| Error::of_key(self.name, problem, self.allowed(library));
        match self.kind {
            Kind::Count { low, high } => {
                let count: u64 = (text.parse().ok())
                    .ok_or_else(|| refused(format!("{} is not a whole number", quoted(text))))?;
                if !(low..=high).contains(&count) {
                    return Err(refused(format!("{count} is out of range")));
                }
                Ok(Value {
                    text: count.to_string(),
                    number: Some(count as f64),
                })
            }
            Kind::Amount { unit, low, high } => amount(text, unit, low, high).map_err(refused),
            Kind::Choice(words) => self.word(text, words),
            Kind::Profile => self.word(text, &names(library)),
        }
    }

    fn word(&self, text: &str, words: &[&str]) -> Result<Value, Error> {
        if words.contains(&text) {
            return Ok(Value {
                text: text.into(),
                number: None,
            });
        }
        let problem = format!("{} is not known", quoted(text));
        Err(Error::of_key(self.name, problem, "").meant(text, words))
    }

    /// What it takes, in words.
    pub fn allowed(&self, library: &Library) -> String {
        match self.kind {
            Kind::Count { low, high } => format!("a whole number from {low} to {high}"),
            Kind::Amount { unit, low, high } => {
                let (low, high) = (written(low, unit), written(high, unit));
                format!("from {low} to {high}")
            }
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Profile => {
                format!("one of {}", names(library).join(", "))
            }
        }
    }
}

fn names(library: &Library) -> Vec<&str> {
    (library.profiles().iter())
        .map(|profile| profile.name.as_str())
        .collect()
}

/// Or what is wrong with it.
fn amount(text: &str, unit: Unit, low: f64, high: f64) -> Result<Value, String> {
    let dimension = unit.dimension();
    let (number, given) = parse_amount(text, dimension, Some(unit)).ok_or_else(|| {
        format!(
            "{} is not a number{}",
            quoted(text),
            Unit::listed(dimension)
        )
    })?;
    let base = number * given.in_base();
    // A bound is met by itself, whichever unit it is written in.
    let slack = 1.0 + 1e-9;
    let (low, high) = (low * unit.in_base(), high * unit.in_base());
    if !(base >= low / slack && base <= high * slack) {
        return Err(format!("{} is out of range", written(number, given)));
    }
    Ok(Value {
        text: written(number, given),
        number: Some(base),
    })
}

/// A number with its unit; bytes in the largest unit that leaves a whole number.
pub(super) fn written(number: f64, unit: Unit) -> String {
    let (mut number, mut unit) = (number, unit);
    let larger = [
        (Unit::B, Unit::KiB),
        (Unit::KiB, Unit::MiB),
        (Unit::MiB, Unit::GiB),
    ];
    for (from, to) in larger {
        if unit == from && number >= 1024.0 && number % 1024.0 == 0.0 {
            (number, unit) = (number / 1024.0, to);
        }
    }
    let symbol = unit.symbol();
    if symbol.is_empty() {
        number.to_string()
    } else {
        format!("{number} {symbol}")
    }
}
