//! The figures of a fact, one by one.

use overside_config::{Error, quoted};
use serde_yaml_ng::Value;

use super::{Fact, Kind};
use crate::Unit;

/// One figure of a fact.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure<'a> {
    /// The fact.
    pub fact: &'a Fact,
    /// Keys of the figure inside the fact, such as `["BF-2", "SM2"]`; empty if the fact has only
    /// one figure.
    pub path: Vec<String>,
    /// Published value of the figure.
    pub value: FigureValue,
    /// Unit, as the source prints it.
    pub unit: &'a str,
}

/// Published value of a figure.
#[derive(Clone, Debug, PartialEq)]
pub enum FigureValue {
    /// One number.
    Number(f64),
    /// A range between two numbers.
    Range(f64, f64),
    /// Less than a number.
    Below(f64),
    /// More than a number.
    Above(f64),
    /// Numbers without keys, in the order that the metric's name or the conditions give.
    Series(Vec<f64>),
    /// No number.
    Words(String),
}

impl FigureValue {
    /// Returns `true` if a prediction can be compared with the value: it is neither a series nor
    /// words.
    pub fn is_number(&self) -> bool {
        !matches!(self, Self::Series(_) | Self::Words(_))
    }

    /// Returns the numbers of the value; empty for words.
    pub fn numbers(&self) -> Vec<f64> {
        match self {
            Self::Number(one) | Self::Below(one) | Self::Above(one) => vec![*one],
            Self::Range(low, high) => vec![*low, *high],
            Self::Series(all) => all.clone(),
            Self::Words(_) => Vec::new(),
        }
    }
}

impl std::fmt::Display for FigureValue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(one) => write!(out, "{one}"),
            Self::Range(low, high) => write!(out, "{low} to {high}"),
            Self::Below(high) => write!(out, "<{high}"),
            Self::Above(low) => write!(out, ">{low}"),
            Self::Series(all) => {
                let all: Vec<_> = all.iter().map(f64::to_string).collect();
                write!(out, "{}", all.join(", "))
            }
            Self::Words(text) => write!(out, "{text}"),
        }
    }
}

impl Figure<'_> {
    /// Returns the figure's unit; `None` if the model does not count in it.
    pub fn known_unit(&self) -> Option<Unit> {
        Some(match self.unit {
            "Gbps" => Unit::GbPerS,
            "Mops" | "MOPS" | "MTPS" | "MIPS" => Unit::MopsPerS,
            "Gops" => Unit::GopsPerS,
            "x" => Unit::Count,
            name => serde_yaml_ng::from_value(Value::String(name.into())).ok()?,
        })
    }

    /// Returns the model's unit for the unit that the study prints, and how many of the former one
    /// of the latter is: a KB is 1000 bytes. `None` if the unit is not known.
    pub(crate) fn spelled_unit(&self) -> Option<(Unit, f64)> {
        if let Some(unit) = self.known_unit() {
            return Some((unit, 1.0));
        }
        Some(match self.unit {
            "KB" | "kB" => (Unit::B, 1e3),
            "TB" => (Unit::GB, 1e3),
            "Mbps" | "Mb/s" => (Unit::GbPerS, 1e-3),
            "MBps" => (Unit::MBPerS, 1.0),
            "GBps" => (Unit::GBPerS, 1.0),
            "Kops" | "Kops/s" | "KTPS" => (Unit::MopsPerS, 1e-3),
            "Mpps" => (Unit::MopsPerS, 1.0),
            "\u{b5}s" | "\u{3bc}s" | "usec" => (Unit::Us, 1.0),
            "msec" => (Unit::Ms, 1.0),
            "sec" => (Unit::S, 1.0),
            _ => return None,
        })
    }

    /// The device that it is about: a key of the fact, if that names one, else the fact's.
    pub fn device(&self) -> &str {
        let named = |key: &&String| {
            let key = key.to_lowercase();
            ["bf-", "bf1", "bf2", "bf3", "octeon", "host"]
                .iter()
                .any(|known| key.starts_with(known))
        };
        (self.path.iter().find(named)).map_or(self.fact.device.as_str(), String::as_str)
    }

    /// The fact's name, and the keys inside it: `idio.net.derived[BF-2][SM2]`.
    pub fn name(&self) -> String {
        let keys: String = self.path.iter().map(|key| format!("[{key}]")).collect();
        format!("{}{keys}", self.fact.id)
    }
}

impl Fact {
    /// Checks that the fact's numbers are finite, and that each figure that its question asks about
    /// has a number.
    pub(super) fn check_figures(&self) -> Result<(), Error> {
        let key = match (&self.value, &self.range, &self.values) {
            (Some(_), ..) => "value",
            (_, Some(_), _) => "range",
            (.., Some(_)) => "values",
            _ if self.ask.is_some() => {
                let problem = "there is nothing to compare the answer with";
                return Err(Error::of_key("ask", problem, "write value, range or values"));
            }
            _ => return Ok(()),
        };
        for figure in self.figures() {
            let asks = (self.ask.as_ref()).is_some_and(|ask| ask.speaks_of(&figure.path));
            let text = match &figure.value {
                FigureValue::Words(text) if is_not_finite(text) => text,
                FigureValue::Words(text) if asks && self.kind != Kind::Qualitative => text,
                FigureValue::Series(_) if asks => &figure.value.to_string(),
                _ => continue,
            };
            let problem = format!("{} is no figure", quoted(text));
            let remedy = "a number, a bound such as '<1.2', range: [low, high], or values by key";
            return Err(Error::of_key(key, problem, remedy));
        }
        Ok(())
    }

    /// Returns the figures of the fact; the corrected ones if it was corrected.
    pub fn figures(&self) -> Vec<Figure<'_>> {
        let corrected = self.corrected.as_ref();
        let correction = |key: &str| corrected.and_then(|table| table.get(key));
        let unit = (correction("unit").and_then(Value::as_str)).unwrap_or(&self.unit);
        let body = match corrected {
            Some(_) => ["value", "range", "values"].into_iter().find_map(correction),
            None => [&self.value, &self.range, &self.values].into_iter().find_map(Option::as_ref),
        };
        let mut figures = Vec::new();
        if let Some(body) = body {
            self.walk(body, &mut Vec::new(), unit, &mut figures);
        }
        figures
    }

    fn walk<'a>(
        &'a self,
        value: &Value,
        path: &mut Vec<String>,
        unit: &'a str,
        figures: &mut Vec<Figure<'a>>,
    ) {
        if let Value::Mapping(table) = value {
            for (key, inner) in table {
                path.push(words(key));
                self.walk(inner, path, unit, figures);
                path.pop();
            }
            return;
        }
        figures.push(Figure { fact: self, path: path.clone(), value: read(value), unit });
    }
}

fn read(value: &Value) -> FigureValue {
    if let Some(number) = value.as_f64().filter(|number| number.is_finite()) {
        return FigureValue::Number(number);
    }
    if let Some(list) = value.as_sequence() {
        let numbers: Vec<f64> =
            list.iter().filter_map(Value::as_f64).filter(|number| number.is_finite()).collect();
        return match numbers[..] {
            [low, high] if list.len() == 2 && low <= high => FigureValue::Range(low, high),
            _ if numbers.len() == list.len() => FigureValue::Series(numbers),
            _ => FigureValue::Words(words(value)),
        };
    }
    let text = words(value);
    let bound = |sign: char| -> Option<f64> {
        let number: f64 = text.strip_prefix(sign)?.trim().parse().ok()?;
        number.is_finite().then_some(number)
    };
    match (bound('<'), bound('>')) {
        (Some(number), _) => FigureValue::Below(number),
        (_, Some(number)) => FigureValue::Above(number),
        _ => FigureValue::Words(text),
    }
}

/// Returns `true` if a number in the text is infinite or not a number, as in `.nan` and `<1e999`.
fn is_not_finite(text: &str) -> bool {
    text.split(", ").any(|one| {
        let number = one.trim_start_matches(['<', '>', ' ']);
        let plain = number.replacen('.', "", usize::from(number.ends_with(char::is_alphabetic)));
        plain.parse::<f64>().is_ok_and(|number| !number.is_finite())
    })
}

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        Value::Sequence(items) => items.iter().map(words).collect::<Vec<_>>().join(", "),
        _ => String::new(),
    }
}
