//! Helpers that several tests share: a sink that keeps records, a reference matcher, and options.
#![allow(dead_code)]

use std::io;
use std::sync::Arc;

use overside_device::{Device, Timing};
use overside_match::{Answer, Options, SearchSummary, SelectedRecord, Sink};
use overside_placement::Policy;
use regex::bytes::{Regex, RegexBuilder};

/// A record as it was found.
pub(crate) type Record = (u64, Option<u64>, Option<Vec<u8>>);

/// Keeps the records that are found.
#[derive(Default)]
pub(crate) struct Kept {
    pub records: Vec<Record>,
    /// Number of records that are wanted; all if `None`.
    pub most: Option<usize>,
    pub idle: usize,
}

impl Sink for Kept {
    fn found(&mut self, found: SelectedRecord<'_>) -> io::Result<bool> {
        let value = found.value.map(<[u8]>::to_vec);
        self.records.push((found.number, found.offset, value));
        Ok(self.most.is_none_or(|most| self.records.len() < most))
    }

    fn idle(&mut self) -> io::Result<()> {
        self.idle += 1;
        Ok(())
    }
}

/// Reference that decides by the `regex` crate only which records match.
pub(crate) struct Oracle(Vec<Regex>);

impl Oracle {
    pub(crate) fn new(patterns: &[&str]) -> Self {
        let build = |pattern: &&str| RegexBuilder::new(pattern).unicode(false).build().unwrap();
        Self(patterns.iter().map(build).collect())
    }

    pub(crate) fn matches(&self, record: &[u8]) -> bool {
        self.0.iter().any(|pattern| pattern.is_match(record))
    }

    /// The lines of a text that match, or that do not.
    pub(crate) fn lines(&self, text: &[u8], invert: bool) -> Vec<Record> {
        let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
        if lines.last().is_some_and(|last| last.is_empty()) {
            lines.pop();
        }
        let mut offset = 0;
        let mut found = Vec::new();
        for (index, line) in lines.into_iter().enumerate() {
            if self.matches(line) != invert {
                found.push((index as u64 + 1, Some(offset), Some(line.to_vec())));
            }
            offset += line.len() as u64 + 1;
        }
        found
    }

    /// The rows that match, or that do not.
    pub(crate) fn rows(&self, rows: &[Option<Vec<u8>>], invert: bool) -> Vec<Record> {
        let matches = |row: &Option<Vec<u8>>| row.as_ref().is_some_and(|row| self.matches(row));
        (rows.iter().enumerate())
            .filter(|(_, row)| matches(row) != invert)
            .map(|(index, row)| (index as u64 + 1, None, row.clone()))
            .collect()
    }
}

/// Options for these patterns, with numbers.
pub(crate) fn options(patterns: &[&str], answer: Answer) -> Options {
    let mut options = Options::new(patterns.iter().copied());
    options.answer = answer;
    options.numbers = true;
    options
}

/// A BlueField-2 without its times.
pub(crate) fn bluefield() -> Arc<dyn Device> {
    let how = overside_backends::Options {
        timing: Some(Timing::Functional),
        ..overside_backends::Options::default()
    };
    overside_backends::open("emulated:bf2", &how).expect("its profile is built in")
}

/// All placements of work on that device.
pub(crate) fn placements() -> [Policy; 4] {
    [Policy::Cpu, Policy::Device, Policy::split(40.0).unwrap(), Policy::Adaptive]
}

pub(crate) fn selected(selected: u64) -> SearchSummary {
    SearchSummary { selected, ..SearchSummary::default() }
}
