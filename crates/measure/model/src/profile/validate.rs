//! Checks of a profile beyond its syntax. They report everything that is wrong at once.

mod contradictions;
mod numbers;

use std::collections::BTreeSet;

use overside_config::Error;
use overside_ops::{FAMILIES, Operation};

use super::{OperationProfile, Profile};

const MAX_OPERATIONS: usize = 64;
const MAX_PATTERNS: usize = 256;
/// Values and tables of one profile.
const MAX_PARAMETERS: usize = 2000;

/// Collects the errors of a profile.
struct Checker<'a> {
    profile: &'a Profile,
    cited: BTreeSet<&'a str>,
    problems: Vec<Error>,
}

/// Returns all errors that the types do not prevent.
pub(super) fn problems(profile: &Profile) -> Vec<Error> {
    let mut checker = Checker { profile, cited: BTreeSet::new(), problems: Vec::new() };
    checker.head();
    if profile.values.len() + profile.tables.len() > MAX_PARAMETERS {
        let found = profile.values.len() + profile.tables.len();
        checker.fail(
            "values",
            format!("{found} values and tables"),
            &format!("give at most {MAX_PARAMETERS}"),
        );
        return checker.problems;
    }
    for (key, quantity) in profile.quantities() {
        checker.quantity(&key, quantity);
    }
    for (key, sweep) in profile.sweeps() {
        checker.sweep(&key, sweep);
    }
    for (name, table) in &profile.tables {
        checker.table(name, table);
    }
    checker.facts("device", &profile.device.facts);
    checker.operations();
    checker.absent();
    checker.all_cited();
    if checker.problems.is_empty() {
        // Numbers that are wrong by themselves are not worth comparing.
        checker.contradictions();
    }
    checker.problems
}

impl<'a> Checker<'a> {
    fn fail(&mut self, key: &str, problem: impl Into<String>, remedy: &str) {
        self.problems.push(Error::of_key(key, problem, remedy));
    }

    fn head(&mut self) {
        let name = &self.profile.name;
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
            self.fail(
                "name",
                format!("{name:?} is not a name"),
                "use up to 64 lower-case letters, digits and hyphens",
            );
        }
    }

    fn facts(&mut self, key: &str, facts: &'a [String]) {
        for fact in facts {
            if self.profile.citation(fact).is_none() {
                self.fail(
                    key,
                    format!("{fact:?} is cited but not explained"),
                    "add it to [facts], and the part before its first dot to [sources]",
                );
            }
            self.cited.insert(fact);
        }
    }

    fn all_cited(&mut self) {
        for fact in self.profile.facts.keys() {
            if !self.cited.contains(fact.as_str()) {
                self.fail("facts", format!("no value rests on {fact:?}"), "cite it or remove it");
            }
        }
    }

    fn operations(&mut self) {
        let profile: &'a Profile = self.profile;
        let nothing =
            profile.operations.is_empty() && profile.values.is_empty() && profile.tables.is_empty();
        if nothing || profile.operations.len() > MAX_OPERATIONS {
            self.fail(
                "operations",
                format!("{} entries", profile.operations.len()),
                "give 1 to 64 [[operations]], or [values] or [tables]",
            );
        }
        let mut seen = BTreeSet::new();
        for entry in profile.operations.iter().take(MAX_OPERATIONS) {
            let key = entry.key();
            self.facts(&key, &entry.facts);
            for name in &entry.does {
                if let Err(error) = name.parse::<Operation>() {
                    self.fail(&key, error.to_string(), "write it as in compress-deflate");
                }
                if !seen.insert(name.as_str()) {
                    self.fail(&key, format!("{name} occurs twice"), "keep one of them");
                }
            }
            if let Some(name) = entry.at_least.iter().find(|name| !entry.does.contains(name)) {
                let problem = format!("{name} is in at_least and not in does");
                self.fail(&key, problem, "name it in both, or in `does` alone");
            }
            if entry.does.is_empty() {
                self.fail(&key, "it does nothing", "name operations in `does`");
            }
            self.rates(&key, entry);
        }
    }

    fn absent(&mut self) {
        for (name, why) in &self.profile.absent {
            let key = format!("absent.{name}");
            let operation = name.parse::<Operation>();
            let kind = FAMILIES.iter().any(|known| known.verb == name);
            match operation {
                Err(error) if !kind => {
                    self.fail(&key, error.to_string(), "write it as in compress-deflate");
                }
                Ok(operation) if self.profile.operation(operation).is_some() => {
                    self.fail(&key, "it does that", "keep one of them");
                }
                _ if why.trim().is_empty() => {
                    self.fail(&key, "no reason", "give a sentence, or remove it");
                }
                _ => {}
            }
        }
    }

    fn rates(&mut self, key: &str, entry: &OperationProfile) {
        let matches = entry.does.iter().all(|name| name.starts_with("match-"));
        if entry.patterns.len() > MAX_PATTERNS || !entry.patterns.is_empty() && !matches {
            self.fail(
                key,
                format!("{} patterns", entry.patterns.len()),
                "only matching has patterns, up to 256",
            );
        }
        let is_between = |[best, worst]: [f64; 2]| 0.0 <= best && best < worst && worst <= 1.0;
        if let Some(ratios) = entry.ratios.filter(|ratios| !is_between(*ratios)) {
            let problem = format!("{ratios:?} are no two ratios");
            self.fail(&format!("{key}.ratios"), problem, "give two that increase, 0 to 1");
        }
        if entry.rate.is_some() && !entry.patterns.is_empty() {
            self.fail(key, "a rate beside patterns", "keep one of them");
        }
        for one in &entry.patterns {
            if one.rate.is_some() == one.sweep.is_some() {
                self.fail(
                    &format!("{key}.patterns.{}", one.name),
                    "neither or both of rate and sweep",
                    "keep one of them",
                );
            }
        }
    }
}
