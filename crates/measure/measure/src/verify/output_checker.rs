//! Looks at every output of one device: in full when a buffer's is seen for the first time, enough to
//! recognise it from then on.

use std::cell::RefCell;
use std::time::Instant;

use overside_device::{Applied, OperationConfig, Outcome};
use overside_probe::{Failure, FailureKind};

use super::{Expected, ReferenceCache, TestBuffers, Verifier};
use crate::sample::Check;

/// State of verifying one device's outputs.
pub(crate) struct OutputChecker<'a> {
    /// The device that has to run every job.
    device: String,
    config: &'a OperationConfig,
    buffers: &'a TestBuffers,
    cache: &'a RefCell<ReferenceCache>,
    /// Time at which the sample fails if it is not finished.
    deadline: Instant,
    /// Verifier of the outputs. It depends on the library that made them, so it is created at the
    /// first completion; `None` before.
    verifier: Option<Verifier>,
    /// Expected results of the buffers.
    expected: Vec<Option<Expected>>,
    /// Outputs that were right though not the same as before.
    pub varied: u64,
}

impl<'a> OutputChecker<'a> {
    /// Knows nothing yet.
    pub(crate) fn new(
        device: &str,
        config: &'a OperationConfig,
        buffers: &'a TestBuffers,
        cache: &'a RefCell<ReferenceCache>,
        deadline: Instant,
    ) -> Self {
        Self {
            device: device.into(),
            config,
            buffers,
            cache,
            deadline,
            verifier: None,
            expected: vec![None; buffers.source.count()],
            varied: 0,
        }
    }

    /// Returns the length in bytes of buffer `number` on the uncompressed side.
    pub(crate) fn original_bytes(&self, number: usize) -> usize {
        self.buffers.original.get(number).len()
    }

    /// Checks that a completion is the device's right result for buffer `number`. The first one is
    /// verified in full; later ones are compared with it and verified in full only if they differ.
    pub(crate) fn check(
        &mut self,
        number: usize,
        source_bytes: usize,
        outcome: &Outcome,
        applied: &Applied,
        destination: &[u8],
    ) -> Result<(), Failure> {
        if applied.device != self.device {
            let (asked, ran) = (&self.device, &applied.device);
            let message = format!("{asked} was asked, but {ran} ran the job");
            return Err(Failure::new(FailureKind::Verification, message));
        }
        match &self.expected[number] {
            Some(expected) if expected.looks_like(outcome, destination) => return Ok(()),
            Some(expected) => {
                expected.not_incompressible(outcome, source_bytes)?;
                // Not what was seen before. That is wrong unless it stands the full test: some
                // compressors' outputs depend on what they did before.
                self.verify(number, outcome, applied, destination)?;
                self.varied += 1;
            }
            None => {
                self.verify(number, outcome, applied, destination)?;
                self.expected[number] = Some(Expected::new(*outcome, destination));
            }
        }
        Ok(())
    }

    /// Checks that an output equals the one that [`OutputChecker::check`] saw, in every byte, or
    /// passes the full verification.
    pub(crate) fn check_whole(
        &mut self,
        number: usize,
        outcome: &Outcome,
        destination: &[u8],
    ) -> Result<(), Failure> {
        match (&self.expected[number], &mut self.verifier) {
            (Some(expected), _) if expected.is(outcome, destination) => Ok(()),
            (_, Some(verifier)) => verifier.check(number, outcome, destination),
            (_, None) => Ok(()),
        }
    }

    /// Overwrites the end of the place where the output of buffer `number` will be.
    pub(crate) fn poison(&self, number: usize, destination: &mut [u8]) {
        if let Some(expected) = &self.expected[number] {
            expected.poison(destination);
        }
    }

    /// Returns how the outputs were verified. Fails if a buffer's output was never verified.
    pub(crate) fn summary(&self) -> Result<Check, Failure> {
        match &self.verifier {
            Some(verifier) if self.expected.iter().all(Option::is_some) => {
                Ok(verifier.summary(self.expected.len()))
            }
            _ => Err(Failure::new(FailureKind::Verification, "not every buffer came back")),
        }
    }

    fn verify(
        &mut self,
        number: usize,
        outcome: &Outcome,
        applied: &Applied,
        destination: &[u8],
    ) -> Result<(), Failure> {
        let verifier = match &mut self.verifier {
            Some(verifier) => verifier,
            None => {
                let cache = &mut self.cache.borrow_mut();
                let made = Verifier::new(self.config, &applied.variant, self.buffers, cache)?;
                self.verifier.insert(made)
            }
        };
        verifier.check(number, outcome, destination)?;
        if Instant::now() > self.deadline {
            let message = "verification was not done before the test's time was over";
            return Err(Failure::new(FailureKind::Timeout, message));
        }
        Ok(())
    }
}
