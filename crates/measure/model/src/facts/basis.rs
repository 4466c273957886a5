//! Side whose bytes a rate of (de)compression counts.

use std::collections::BTreeMap;

use super::{Fact, Meta};
use crate::Basis;

/// A rule of the collection's note on `basis`, as in `000 s5.6-5.7: ... per COMPRESSED byte`.
struct Rule<'a> {
    paper: &'a str,
    /// First and last section; `None` for all.
    sections: Option<(f64, f64)>,
    basis: Basis,
}

fn basis_in(text: &str) -> Option<Basis> {
    let text = text.to_lowercase();
    match text.find("uncompressed") {
        Some(_) => Some(Basis::Uncompressed),
        None => text.contains("compressed").then_some(Basis::Compressed),
    }
}

fn section(text: &str) -> Option<f64> {
    let number = text.split(|at: char| !at.is_ascii_digit() && at != '.').next()?;
    number.parse().ok()
}

/// Parses `000 s5.6-5.7: ...; 000 s5.9 and 004: ...`. Other clauses are ignored.
fn rules(note: &str) -> Vec<Rule<'_>> {
    let mut rules = Vec::new();
    for clause in note.split(';') {
        let Some((whose, what)) = clause.split_once(':') else {
            continue;
        };
        let Some(basis) = basis_in(what) else {
            continue;
        };
        for one in whose.split(" and ") {
            let mut words = one.split_whitespace();
            let Some(paper) = words.next() else { continue };
            let sections = words.next().and_then(|text| {
                let (first, last) = text
                    .strip_prefix('s')?
                    .split_once('-')
                    .unwrap_or((text.strip_prefix('s')?, text.strip_prefix('s')?));
                Some((section(first)?, section(last)?))
            });
            rules.push(Rule { paper, sections, basis });
        }
    }
    rules
}

impl Fact {
    /// Side whose bytes its figures count, where they are rates of (de)compression and that is
    /// known: from its conditions, or else from the collection's note on `basis`.
    pub fn basis(&self, meta: &Meta) -> Option<Basis> {
        let about = |what: &str| self.workload.to_lowercase().contains(what);
        let is_codec = about("compress") || about("serialise");
        let says = format!("{} ", self.conditions).to_lowercase();
        if says.contains("basis") {
            return basis_in(says.split(['(', ';']).find(|part| part.contains("basis"))?);
        }
        let is_rate = self.unit.ends_with("/s") || self.unit.ends_with("bps");
        if !is_codec || !is_rate {
            return None;
        }
        // Compressing, a rate counts what goes in, unless somebody says otherwise.
        let compresses = !about("decompress") && !about("deserialise");
        let notes: &BTreeMap<String, String> = &meta.notes;
        let stands_in = section(&self.section);
        rules(notes.get("basis")?)
            .into_iter()
            .filter(|rule| self.paper.split_whitespace().next() == Some(rule.paper))
            .find(|rule| match (rule.sections, stands_in) {
                (None, _) => true,
                (Some((first, last)), Some(section)) => (first..=last).contains(&section),
                (Some(_), None) => false,
            })
            .map(|rule| if compresses { Basis::Uncompressed } else { rule.basis })
    }
}
