//! Values with a unit and the facts that they come from.

use serde::{Deserialize, Serialize};

use overside_config::quoted;

use crate::facts::{Fact, Facts, FigureValue};
use crate::{Interval, Unit};

/// Published value.
///
/// `value` is typical; `low` and `high` bound it. Without `value` the geometric mean of `low` and `high` is
/// typical; without bounds `value` is both. With only `high` it is a limit: nothing else is known, and the
/// limit is used as the value. A file may refer to a figure instead of repeating its number: `{ fact =
/// "idio.net.sm2", path = ["BF-2"] }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "WrittenQuantity")]
pub struct Quantity {
    /// Typical value; `None` if only bounds are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The smallest published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The largest published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Unit of `value`, `low` and `high`.
    pub unit: Unit,
    /// Facts with the value, by their ids in the profile's table of facts. A file may name a figure
    /// of a fact, as in `idio.net.derived[BF-2][SM2]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<String>,
    /// A source that is not among the facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub citation: Option<String>,
    /// Note that a reader of the value needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The figure that it is: the fact, and the keys inside it.
    #[serde(skip)]
    pub cites: Option<(String, Vec<String>)>,
    /// The figures that it was derived from: a fact, and keys inside it; all of the fact without keys.
    #[serde(skip)]
    pub rests_on: Vec<(String, Vec<String>)>,
}

/// A figure by its name, as in `idio.net.derived[BF-2][SM2]`: the fact, and the keys inside it.
fn figure_named(name: &str) -> Result<(String, Vec<String>), String> {
    let Some((fact, keys)) = name.split_once('[') else {
        return Ok((name.to_owned(), Vec::new()));
    };
    let keys = keys.strip_suffix(']').ok_or_else(|| format!("{} has no end", quoted(name)))?;
    let path: Vec<String> = keys.split("][").map(str::to_owned).collect();
    let found = Facts::published().get(fact);
    let figures = found.map(Fact::figures).unwrap_or_default();
    if !figures.iter().any(|figure| figure.path.starts_with(&path)) {
        return Err(format!("there is no figure {}", quoted(name)));
    }
    Ok((fact.to_owned(), path))
}

/// A quantity as a file has it: with its numbers, or with the figure that has them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenQuantity {
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    unit: Option<Unit>,
    #[serde(default)]
    facts: Vec<String>,
    citation: Option<String>,
    note: Option<String>,
    /// The fact.
    fact: Option<String>,
    /// Keys inside the fact.
    #[serde(default)]
    path: Vec<String>,
    /// Factor by which the figure's numbers are multiplied; 1 if absent.
    times: Option<f64>,
}

impl TryFrom<WrittenQuantity> for Quantity {
    type Error = String;

    fn try_from(written: WrittenQuantity) -> Result<Self, String> {
        let named = written.facts.iter().map(|name| figure_named(name));
        let rests_on: Vec<_> = named.collect::<Result<_, _>>()?;
        let mut facts: Vec<String> = rests_on.iter().map(|(fact, _)| fact.clone()).collect();
        facts.dedup();
        let quantity = Self {
            value: written.value,
            low: written.low,
            high: written.high,
            unit: written.unit.unwrap_or(Unit::Count),
            facts,
            citation: written.citation,
            note: written.note,
            cites: None,
            rests_on,
        };
        let Some(fact) = written.fact else {
            if written.times.is_some() || !written.path.is_empty() {
                return Err("path and times belong to a fact".into());
            }
            return match written.unit {
                Some(_) => Ok(quantity),
                None => Err("missing field `unit`".into()),
            };
        };
        if quantity.value.or(quantity.low).or(quantity.high).is_some() {
            return Err("a fact and numbers of its own".into());
        }
        quantity.of_fact(fact, written.path, written.unit, written.times.unwrap_or(1.0))
    }
}

impl Quantity {
    /// The numbers of a figure of the built-in collection, in `unit` or its own.
    fn of_fact(
        self,
        fact: String,
        path: Vec<String>,
        unit: Option<Unit>,
        times: f64,
    ) -> Result<Self, String> {
        let found = Facts::published().get(&fact);
        let figures = found.map(Fact::figures).unwrap_or_default();
        let figure = (figures.iter().find(|one| one.path == path)).ok_or_else(|| {
            let keys: Vec<String> = figures.iter().map(|one| format!("{:?}", one.path)).collect();
            match found {
                Some(_) => format!("{fact} has no figure {path:?}; there are {}", keys.join(", ")),
                None => format!("there is no fact {}", quoted(&fact)),
            }
        })?;
        let own = figure.known_unit().or(unit);
        let unit = unit.or(own).ok_or_else(|| {
            format!("{fact} is counted in {}: say in which `unit`", quoted(figure.unit))
        })?;
        let own = own.unwrap_or(unit);
        if own.dimension() != unit.dimension() {
            return Err(format!("{fact} is not counted in {}", unit.symbol()));
        }
        let number = |number: f64| number * times * (own.in_base() / unit.in_base());
        let (low, value, high) = match figure.value {
            FigureValue::Number(one) => (None, Some(number(one)), None),
            FigureValue::Range(low, high) => (Some(number(low)), None, Some(number(high))),
            FigureValue::Below(high) => (None, None, Some(number(high))),
            _ => return Err(format!("{fact} has no number at {path:?}")),
        };
        let mut facts = self.facts;
        if !facts.contains(&fact) {
            facts.insert(0, fact.clone());
        }
        Ok(Self { low, value, high, unit, facts, cites: Some((fact, path)), ..self })
    }

    /// One number that rests on nothing yet.
    pub fn number(value: f64, unit: Unit) -> Self {
        Self {
            value: Some(value),
            low: None,
            high: None,
            unit,
            facts: Vec::new(),
            citation: None,
            note: None,
            cites: None,
            rests_on: Vec::new(),
        }
    }

    /// A range that rests on nothing yet; its typical value is the geometric mean.
    pub(crate) fn range(low: f64, high: f64, unit: Unit) -> Self {
        Self { value: None, low: Some(low), high: Some(high), ..Self::number(low, unit) }
    }

    /// Returns the interval in bytes, bytes per second or nanoseconds.
    pub fn interval(&self) -> Interval {
        let high = self.high.or(self.value).unwrap_or_default();
        let low = self.low.or(self.value).unwrap_or(high);
        let typ = self.value.unwrap_or_else(|| (low * high).sqrt());
        Interval { low, typ, high }.scale(self.unit.in_base())
    }

    /// Only an upper limit is known.
    pub fn is_limit(&self) -> bool {
        self.value.is_none() && self.low.is_none()
    }
}

/// A rate published for several sizes of buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The sizes in bytes, increasing.
    pub source_bytes: Vec<u64>,
    /// The rate at each.
    pub rate: Vec<f64>,
    /// The rates were cut to whole numbers: 3 is at least 3 and less than 4, and 0 is only a limit.
    #[serde(default)]
    pub truncated: bool,
    /// Unit of the numbers in `rate`.
    pub unit: Unit,
    /// Facts with the values.
    pub facts: Vec<String>,
    /// Note that a reader of the value needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Sweep {
    /// The sweep as a table by size, for formulas.
    pub(crate) fn table(&self) -> Table {
        Table {
            by: Axis::Bytes,
            at: self.source_bytes.iter().map(|bytes| *bytes as f64).collect(),
            value: self.rate.clone(),
            unit: self.unit,
            facts: self.facts.clone(),
            citation: None,
            note: None,
            cites: Vec::new(),
        }
    }

    /// Returns the time in nanoseconds that a job takes whatever its size: that of each size less
    /// its bytes at the rate of the longest, where this is a fifth of the time or more. `None` if it
    /// is so at no size.
    pub(crate) fn fixed_ns(&self) -> Option<Interval> {
        const SHARE_MIN: f64 = 0.2;
        let rates: Vec<f64> = (0..self.rate.len()).map(|at| self.point(at).0.typ).collect();
        let longest = rates.last()?;
        let fixed: Vec<f64> = (rates.iter().zip(&self.source_bytes))
            .filter(|(rate, _)| 1.0 - *rate / longest >= SHARE_MIN)
            .map(|(rate, bytes)| *bytes as f64 * 1e9 * (1.0 / rate - 1.0 / longest))
            .collect();
        let (low, high) = fixed
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(low, high), one| (low.min(*one), high.max(*one)));
        (!fixed.is_empty()).then(|| Interval::between(low, high))
    }

    /// The rate in bytes a second at one of the sizes, and whether it is only a limit.
    fn point(&self, index: usize) -> (Interval, bool) {
        let rate = self.rate[index];
        let per_s = if !self.truncated {
            Interval::exactly(rate)
        } else if rate == 0.0 {
            Interval::exactly(1.0)
        } else {
            Interval { low: rate, typ: rate + 0.5, high: rate + 1.0 }
        };
        (per_s.scale(self.unit.in_base()), rate == 0.0)
    }

    /// Nanoseconds for `bytes`, and whether that is only a lower bound. Between two sizes the rate
    /// is interpolated; a shorter buffer takes as long as the shortest measured, a longer one has
    /// the rate of the longest.
    pub fn time_ns(&self, bytes: u64) -> (Interval, bool) {
        let last = self.source_bytes.len() - 1;
        let after = self.source_bytes.partition_point(|size| *size < bytes);
        let (rate, limit) = if after == 0 || after > last {
            self.point(after.min(last))
        } else {
            let (below, above) = (self.source_bytes[after - 1], self.source_bytes[after]);
            let share = (bytes - below) as f64 / (above - below) as f64;
            let ((a, a_limit), (b, b_limit)) = (self.point(after - 1), self.point(after));
            (a.with(b, |a, b| a + (b - a) * share), a_limit || b_limit)
        };
        (rate.divide(bytes.max(self.source_bytes[0]) as f64 * 1e9), limit)
    }
}

/// Quantity that a table's values depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// Bytes of a buffer, a block or a message.
    Bytes,
    /// Cores or threads that work.
    Cores,
    /// Jobs in flight.
    Depth,
    /// Jobs handed over together.
    Batch,
}

impl Axis {
    /// Returns the axis's name in a profile's file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Cores => "cores",
            Self::Depth => "depth",
            Self::Batch => "batch",
        }
    }
}

/// A value published for several sizes, depths or counts. A file may name the figures that it is
/// instead of repeating their numbers: `fact` has one under `path` for each point, in order, or each
/// point is the figure at `path` of another fact, `each`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "WrittenTable")]
pub struct Table {
    /// Quantity that the values depend on.
    pub by: Axis,
    /// Points on the axis at which the values were measured, increasing and positive.
    pub at: Vec<f64>,
    /// The value at each, positive.
    pub value: Vec<f64>,
    /// Unit of the numbers in `value`.
    pub unit: Unit,
    /// Facts with the values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<String>,
    /// A source that is not among the facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub citation: Option<String>,
    /// Note that a reader of the value needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The figure that each value is: the fact, and the keys inside it. None of values that were
    /// written as numbers.
    #[serde(skip)]
    pub cites: Vec<(String, Vec<String>)>,
}

/// A table as a file has it: with its numbers, or with the figures that have them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTable {
    by: Axis,
    at: Vec<f64>,
    #[serde(default)]
    value: Vec<f64>,
    unit: Option<Unit>,
    #[serde(default)]
    facts: Vec<String>,
    citation: Option<String>,
    note: Option<String>,
    /// A fact with a figure for each point.
    fact: Option<String>,
    /// A fact for each point.
    #[serde(default)]
    each: Vec<String>,
    /// The keys inside.
    #[serde(default)]
    path: Vec<String>,
}

impl TryFrom<WrittenTable> for Table {
    type Error = String;

    fn try_from(written: WrittenTable) -> Result<Self, String> {
        let WrittenTable { by, at, value, unit, facts, citation, note, fact, each, path } = written;
        let cites: Vec<(String, Vec<String>)> = match (&fact, each.is_empty()) {
            (None, true) if path.is_empty() => Vec::new(),
            (None, false) => each.iter().map(|fact| (fact.clone(), path.clone())).collect(),
            (Some(fact), true) => {
                let found = Facts::published().get(fact).map(Fact::figures).unwrap_or_default();
                let under = found.into_iter().map(|figure| figure.path);
                let one_deeper =
                    |keys: &Vec<String>| keys.len() == path.len() + 1 && keys.starts_with(&path);
                under.filter(one_deeper).map(|keys| (fact.clone(), keys)).collect()
            }
            _ => return Err("write a fact, or each, and the path inside".into()),
        };
        let mut table =
            Self { by, at, value, unit: unit.unwrap_or(Unit::Count), facts, citation, note, cites };
        if table.cites.is_empty() {
            return match (unit, fact) {
                (Some(_), None) => Ok(table),
                (None, None) => Err("missing field `unit`".into()),
                (_, Some(fact)) => Err(format!("{} has no figures at {path:?}", quoted(&fact))),
            };
        }
        if !table.value.is_empty() || table.cites.len() != table.at.len() {
            let (figures, points) = (table.cites.len(), table.at.len());
            return Err(format!(
                "{figures} figures for {points} points, and no numbers beside them"
            ));
        }
        let mut units = Vec::new();
        for (fact, path) in &table.cites {
            let one = Quantity::number(0.0, Unit::Count);
            let one = one.of_fact(fact.clone(), path.clone(), unit, 1.0)?;
            let value =
                one.value.ok_or_else(|| format!("{fact} has no single number at {path:?}"))?;
            table.value.push(value);
            units.push(one.unit);
            if !table.facts.contains(fact) {
                table.facts.push(fact.clone());
            }
        }
        if units.iter().any(|one| *one != units[0]) {
            return Err("figures in several units: say in which `unit`".into());
        }
        table.unit = units[0];
        Ok(table)
    }
}

impl Table {
    /// The value at `x` in base units: interpolated on logarithmic axes between two points, which
    /// bound it; the nearest point's beyond the ends.
    pub fn interval(&self, x: f64) -> Interval {
        let last = self.at.len() - 1;
        let after = self.at.partition_point(|at| *at < x);
        let exact = after <= last && self.at[after] == x;
        if exact || after == 0 || after > last {
            return Interval::exactly(self.value[after.min(last)]).scale(self.unit.in_base());
        }
        let (x0, x1) = (self.at[after - 1].ln(), self.at[after].ln());
        let (below, above) = (self.value[after - 1], self.value[after]);
        let share = (x.ln() - x0) / (x1 - x0);
        let typ = (below.ln() + (above.ln() - below.ln()) * share).exp();
        Interval { low: below.min(above), typ, high: below.max(above) }.scale(self.unit.in_base())
    }
}
