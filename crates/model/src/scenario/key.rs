//! What can be asked of a scenario: keys, the values that they take, and how values are written.

use crate::{Interval, Library, Unit};

/// The longest value that is read, in bytes.
const MAX_TEXT_BYTES: usize = 200;

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

/// Why a key does not take a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What is wrong with it.
    pub problem: String,
    /// The word that was probably meant.
    pub suggestion: Option<String>,
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
    /// [`Refused`].
    pub fn read(&self, text: &str, library: &Library) -> Result<Value, Refused> {
        let text = text.trim();
        if text.len() > MAX_TEXT_BYTES {
            return Err(refused(format!("longer than {MAX_TEXT_BYTES} bytes")));
        }
        match self.kind {
            Kind::Count { low, high } => {
                let count: u64 = (text.parse().ok())
                    .ok_or_else(|| refused(format!("{text:?} is not a whole number")))?;
                if !(low..=high).contains(&count) {
                    return Err(refused(format!("{count} is out of range")));
                }
                Ok(Value {
                    text: count.to_string(),
                    number: Some(count as f64),
                })
            }
            Kind::Amount { unit, low, high } => amount(text, unit, low, high),
            Kind::Choice(words) => word(text, words),
            Kind::Profile => word(text, &names(library)),
        }
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

fn refused(problem: String) -> Refused {
    Refused {
        problem,
        suggestion: None,
    }
}

fn word(text: &str, words: &[&str]) -> Result<Value, Refused> {
    if words.contains(&text) {
        return Ok(Value {
            text: text.into(),
            number: None,
        });
    }
    Err(Refused {
        problem: format!("{text:?} is not known"),
        suggestion: crate::suggest(text, words),
    })
}

fn amount(text: &str, unit: Unit, low: f64, high: f64) -> Result<Value, Refused> {
    let (number, given) = with_unit(text, unit)
        .ok_or_else(|| refused(format!("{text:?} is not a number{}", in_units(unit))))?;
    let base = number * given.in_base();
    let bounds = Interval {
        low,
        typ: low,
        high,
    }
    .scale(unit.in_base());
    // A bound is met by itself, whichever unit it is written in.
    let slack = 1.0 + 1e-9;
    if !(base >= bounds.low / slack && base <= bounds.high * slack) {
        return Err(refused(format!(
            "{} is out of range",
            written(number, given)
        )));
    }
    Ok(Value {
        text: written(number, given),
        number: Some(base),
    })
}

/// The number, and the unit that follows it or else `unit`.
fn with_unit(text: &str, unit: Unit) -> Option<(f64, Unit)> {
    let finite = |text: &str| {
        let number: f64 = text.trim_end().parse().ok()?;
        number.is_finite().then_some(number)
    };
    if let Some(number) = finite(text) {
        return Some((number, unit));
    }
    (units(unit).filter(|other| !other.symbol().is_empty()))
        .find_map(|other| Some((finite(text.strip_suffix(other.symbol())?)?, other)))
}

/// Units that convert into `unit`.
fn units(unit: Unit) -> impl Iterator<Item = Unit> {
    let dimension = unit.dimension();
    (Unit::ALL.into_iter()).filter(move |other| other.dimension() == dimension)
}

fn in_units(unit: Unit) -> String {
    let symbols: Vec<_> = units(unit)
        .map(Unit::symbol)
        .filter(|symbol| !symbol.is_empty())
        .collect();
    if unit == Unit::Count {
        String::new()
    } else {
        format!(" in {}", symbols.join(", "))
    }
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
