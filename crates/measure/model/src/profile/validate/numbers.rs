//! Numbers: positive, in order, of the right kind, in the allowed range, and resting on something.

use super::Checker;
use crate::parameters::{Parameter, allowed, is_word, units};
use crate::{Dimension, Quantity, Sweep, Table, Unit};

const MAX_POINTS: usize = 256;
const MAX_NAME_BYTES: usize = 96;

/// Dimensions that a number may be counted in, and the range that it must lie in.
struct Expected {
    dimensions: Vec<Dimension>,
    /// Returns the range for a parameter of a dimension, in base units.
    range: fn(&str, Dimension) -> (f64, f64),
}

/// The range of a value of the fixed part of a profile.
fn fixed_range(key: &str, dimension: Dimension) -> (f64, f64) {
    match key.rsplit('.').next().unwrap_or_default() {
        "max_source" | "max_destination" => (1.0, 1_099_511_627_776.0),
        "engines" | "queue_depth" => (1.0, 65536.0),
        _ => allowed(dimension),
    }
}

/// The range of a parameter.
fn parameter_range(name: &str, dimension: Dimension) -> (f64, f64) {
    Parameter::of(name).map_or_else(|| allowed(dimension), |one| one.allowed(dimension))
}

/// The dimension of a value of the fixed part of a profile.
fn fixed(key: &str) -> Dimension {
    match key.rsplit('.').next().unwrap_or_default() {
        "max_source" | "max_destination" | "latency_until" => Dimension::Size,
        "rate" | "output_rate" | "to_device" | "from_device" => Dimension::Rate,
        "engines" | "queue_depth" => Dimension::Count,
        _ => Dimension::Time,
    }
}

/// A number as people write it: few digits, no exponent where it is short without.
fn short(number: f64) -> String {
    if number == 0.0 || (1e-3..1e6).contains(&number.abs()) {
        let text = format!("{number:.6}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    format!("{number:.4e}")
}

/// Steps between units that people read, smallest first: the unit's name and one of it in base
/// units.
const fn steps(dimension: Dimension) -> &'static [(&'static str, f64)] {
    match dimension {
        Dimension::Size => &[
            ("B", 1.0),
            ("KiB", 1024.0),
            ("MiB", 1_048_576.0),
            ("GiB", 1_073_741_824.0),
            ("TiB", 1_099_511_627_776.0),
            ("PiB", 1_125_899_906_842_624.0),
        ],
        Dimension::Rate => &[("B/s", 1.0), ("MB/s", 1e6), ("GB/s", 1e9), ("PB/s", 1e15)],
        Dimension::Time => &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)],
        Dimension::Frequency => &[("a second", 1.0), ("million a second", 1e6)],
        Dimension::Power => &[("W", 1.0)],
        Dimension::Count => &[("", 1.0)],
    }
}

/// A value in base units, as people read it.
fn readable(dimension: Dimension, base: f64) -> String {
    let steps = steps(dimension);
    let fits = steps.iter().rev().find(|(_, one)| base >= *one);
    let (name, one) = fits.unwrap_or(&steps[0]);
    format!("{} {name}", short(base / one)).trim_end().to_owned()
}

/// `1 B to 1 TiB`.
fn range_in(dimension: Dimension, (low, high): (f64, f64)) -> String {
    let (low, high) = (readable(dimension, low), readable(dimension, high));
    format!("{low} to {high}")
}

fn is_cited(facts: &[String], citation: Option<&str>) -> bool {
    !facts.is_empty() || citation.is_some_and(|text| !text.trim().is_empty())
}

impl<'a> Checker<'a> {
    pub(super) fn quantity(&mut self, key: &str, quantity: &'a Quantity) {
        if !is_cited(&quantity.facts, quantity.citation.as_deref()) {
            self.fail(
                key,
                "the value rests on nothing",
                "add facts or a citation, or remove the value: absent means unknown",
            );
        }
        self.facts(key, &quantity.facts);
        let expected = match key.strip_prefix("values.") {
            None => Expected { dimensions: vec![fixed(key)], range: fixed_range },
            Some(name) => match self.parameter(key, name) {
                Some(parameter) => {
                    Expected { dimensions: parameter.dimensions.to_vec(), range: parameter_range }
                }
                None => return,
            },
        };
        let name = key.strip_prefix("values.").unwrap_or(key);
        if !self.unit(key, &expected, quantity.unit) {
            return;
        }
        if quantity.value.is_none() && quantity.high.is_none() {
            self.fail(key, "no value", "give value, or high, or low and high");
            return;
        }
        let numbers = [quantity.low, quantity.value, quantity.high];
        let numbers: Vec<f64> = numbers.into_iter().flatten().collect();
        let range = (expected.range)(name, quantity.unit.dimension());
        if !self.numbers(key, &numbers, quantity.unit, range) {
            return;
        }
        if !numbers.is_sorted() {
            self.fail(
                key,
                format!("{numbers:?} is out of order"),
                "low <= value <= high must hold",
            );
        }
    }

    /// Returns the parameter of that name; suggests a similar name if there is none.
    fn parameter(&mut self, key: &str, name: &str) -> Option<&'static Parameter> {
        let sound = name.len() <= MAX_NAME_BYTES && name.split('.').all(is_word);
        let found = if sound { Parameter::of(name) } else { None };
        if found.is_none() {
            let remedy = match Parameter::nearest(name).filter(|_| name.len() <= MAX_NAME_BYTES) {
                Some(meant) => format!("did you mean {meant:?}?"),
                None => "`overside profile parameters` lists those there are".into(),
            };
            let shown: String = name.chars().take(MAX_NAME_BYTES).collect();
            self.fail(key, format!("no parameter is called {shown:?}"), &remedy);
        }
        found
    }

    fn unit(&mut self, key: &str, expected: &Expected, unit: Unit) -> bool {
        let sound = expected.dimensions.contains(&unit.dimension());
        if !sound {
            let known: Vec<_> = expected.dimensions.iter().map(|one| units(*one)).collect();
            self.fail(key, "the unit is of another kind", &format!("use {}", known.join(", or ")));
        }
        sound
    }

    /// Checks that all numbers are finite, positive and in the range. Returns `false`, and reports
    /// the first wrong number, if one is not.
    fn numbers(&mut self, key: &str, numbers: &[f64], unit: Unit, range: (f64, f64)) -> bool {
        let wrong = |number: &&f64| {
            let base = **number * unit.in_base();
            // A unit's factor must not push what is just allowed out of the range.
            !base.is_finite()
                || base <= 0.0
                || base < range.0 * (1.0 - 1e-9)
                || base > range.1 * (1.0 + 1e-9)
        };
        let Some(bad) = numbers.iter().find(wrong) else {
            return true;
        };
        let allowed = format!("allowed: {}", range_in(unit.dimension(), range));
        if !bad.is_finite() || *bad <= 0.0 {
            self.fail(
                key,
                format!("{bad} is not a positive number"),
                &format!("{allowed}; remove what is not known: absent means unknown"),
            );
        } else {
            let which = if *bad * unit.in_base() < range.0 { "too small" } else { "too large" };
            self.fail(key, format!("{} is {which}", short(*bad)), &allowed);
        }
        false
    }

    pub(super) fn sweep(&mut self, key: &str, sweep: &'a Sweep) {
        let expected = Expected { dimensions: vec![Dimension::Rate], range: fixed_range };
        self.unit(key, &expected, sweep.unit);
        self.facts(key, &sweep.facts);
        if sweep.facts.is_empty() {
            self.fail(key, "the rates rest on nothing", "add facts");
        }
        let (sizes, rates) = (&sweep.source_bytes, &sweep.rate);
        if sizes.is_empty() || sizes.len() > MAX_POINTS || sizes.len() != rates.len() {
            self.fail(
                key,
                format!("{} sizes and {} rates", sizes.len(), rates.len()),
                "give 1 to 256 sizes and a rate for each",
            );
            return;
        }
        let ascending = sizes.windows(2).all(|pair| pair[0] < pair[1]);
        if sizes[0] == 0 || !ascending {
            self.fail(key, format!("{sizes:?} does not increase"), "sort the sizes");
        }
        let sound =
            |rate: &f64| rate.is_finite() && (*rate > 0.0 || sweep.truncated && *rate == 0.0);
        if let Some(bad) = rates.iter().find(|rate| !sound(rate)) {
            self.fail(
                key,
                format!("{bad} is not a positive number"),
                "only truncated rates may be 0, which says less than 1",
            );
        }
    }

    pub(super) fn table(&mut self, name: &str, table: &'a Table) {
        let key = &format!("tables.{name}");
        if !is_cited(&table.facts, table.citation.as_deref()) {
            self.fail(key, "the values rest on nothing", "add facts or a citation");
        }
        self.facts(key, &table.facts);
        let Some(parameter) = self.parameter(key, name) else {
            return;
        };
        if !parameter.by.contains(&table.by) {
            let known: Vec<_> = parameter.by.iter().map(|axis| axis.name()).collect();
            let remedy = if known.is_empty() {
                "it is one number: give it in [values]".to_owned()
            } else {
                format!("use by = {}", known.join(" or "))
            };
            let problem = format!("it does not depend on {}", table.by.name());
            self.fail(key, problem, &remedy);
        }
        let expected =
            Expected { dimensions: parameter.dimensions.to_vec(), range: parameter_range };
        if !self.unit(key, &expected, table.unit) {
            return;
        }
        let (at, value) = (&table.at, &table.value);
        if at.is_empty() || at.len() > MAX_POINTS || at.len() != value.len() {
            self.fail(
                key,
                format!("{} points and {} values", at.len(), value.len()),
                "give 1 to 256 points and a value for each",
            );
            return;
        }
        let whole = |point: &&f64| !(1.0..=1e15).contains(*point) || point.fract() != 0.0;
        if let Some(bad) = at.iter().find(whole) {
            self.fail(
                key,
                format!("{bad} is no number of {}", table.by.name()),
                "allowed: whole numbers, 1 to 1e15",
            );
        } else if at.windows(2).any(|pair| pair[0] >= pair[1]) {
            self.fail(key, format!("{at:?} does not increase"), "sort the points");
        }
        let range = (expected.range)(name, table.unit.dimension());
        self.numbers(key, value, table.unit, range);
    }
}
