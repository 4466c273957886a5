//! Profiles without some of the published figures.
//!
//! A value goes with the figure that it was taken from. One that was derived from several goes
//! with any of them. Facts that were derived from a figure repeat it, and go with it.

use std::collections::BTreeMap;

use crate::facts::{Fact, Facts, Figure, Kind};
use crate::{OperationProfile, Profile, Quantity, Sweep, Table, Unit};

/// What is left out.
pub(super) struct LeftOut {
    /// Paths of the figures inside each fact.
    figures: BTreeMap<String, Vec<Vec<String>>>,
}

/// Equal up to how far sources round.
fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-3 * a.abs().max(b.abs())
}

/// Whether a figure gives that number, in the value's unit or its own.
fn gives(figure: &Figure<'_>, number: f64, unit: Unit) -> bool {
    let own = figure.known_unit().map(Unit::in_base);
    figure.value.numbers().into_iter().any(|published| {
        near(published, number)
            || own.is_some_and(|own| near(published * own, number * unit.in_base()))
    })
}

/// Whether a key inside its fact says which device it is about.
fn is_keyed(figure: &Figure<'_>) -> bool {
    figure.path.iter().any(|key| key == figure.device())
}

/// Whether a profile can have taken a value from a figure on that device.
fn speaks_of(profile: &Profile, device: &str) -> bool {
    let device = device.to_lowercase().replace("bf-", "bf");
    let machines = ["bf1", "bf2", "bf3", "octeon", "host"];
    let named: Vec<_> = machines
        .iter()
        .filter(|one| device.contains(**one))
        .collect();
    named.is_empty() || named.iter().any(|one| profile.name.contains(**one))
}

/// Sizes and counts in a text such as `16384`, `16KB`, `64 MiB` or `rnd.read 4MB`; a decimal prefix
/// may mean the binary one.
fn amounts(text: &str) -> Vec<f64> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|at: char| at.is_ascii_digit()) {
        rest = &rest[start..];
        let end = rest
            .find(|at: char| !at.is_ascii_digit() && at != '.')
            .unwrap_or(rest.len());
        let (digits, after) = rest.split_at(end);
        if let Ok(number) = digits.trim_end_matches('.').parse::<f64>() {
            found.push(number);
            let power = match after.trim_start().as_bytes().first() {
                Some(b'K' | b'k') => 1,
                Some(b'M') => 2,
                Some(b'G') => 3,
                _ => 0,
            };
            if power > 0 {
                found.extend([1000_f64, 1024.0].map(|prefix| number * prefix.powi(power)));
            }
        }
        rest = after;
    }
    found
}

/// Whether a figure can be the point at `at` of a table: not if its keys or its workload name
/// other sizes or counts.
fn may_stand_at(figure: &Figure<'_>, at: f64) -> bool {
    let keys = (figure.path.iter()).filter(|key| *key != figure.device());
    let mut named: Vec<f64> = keys.flat_map(|key| amounts(key)).collect();
    if named.is_empty() {
        named = amounts(&figure.fact.workload);
    }
    named.is_empty() || named.iter().any(|one| near(*one, at))
}

impl LeftOut {
    pub(super) fn new(left_out: &[Figure<'_>]) -> Self {
        let mut figures: BTreeMap<String, Vec<_>> = BTreeMap::new();
        let mut add = |figure: &Figure<'_>| {
            let paths = figures.entry(figure.fact.id.clone()).or_default();
            paths.push(figure.path.clone());
        };
        left_out.iter().for_each(&mut add);
        let repeats = |derived: &Figure<'_>| {
            left_out.iter().any(|figure| {
                figure.fact.paper == derived.fact.paper
                    && figure.fact.id != derived.fact.id
                    && figure.value.numbers().iter().any(|one| {
                        derived
                            .value
                            .numbers()
                            .iter()
                            .any(|other| near(*one, *other))
                    })
            })
        };
        let derived = (Facts::published().facts.iter()).filter(|fact| fact.kind == Kind::Derived);
        derived
            .flat_map(Fact::figures)
            .filter(repeats)
            .for_each(|one| add(&one));
        Self { figures }
    }

    fn has(&self, figure: &Figure<'_>) -> bool {
        (self.figures.get(&figure.fact.id)).is_some_and(|paths| paths.contains(&figure.path))
    }

    /// Whether a value of `profile` that cites `facts` may rest on something that is left out.
    fn touches(&self, profile: &Profile, facts: &[String]) -> bool {
        (facts.iter().filter(|id| self.figures.contains_key(*id)))
            .filter_map(|id| Facts::published().get(id))
            .any(|fact| {
                let figures = fact.figures();
                let own =
                    |figure: &Figure<'_>| is_keyed(figure) && speaks_of(profile, figure.device());
                // A table by machine: what is left out of another machine's row is no loss here. A
                // ratio says something of both of its sides.
                let by_machine = fact.kind != Kind::Ratio && figures.iter().any(own);
                (figures.iter().filter(|figure| self.has(figure)))
                    .any(|figure| !by_machine || !is_keyed(figure) || own(figure))
            })
    }

    /// Whether that number, at that size or count if it has one, stands in what remains of
    /// `facts`.
    fn supported(
        &self,
        profile: &Profile,
        facts: &[String],
        (number, unit): (f64, Unit),
        at: Option<f64>,
    ) -> bool {
        (facts.iter().filter_map(|id| Facts::published().get(id)))
            .flat_map(Fact::figures)
            .any(|figure| {
                let keyed = is_keyed(&figure);
                !self.has(&figure)
                    && (!keyed || speaks_of(profile, figure.device()))
                    && at.is_none_or(|at| may_stand_at(&figure, at))
                    && gives(&figure, number, unit)
            })
    }

    fn keeps(&self, profile: &Profile, quantity: &Quantity) -> bool {
        if let Some((fact, path)) = &quantity.cites {
            // It is that figure, and no other.
            let is_gone = |paths: &Vec<Vec<String>>| paths.contains(path);
            return !self.figures.get(fact).is_some_and(is_gone);
        }
        !self.touches(profile, &quantity.facts)
            || [quantity.low, quantity.value, quantity.high]
                .into_iter()
                .flatten()
                .all(|one| self.supported(profile, &quantity.facts, (one, quantity.unit), None))
    }

    fn table(&self, profile: &Profile, table: &Table) -> Option<Table> {
        if !self.touches(profile, &table.facts) {
            return Some(table.clone());
        }
        let mut left = Table {
            at: Vec::new(),
            value: Vec::new(),
            ..table.clone()
        };
        for (at, value) in table.at.iter().zip(&table.value) {
            if self.supported(profile, &table.facts, (*value, table.unit), Some(*at)) {
                left.at.push(*at);
                left.value.push(*value);
            }
        }
        (!left.at.is_empty()).then_some(left)
    }

    fn sweep(&self, profile: &Profile, sweep: &Sweep) -> Option<Sweep> {
        if !self.touches(profile, &sweep.facts) {
            return Some(sweep.clone());
        }
        let mut left = Sweep {
            source_bytes: Vec::new(),
            rate: Vec::new(),
            ..sweep.clone()
        };
        for (bytes, rate) in sweep.source_bytes.iter().zip(&sweep.rate) {
            let at = Some(*bytes as f64);
            if self.supported(profile, &sweep.facts, (*rate, sweep.unit), at) {
                left.source_bytes.push(*bytes);
                left.rate.push(*rate);
            }
        }
        (!left.rate.is_empty()).then_some(left)
    }

    /// The profile without what rests on what is left out.
    pub(super) fn drop_from(&self, profile: &Profile) -> Profile {
        let keep = |quantity: &mut Option<Quantity>| {
            if quantity
                .as_ref()
                .is_some_and(|one| !self.keeps(profile, one))
            {
                *quantity = None;
            }
        };
        let mut left = profile.clone();
        keep(&mut left.reconfiguration);
        keep(&mut left.device.engines);
        keep(&mut left.device.queue_depth);
        keep(&mut left.device.context_init);
        keep(&mut left.link.to_device);
        keep(&mut left.link.from_device);
        for entry in &mut left.operations {
            self.operation(profile, entry, &keep);
        }
        left.values
            .retain(|_, quantity| self.keeps(profile, quantity));
        left.tables = (left.tables.into_iter())
            .filter_map(|(name, table)| Some((name, self.table(profile, &table)?)))
            .collect();
        left
    }

    fn operation(
        &self,
        profile: &Profile,
        entry: &mut OperationProfile,
        keep: &dyn Fn(&mut Option<Quantity>),
    ) {
        keep(&mut entry.max_destination);
        keep(&mut entry.rate);
        keep(&mut entry.per_job);
        keep(&mut entry.per_doorbell);
        keep(&mut entry.latency);
        entry.one_at_a_time =
            (entry.one_at_a_time.take()).and_then(|sweep| self.sweep(profile, &sweep));
        for pattern in &mut entry.patterns {
            keep(&mut pattern.rate);
            pattern.sweep = (pattern.sweep.take()).and_then(|sweep| self.sweep(profile, &sweep));
        }
        (entry.patterns).retain(|one| one.rate.is_some() || one.sweep.is_some());
    }
}
