//! Values that are sound by themselves and cannot both be true.

use super::Checker;
use crate::Axis;

/// Factor by which a figure may exceed another one that should limit it: both are rounded.
const ROUNDING: f64 = 1.01;

impl Checker<'_> {
    pub(super) fn contradictions(&mut self) {
        self.named_twice();
        self.cores();
        self.not_above(
            &["link.to_device", "link.from_device"],
            "values.pcie.rate",
            "the link cannot carry more than its lanes",
        );
        self.not_above(
            &["values.memory.l2", "values.memory.l3"],
            "values.memory.size",
            "a cache is smaller than the memory",
        );
        self.destinations();
    }

    /// The typical value of a number, by its key.
    fn typical(&self, key: &str) -> Option<f64> {
        let all = self.profile.quantities();
        let found = all.iter().find(|(known, _)| known == key)?;
        Some(found.1.interval().typ)
    }

    fn named_twice(&mut self) {
        let profile = self.profile;
        for name in profile.values.keys() {
            if profile.tables.contains_key(name) {
                self.fail(
                    &format!("values.{name}"),
                    format!("tables.{name} says it too"),
                    "keep one of them",
                );
            }
        }
    }

    /// Checks that no more cores are used than there are.
    fn cores(&mut self) {
        let cores = self.typical("values.cpu.cores");
        let threads = self.typical("values.cpu.threads");
        if let (Some(cores), Some(threads)) = (cores, threads)
            && threads < cores
        {
            self.fail(
                "values.cpu.threads",
                format!("{threads} threads on {cores} cores"),
                &format!("allowed: {cores} or more"),
            );
        }
        let Some(most) = threads.or(cores) else {
            return;
        };
        let profile = self.profile;
        for (name, table) in &profile.tables {
            let last = table.at.last().copied().unwrap_or_default();
            if table.by == Axis::Cores && last > most {
                self.fail(
                    &format!("tables.{name}.at"),
                    format!("{last} cores at work where there are {most}"),
                    &format!("allowed: 1 to {most}, as values.cpu.threads or values.cpu.cores say"),
                );
            }
        }
    }

    fn not_above(&mut self, keys: &[&str], limit: &str, why: &str) {
        let Some(most) = self.typical(limit) else {
            return;
        };
        for key in keys {
            if self.typical(key).is_some_and(|value| value > most * ROUNDING) {
                self.fail(key, format!("it is above {limit}"), why);
            }
        }
    }

    /// Decompression makes its input longer, so its destination is no smaller.
    fn destinations(&mut self) {
        let profile = self.profile;
        for entry in &profile.operations {
            let decompresses = entry.does.iter().any(|name| name.starts_with("decompress"));
            if decompresses && entry.max_destination_bytes() < entry.max_source_bytes() {
                self.fail(
                    &format!("{}.max_destination", entry.key()),
                    "it is shorter than max_source",
                    "decompressing needs room for more than it reads",
                );
            }
        }
    }
}
