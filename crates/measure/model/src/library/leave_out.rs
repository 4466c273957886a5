//! Profiles without some of the published figures.
//!
//! A value that names the figure that it is goes with that one. One that was derived from several
//! goes with any of them. Facts that were derived from a figure repeat it, and go with it.

use std::collections::BTreeMap;

use crate::facts::{Fact, Facts, Figure, Kind};
use crate::{OperationProfile, Profile, Quantity, Sweep, Table};

/// Figures that are left out of profiles.
pub(super) struct LeftOut {
    /// Paths of the figures inside each fact.
    figures: BTreeMap<String, Vec<Vec<String>>>,
}

/// Equal up to how far sources round.
fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-3 * a.abs().max(b.abs())
}

impl LeftOut {
    pub(super) fn new(left_out: &[Figure<'_>]) -> Self {
        let mut figures: BTreeMap<String, Vec<_>> = BTreeMap::new();
        let mut add = |figure: &Figure<'_>| {
            let paths = figures.entry(figure.fact.id.clone()).or_default();
            paths.push(figure.path.clone());
        };
        left_out.iter().for_each(&mut add);
        let repeats =
            |derived: &Figure<'_>| {
                left_out.iter().any(|figure| {
                    figure.fact.paper == derived.fact.paper
                        && figure.fact.id != derived.fact.id
                        && figure.value.numbers().iter().any(|one| {
                            derived.value.numbers().iter().any(|other| near(*one, *other))
                        })
                })
            };
        let derived = (Facts::published().facts.iter()).filter(|fact| fact.kind == Kind::Derived);
        derived.flat_map(Fact::figures).filter(repeats).for_each(|one| add(&one));
        Self { figures }
    }

    fn is_gone(&self, (fact, path): &(String, Vec<String>)) -> bool {
        (self.figures.get(fact)).is_some_and(|paths| paths.contains(path))
    }

    /// Returns `true` if any figure under those keys of the fact is left out.
    fn touches(&self, (fact, path): &(String, Vec<String>)) -> bool {
        (self.figures.get(fact)).is_some_and(|gone| gone.iter().any(|one| one.starts_with(path)))
    }

    fn keeps(&self, quantity: &Quantity) -> bool {
        match &quantity.cites {
            // It is that figure, and no other.
            Some(cited) => !self.is_gone(cited),
            None => !quantity.rests_on.iter().any(|one| self.touches(one)),
        }
    }

    fn table(&self, table: &Table) -> Option<Table> {
        if table.cites.is_empty() {
            let is_touched = |fact: &String| self.figures.contains_key(fact);
            return (!table.facts.iter().any(is_touched)).then(|| table.clone());
        }
        let mut left =
            Table { at: Vec::new(), value: Vec::new(), cites: Vec::new(), ..table.clone() };
        let points = table.at.iter().zip(&table.value).zip(&table.cites);
        for ((at, value), cited) in points.filter(|(_, cited)| !self.is_gone(cited)) {
            left.at.push(*at);
            left.value.push(*value);
            left.cites.push(cited.clone());
        }
        (!left.at.is_empty()).then_some(left)
    }

    /// Each point is the figure of its size.
    fn sweep(&self, sweep: &Sweep) -> Option<Sweep> {
        let is_gone = |bytes: &u64| {
            sweep.facts.iter().any(|fact| self.is_gone(&(fact.clone(), vec![bytes.to_string()])))
        };
        let mut left = Sweep { source_bytes: Vec::new(), rate: Vec::new(), ..sweep.clone() };
        let points = sweep.source_bytes.iter().zip(&sweep.rate);
        for (bytes, rate) in points.filter(|(bytes, _)| !is_gone(bytes)) {
            left.source_bytes.push(*bytes);
            left.rate.push(*rate);
        }
        (!left.rate.is_empty()).then_some(left)
    }

    /// The profile without values that rest on facts that are left out.
    pub(super) fn drop_from(&self, profile: &Profile) -> Profile {
        let keep = |quantity: &mut Option<Quantity>| {
            if quantity.as_ref().is_some_and(|one| !self.keeps(one)) {
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
            self.operation(entry, &keep);
        }
        left.values.retain(|_, quantity| self.keeps(quantity));
        left.tables = (left.tables.into_iter())
            .filter_map(|(name, table)| Some((name, self.table(&table)?)))
            .collect();
        left
    }

    fn operation(&self, entry: &mut OperationProfile, keep: &dyn Fn(&mut Option<Quantity>)) {
        keep(&mut entry.max_destination);
        keep(&mut entry.rate);
        keep(&mut entry.output_rate);
        keep(&mut entry.per_job);
        keep(&mut entry.per_doorbell);
        keep(&mut entry.latency);
        keep(&mut entry.latency_until);
        entry.one_at_a_time = (entry.one_at_a_time.take()).and_then(|sweep| self.sweep(&sweep));
        for pattern in &mut entry.patterns {
            keep(&mut pattern.rate);
            pattern.sweep = (pattern.sweep.take()).and_then(|sweep| self.sweep(&sweep));
        }
        (entry.patterns).retain(|one| one.rate.is_some() || one.sweep.is_some());
    }
}
