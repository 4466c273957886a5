//! What a profile must keep to beyond its syntax.

use std::collections::BTreeSet;

use overside_ops::Operation;

use crate::{Dimension, OperationProfile, Profile, ProfileError, Quantity, Sweep, Table};

const MAX_OPERATIONS: usize = 64;
const MAX_PATTERNS: usize = 256;
const MAX_SWEEP: usize = 256;

/// Collects where a message belongs.
struct Checker<'a> {
    file: &'a str,
    profile: &'a Profile,
    cited: BTreeSet<&'a str>,
}

/// Checks everything that the types do not.
pub(crate) fn check(file: &str, profile: &Profile) -> Result<(), ProfileError> {
    let mut checker = Checker {
        file,
        profile,
        cited: BTreeSet::new(),
    };
    checker.head()?;
    for (key, quantity) in profile.quantities() {
        checker.quantity(&key, quantity)?;
    }
    for (key, sweep) in profile.sweeps() {
        checker.sweep(&key, sweep)?;
    }
    for (name, table) in &profile.tables {
        checker.table(&format!("tables.{name}"), table)?;
    }
    checker.facts("device", &profile.device.facts)?;
    checker.operations()?;
    checker.absent()?;
    checker.all_cited()
}

impl<'a> Checker<'a> {
    fn fail<T>(&self, key: &str, problem: String, remedy: &str) -> Result<T, ProfileError> {
        Err(ProfileError::Value {
            file: self.file.into(),
            key: key.into(),
            problem,
            remedy: remedy.into(),
        })
    }

    fn head(&self) -> Result<(), ProfileError> {
        let Profile { schema, name, .. } = self.profile;
        if schema != "profile/1" {
            return self.fail(
                "schema",
                format!("{schema:?} is not known"),
                "this version reads \"profile/1\"",
            );
        }
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
            return self.fail(
                "name",
                format!("{name:?} is not a name"),
                "use up to 64 lower-case letters, digits and hyphens",
            );
        }
        Ok(())
    }

    fn facts(&mut self, key: &str, facts: &'a [String]) -> Result<(), ProfileError> {
        for fact in facts {
            if self.profile.citation(fact).is_none() {
                return self.fail(
                    key,
                    format!("{fact:?} is cited but not explained"),
                    "add it to [facts], and the part before its first dot to [sources]",
                );
            }
            self.cited.insert(fact);
        }
        Ok(())
    }

    fn all_cited(&self) -> Result<(), ProfileError> {
        match self
            .profile
            .facts
            .keys()
            .find(|fact| !self.cited.contains(fact.as_str()))
        {
            Some(fact) => self.fail(
                "facts",
                format!("no value rests on {fact:?}"),
                "cite it or remove it",
            ),
            None => Ok(()),
        }
    }

    fn quantity(&mut self, key: &str, quantity: &'a Quantity) -> Result<(), ProfileError> {
        let Quantity {
            value,
            low,
            high,
            facts,
            citation,
            ..
        } = quantity;
        if facts.is_empty()
            && citation
                .as_deref()
                .is_none_or(|text| text.trim().is_empty())
        {
            return self.fail(
                key,
                "the value rests on nothing".into(),
                "add facts or a citation, or remove the value: absent means unknown",
            );
        }
        self.facts(key, facts)?;
        if value.is_none() && high.is_none() {
            return self.fail(
                key,
                "no value".into(),
                "give value, or high, or low and high",
            );
        }
        let numbers: Vec<f64> = [low, value, high].into_iter().flatten().copied().collect();
        if let Some(bad) = numbers
            .iter()
            .find(|number| !number.is_finite() || **number <= 0.0)
        {
            return self.fail(
                key,
                format!("{bad} is not a positive number"),
                "remove what is not known: absent means unknown, and counts as zero",
            );
        }
        if !numbers.is_sorted() {
            return self.fail(
                key,
                format!("{numbers:?} is out of order"),
                "low <= value <= high must hold",
            );
        }
        let last = key.rsplit('.').next().unwrap_or_default();
        let expected = match last {
            _ if key.starts_with("values.") => quantity.unit.dimension(),
            "max_source" | "max_destination" => Dimension::Size,
            "rate" | "to_device" | "from_device" => Dimension::Rate,
            "engines" | "queue_depth" => Dimension::Count,
            _ => Dimension::Time,
        };
        self.dimension(key, expected, quantity.unit.dimension())?;
        if key.starts_with("values.") {
            return Ok(());
        }
        let base = quantity.interval();
        if expected == Dimension::Size && (base.typ < 1.0 || base.typ > (1u64 << 40) as f64) {
            return self.fail(
                key,
                format!("{} bytes is not a size of buffer", base.typ),
                "give 1 B to 1 TiB",
            );
        }
        if expected == Dimension::Count && !(1.0..=65536.0).contains(&base.typ) {
            return self.fail(
                key,
                format!("{} is no number of them", base.typ),
                "give 1 to 65536",
            );
        }
        if expected == Dimension::Time && base.high > 3.6e12 {
            return self.fail(key, "longer than an hour".into(), "check the unit");
        }
        if expected == Dimension::Rate && base.low < 1.0 {
            return self.fail(key, "less than one byte a second".into(), "check the unit");
        }
        Ok(())
    }

    fn dimension(&self, key: &str, want: Dimension, got: Dimension) -> Result<(), ProfileError> {
        if want == got {
            return Ok(());
        }
        let units = match want {
            Dimension::Size => "B, KiB, MiB, GiB, MB or GB",
            Dimension::Rate => "MB/s, GB/s, MiB/s, GiB/s or Gb/s",
            Dimension::Time => "ns, us, ms or s",
            Dimension::Frequency => "Mops/s, Gops/s, MHz or GHz",
            Dimension::Power => "W",
            Dimension::Count => "count or %",
        };
        self.fail(
            key,
            "the unit is of another kind".into(),
            &format!("use {units}"),
        )
    }

    fn sweep(&mut self, key: &str, sweep: &'a Sweep) -> Result<(), ProfileError> {
        self.dimension(key, Dimension::Rate, sweep.unit.dimension())?;
        self.facts(key, &sweep.facts)?;
        if sweep.facts.is_empty() {
            return self.fail(key, "the rates rest on nothing".into(), "add facts");
        }
        let (sizes, rates) = (&sweep.source_bytes, &sweep.rate);
        if sizes.is_empty() || sizes.len() > MAX_SWEEP || sizes.len() != rates.len() {
            return self.fail(
                key,
                format!("{} sizes and {} rates", sizes.len(), rates.len()),
                "give 1 to 256 sizes and a rate for each",
            );
        }
        let ascending = sizes.windows(2).all(|pair| pair[0] < pair[1]);
        if sizes[0] == 0 || !ascending {
            return self.fail(
                key,
                format!("{sizes:?} does not increase"),
                "sort the sizes",
            );
        }
        let allowed =
            |rate: &f64| rate.is_finite() && (*rate > 0.0 || sweep.truncated && *rate == 0.0);
        match rates.iter().find(|rate| !allowed(rate)) {
            Some(bad) => self.fail(
                key,
                format!("{bad} is not a positive number"),
                "only truncated rates may be 0, which says less than 1",
            ),
            None => Ok(()),
        }
    }

    fn table(&mut self, key: &str, table: &'a Table) -> Result<(), ProfileError> {
        let cited = table
            .citation
            .as_deref()
            .is_some_and(|text| !text.trim().is_empty());
        if table.facts.is_empty() && !cited {
            return self.fail(
                key,
                "the values rest on nothing".into(),
                "add facts or a citation",
            );
        }
        self.facts(key, &table.facts)?;
        let (at, value) = (&table.at, &table.value);
        if at.is_empty() || at.len() > MAX_SWEEP || at.len() != value.len() {
            return self.fail(
                key,
                format!("{} points and {} values", at.len(), value.len()),
                "give 1 to 256 points and a value for each",
            );
        }
        let bad = |number: &&f64| !number.is_finite() || **number <= 0.0;
        if let Some(bad) = at.iter().chain(value).find(bad) {
            return self.fail(
                key,
                format!("{bad} is not a positive number"),
                "remove the point",
            );
        }
        if at.windows(2).any(|pair| pair[0] >= pair[1]) {
            return self.fail(key, format!("{at:?} does not increase"), "sort the points");
        }
        Ok(())
    }

    fn operations(&mut self) -> Result<(), ProfileError> {
        let profile: &'a Profile = self.profile;
        let nothing =
            profile.operations.is_empty() && profile.values.is_empty() && profile.tables.is_empty();
        if nothing || profile.operations.len() > MAX_OPERATIONS {
            return self.fail(
                "operations",
                format!("{} entries", profile.operations.len()),
                "give 1 to 64 [[operations]], or [values] or [tables]",
            );
        }
        let mut seen = BTreeSet::new();
        for entry in &profile.operations {
            let key = entry.key();
            self.facts(&key, &entry.facts)?;
            for name in &entry.does {
                if let Err(error) = name.parse::<Operation>() {
                    return self.fail(&key, error.to_string(), "write it as in compress-deflate");
                }
                if !seen.insert(name.as_str()) {
                    return self.fail(&key, format!("{name} occurs twice"), "keep one of them");
                }
            }
            if entry.does.is_empty() {
                return self.fail(&key, "it does nothing".into(), "name operations in `does`");
            }
            self.rates(&key, entry)?;
        }
        Ok(())
    }

    fn absent(&self) -> Result<(), ProfileError> {
        for (name, why) in &self.profile.absent {
            let key = format!("absent.{name}");
            let operation = name.parse::<Operation>();
            let kind = Operation::all().iter().any(|known| known.verb() == name);
            match operation {
                Err(error) if !kind => {
                    return self.fail(&key, error.to_string(), "write it as in compress-deflate");
                }
                Ok(operation) if self.profile.operation(operation).is_some() => {
                    return self.fail(&key, "it does that".into(), "keep one of them");
                }
                _ if why.trim().is_empty() => {
                    return self.fail(&key, "no reason".into(), "give a sentence, or remove it");
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn rates(&self, key: &str, entry: &OperationProfile) -> Result<(), ProfileError> {
        let matches = entry.does.iter().all(|name| name.starts_with("match-"));
        if entry.patterns.len() > MAX_PATTERNS || !entry.patterns.is_empty() && !matches {
            return self.fail(
                key,
                format!("{} patterns", entry.patterns.len()),
                "only matching has patterns, up to 256",
            );
        }
        if entry.rate.is_some() && !entry.patterns.is_empty() {
            return self.fail(key, "a rate beside patterns".into(), "keep one of them");
        }
        for one in &entry.patterns {
            if one.rate.is_some() == one.sweep.is_some() {
                return self.fail(
                    &format!("{key}.patterns.{}", one.name),
                    "neither or both of rate and sweep".into(),
                    "keep one of them",
                );
            }
        }
        Ok(())
    }
}
