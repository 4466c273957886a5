//! Keys of a scenario: the values that they take, and how values are written.

use overside_config::{Error, parse_amount, quoted};
use serde::Deserialize;

use crate::matching::Form;
use crate::{Dimension, Library, Unit};

/// A key that can be set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Name of the key, such as `value_size`. `profile` and `host` may be set at the top of a file.
    pub name: String,
    /// Meaning of the key, in a few words.
    pub about: String,
    /// Kind of value that the key takes.
    pub kind: Kind,
    /// Value that is used where none is given, written as in a file. Several values, with commas
    /// between them, are a sweep. Empty: the key is not set.
    #[serde(default)]
    pub default: String,
    /// Another key, before this one, and its values with which this one means anything. With others
    /// it is not set, so that a sweep has no rows that differ in nothing.
    pub only: Option<Condition>,
}

/// Values of another key.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// Name of the other key.
    pub key: String,
    /// Values of it.
    pub of: Vec<String>,
}

/// Kind of value that a key takes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A whole number from the least to the most.
    Count(u64, u64),
    /// A number in a unit, from the least to the most in that unit. `2 MiB` and `40 Gb/s` are such
    /// values too: they are converted. [`Unit::Count`] is for plain numbers.
    Amount(Unit, f64, f64),
    /// One of these words.
    Words(Vec<String>),
    /// One of these words, or a whole number from the least to the most.
    WordsOrCount(Vec<String>, u64, u64),
    /// One of these words, or a regular expression.
    Pattern(Vec<String>),
    /// The name of a profile.
    Profile,
}

/// A value that a key takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Value as text in the form that tables print, such as `2 MiB`.
    pub text: String,
    /// Number in base units (bytes, bytes per second, nanoseconds, operations per second); `None` for words.
    pub number: Option<f64>,
}

impl Key {
    /// Reads one value.
    ///
    /// # Errors
    /// [`Error`], with the allowed values.
    pub fn read(&self, text: &str, library: &Library) -> Result<Value, Error> {
        let text = text.trim();
        let refused = |problem: String| Error::of_key(&self.name, problem, self.allowed(library));
        let counted = |low: u64, high: u64| {
            let count: u64 = (text.parse().ok())
                .ok_or_else(|| refused(format!("{} is not a whole number", quoted(text))))?;
            if !(low..=high).contains(&count) {
                return Err(refused(format!("{count} is out of range")));
            }
            Ok(Value { text: count.to_string(), number: Some(count as f64) })
        };
        match &self.kind {
            Kind::Count(low, high) => counted(*low, *high),
            Kind::Amount(unit, low, high) => amount(text, *unit, *low, *high).map_err(refused),
            Kind::Words(words) => self.word(text, words),
            Kind::WordsOrCount(_, low, high) if text.starts_with(|c: char| c.is_ascii_digit()) => {
                counted(*low, *high)
            }
            Kind::WordsOrCount(words, ..) => self.word(text, words),
            Kind::Pattern(words) => match self.word(text, words) {
                // A word that is nearly one of these is no expression.
                Err(error) if error.suggestion.is_some() => Err(error),
                Err(_) => match Form::of(text) {
                    Ok(_) => Ok(Value { text: text.into(), number: None }),
                    Err(problem) => Err(refused(problem)),
                },
                known => known,
            },
            Kind::Profile => self.word(text, &names(library)),
        }
    }

    /// Splits several values with commas between them. A regular expression has commas of its own:
    /// it stands alone.
    pub(super) fn split<'a>(&self, values: &'a str) -> Vec<&'a str> {
        let all: Vec<&str> = values.split(',').map(str::trim).collect();
        match &self.kind {
            Kind::Pattern(words) if !all.iter().all(|one| words.iter().any(|word| word == one)) => {
                vec![values.trim()]
            }
            _ => all,
        }
    }

    /// Returns the dimension of the values that are numbers.
    pub(crate) fn dimension(&self) -> Dimension {
        match &self.kind {
            Kind::Amount(unit, ..) => unit.dimension(),
            _ => Dimension::Count,
        }
    }

    fn word<S: AsRef<str>>(&self, text: &str, words: &[S]) -> Result<Value, Error> {
        // Papers write some of them in capitals: SM1, CH-SH.
        let mut all = words.iter().map(AsRef::as_ref);
        if let Some(word) = all.find(|word: &&str| word.eq_ignore_ascii_case(text)) {
            return Ok(Value { text: word.into(), number: None });
        }
        let problem = format!("{} is not known", quoted(text));
        Err(Error::of_key(&self.name, problem, "").meant(text, words))
    }

    /// Describes the values that the key takes.
    pub fn allowed(&self, library: &Library) -> String {
        match &self.kind {
            Kind::Count(low, high) => format!("a whole number from {low} to {high}"),
            Kind::Amount(unit, low, high) => {
                let (low, high) = (written(*low, *unit), written(*high, *unit));
                format!("from {low} to {high}")
            }
            Kind::Words(words) => format!("one of {}", words.join(", ")),
            Kind::WordsOrCount(words, low, high) => {
                format!("one of {}, or a whole number from {low} to {high}", words.join(", "))
            }
            Kind::Pattern(words) => {
                format!("one of {}, or a regular expression", words.join(", "))
            }
            Kind::Profile => {
                format!("one of {}", names(library).join(", "))
            }
        }
    }
}

fn names(library: &Library) -> Vec<&str> {
    (library.profiles().iter()).map(|profile| profile.name.as_str()).collect()
}

/// Parses an amount; the error is a message.
fn amount(text: &str, unit: Unit, low: f64, high: f64) -> Result<Value, String> {
    let dimension = unit.dimension();
    let (number, given) = parse_amount(text, dimension, Some(unit))
        .ok_or_else(|| format!("{} is not a number{}", quoted(text), Unit::listed(dimension)))?;
    let base = number * given.in_base();
    // A bound is met by itself, whichever unit it is written in.
    let slack = 1.0 + 1e-9;
    let (low, high) = (low * unit.in_base(), high * unit.in_base());
    if !(base >= low / slack && base <= high * slack) {
        return Err(format!("{} is out of range", written(number, given)));
    }
    Ok(Value { text: written(number, given), number: Some(base) })
}

/// A number with its unit; bytes in the largest unit that leaves a whole number.
pub(super) fn written(number: f64, unit: Unit) -> String {
    let (mut number, mut unit) = (number, unit);
    let larger = [(Unit::B, Unit::KiB), (Unit::KiB, Unit::MiB), (Unit::MiB, Unit::GiB)];
    for (from, to) in larger {
        if unit == from && number >= 1024.0 && number % 1024.0 == 0.0 {
            (number, unit) = (number / 1024.0, to);
        }
    }
    let symbol = unit.symbol();
    if symbol.is_empty() { number.to_string() } else { format!("{number} {symbol}") }
}
