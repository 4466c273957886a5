//! Misspelt keys of a collection.
//!
//! A collection may have more keys than are read here. A key that is nearly one of those that are
//! read is a mistake, and its value would be lost.

use std::collections::BTreeMap;

use overside_config::{Error, parse_yaml, quoted, suggest};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{BYTES_MAX, Facts};

const FACT: [&str; 17] = [
    "id",
    "paper",
    "section",
    "device",
    "workload",
    "metric",
    "value",
    "range",
    "values",
    "unit",
    "conditions",
    "kind",
    "origin",
    "use",
    "flag",
    "note",
    "corrected",
];
const ORDERING: [&str; 9] =
    ["id", "paper", "section", "statement", "lhs", "rel", "rhs", "conditions", "level"];
const ASK: &str = "ask";

#[derive(Deserialize)]
struct Keys {
    facts: Vec<BTreeMap<String, IgnoredAny>>,
    #[serde(default)]
    orderings: Vec<BTreeMap<String, IgnoredAny>>,
}

/// The first misspelt key, with the name of the fact or ordering that has it.
pub(super) fn misspelt(
    file: &str,
    text: &str,
    facts: &Facts,
) -> Result<Option<(String, Error)>, Error> {
    let keys: Keys = parse_yaml(file, text, BYTES_MAX)?;
    let of_facts = (facts.facts.iter().map(|one| &one.id)).zip(&keys.facts);
    let of_orderings = (facts.orderings.iter().map(|one| &one.id)).zip(&keys.orderings);
    Ok(first(of_facts, &FACT).or_else(|| first(of_orderings, &ORDERING)))
}

fn first<'a>(
    entries: impl Iterator<Item = (&'a String, &'a BTreeMap<String, IgnoredAny>)>,
    known: &[&str],
) -> Option<(String, Error)> {
    let known: Vec<&str> = known.iter().copied().chain([ASK]).collect();
    for (id, keys) in entries {
        for key in keys.keys().filter(|key| !known.contains(&key.as_str())) {
            if suggest(key, &known).is_some() {
                let error = Error::of_key(key, format!("there is no key {}", quoted(key)), "");
                return Some((id.clone(), error.meant(key, &known)));
            }
        }
    }
    None
}
