//! Results that another implementation gives, kept from test to test.

use std::collections::VecDeque;
use std::sync::Arc;

use overside_device::{Operation, Output};
use overside_ops::{Config, prepare};
use overside_probe::{Failure, FailureKind};

use super::{internal, shown};
use crate::data::Buffers;

/// Results of another implementation for every source.
pub(crate) struct ReferenceResults {
    pub(super) method: String,
    pub(super) all: Vec<(Output, Vec<u8>)>,
}

impl ReferenceResults {
    /// Bytes of memory they take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.all.iter().map(|(_, bytes)| (bytes.len() + 64) as u64).sum()
    }

    /// The same results, if `engine` returns them too.
    pub(super) fn cross_checked(
        mut self,
        config: &Config,
        engine: &str,
        sources: &Buffers,
    ) -> Result<Self, Failure> {
        let config = Config { variant: engine.into(), ..config.clone() };
        let mut kernel =
            prepare(&config).and_then(|prepared| prepared.kernel()).map_err(internal)?;
        // Room for a longer answer, so that it is told from the right one.
        let longest = self.all.iter().map(|(_, bytes)| bytes.len()).max();
        let mut out = vec![0; longest.unwrap_or(0) + 4096];
        for (number, (source, (right, bytes))) in sources.iter().zip(&self.all).enumerate() {
            let done = kernel.run(&[source], &mut out).map_err(internal)?;
            if done != *right || out[..done.written] != **bytes {
                let message = format!(
                    "buffer {number}: {engine} says {}, but Rust's regex, record by record, {}",
                    shown(done.value),
                    shown(right.value)
                );
                return Err(Failure::new(FailureKind::Verification, message));
            }
        }
        self.method.push_str(&format!(", and with that of {engine}"));
        Ok(self)
    }
}

/// Reference results that are kept from test to test. They depend only on the fields of a
/// `ReferenceKey`.
#[derive(Default)]
pub(crate) struct ReferenceCache {
    kept: VecDeque<(ReferenceKey, Arc<ReferenceResults>)>,
}

/// Inputs that determine the results: the sources (the key keeps them alive, so no others can have
/// the same address), the operation, the patterns, and the implementation that computes the
/// results.
#[derive(Clone)]
pub(super) struct ReferenceKey {
    pub sources: Arc<Buffers>,
    pub operation: Operation,
    pub patterns: Vec<String>,
    pub by: String,
}

impl PartialEq for ReferenceKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.sources, &other.sources)
            && self.operation == other.operation
            && self.patterns == other.patterns
            && self.by == other.by
    }
}

impl ReferenceCache {
    const ENTRIES_MAX: usize = 16;
    const BYTES_MAX: u64 = 256 << 20;

    pub(super) fn get(
        &mut self,
        key: ReferenceKey,
        make: impl FnOnce() -> Result<ReferenceResults, Failure>,
    ) -> Result<Arc<ReferenceResults>, Failure> {
        if let Some((_, answers)) = self.kept.iter().find(|(kept, _)| *kept == key) {
            return Ok(Arc::clone(answers));
        }
        let answers = Arc::new(make()?);
        self.kept.push_back((key, Arc::clone(&answers)));
        let bytes = |kept: &VecDeque<(ReferenceKey, Arc<ReferenceResults>)>| -> u64 {
            kept.iter().map(|(_, answers)| answers.memory_bytes()).sum()
        };
        while self.kept.len() > Self::ENTRIES_MAX
            || (self.kept.len() > 1 && bytes(&self.kept) > Self::BYTES_MAX)
        {
            self.kept.pop_front();
        }
        Ok(answers)
    }

    /// Forgets the results of sources that have no other handle.
    pub(crate) fn forget_unused(&mut self) {
        self.kept.retain(|(key, _)| Arc::strong_count(&key.sources) > 1);
    }
}
