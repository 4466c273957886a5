//! Scans: keys from the index, and then their values.

use std::ops::Range;

use super::{Connection, Counts, Expect};
use crate::BenchError;

impl Connection {
    /// Requests the values of the keys that a scan has found: those of the records from `record` on.
    pub(super) fn fetch_all(
        &mut self,
        record: u64,
        started_ns: u64,
        keys: &[Option<Range<usize>>],
        input: &[u8],
        counts: &mut Counts,
    ) -> Result<bool, BenchError> {
        let Some(keys) = keys.iter().cloned().collect::<Option<Vec<_>>>() else {
            return Err(self.unexpected(input));
        };
        let mut scanned = Vec::new();
        for (key, number) in keys.iter().zip(record..) {
            // The index has all records in the order of their numbers, but for what is inserted now.
            self.key.clear();
            self.settings.records.key(number, &mut self.key);
            let is_loaded = number < self.settings.records.count;
            if is_loaded && self.key != input[key.clone()] {
                return Err(self.unexpected(input));
            }
            scanned.push(is_loaded.then_some(number));
        }
        if keys.is_empty() {
            counts.misses += 1;
            return Ok(true);
        }
        let keys: Vec<&[u8]> = keys.iter().map(|range| &input[range.clone()]).collect();
        self.settings.protocol.get_all(&keys, &mut self.out);
        self.scanned.push_back(scanned);
        self.expect(Expect::Values, record, started_ns);
        Ok(false)
    }

    pub(super) fn check_all(
        &mut self,
        values: &[Option<Range<usize>>],
        input: &[u8],
        counts: &mut Counts,
    ) -> Result<(), BenchError> {
        let scanned = self.scanned.pop_front().unwrap_or_default();
        if scanned.len() != values.len() {
            return Err(self.unexpected(input));
        }
        for (record, value) in scanned.into_iter().zip(values) {
            match (record, value) {
                (_, None) => counts.misses += 1,
                (Some(record), Some(range)) => {
                    self.check(record, &input[range.clone()])?;
                    counts.hits += 1;
                }
                // Inserted meanwhile, by whatever connection.
                (None, Some(_)) => counts.hits += 1,
            }
        }
        Ok(())
    }
}
