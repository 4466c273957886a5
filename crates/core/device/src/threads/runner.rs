//! Running a kernel on a job, and reporting the outcome.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use overside_base::panic_text;
use overside_ops::{Error, Kernel, Lengths, Operation, Output, Prepared};

use crate::{JobError, Outcome, Source};

/// Segments up to here are gathered without allocating.
const FEW_SEGMENTS: usize = 16;

/// One thread's kernel. Survives a kernel that panics: the job fails and the next one gets a
/// fresh kernel.
pub struct Runner {
    operation: Operation,
    prepared: Arc<Prepared>,
    kernel: Option<Box<dyn Kernel>>,
}

impl Runner {
    /// Makes a kernel of `prepared`, which was prepared for `operation`.
    ///
    /// # Errors
    /// [`Error::Library`] if the library cannot allocate its state.
    pub fn new(operation: Operation, prepared: Arc<Prepared>) -> Result<Self, Error> {
        let kernel = Some(prepared.kernel()?);
        Ok(Self { operation, prepared, kernel })
    }

    /// Runs the kernel on a job's source and destination.
    ///
    /// # Errors
    /// As [`outcome`]; [`JobError::Failed`] if the kernel panics.
    pub fn run(&mut self, source: &Source, destination: &mut [u8]) -> Result<Outcome, JobError> {
        let kernel = match &mut self.kernel {
            Some(kernel) => kernel,
            none => {
                let kernel = self.prepared.kernel();
                none.insert(kernel.map_err(|error| JobError::Failed(error.to_string()))?)
            }
        };
        let (source_len, capacity) = (source.len(), destination.len());
        let result = catch_unwind(AssertUnwindSafe(|| match source.segments() {
            [one] => kernel.run(&[one], destination),
            few if few.len() <= FEW_SEGMENTS => {
                let mut gathered: [&[u8]; FEW_SEGMENTS] = [&[]; FEW_SEGMENTS];
                gathered.iter_mut().zip(few).for_each(|(to, from)| *to = from);
                kernel.run(&gathered[..few.len()], destination)
            }
            many => {
                let gathered: Vec<&[u8]> = many.iter().map(|slice| &**slice).collect();
                kernel.run(&gathered, destination)
            }
        }));
        match result {
            Ok(result) => outcome(self.operation, source_len, capacity, result),
            Err(panic) => {
                self.kernel = None;
                Err(JobError::Failed(format!("the library panicked: {}", panic_text(&*panic))))
            }
        }
    }
}

/// Converts the result of a kernel to the result of a job, by the rules that every backend keeps.
///
/// * Compression whose result would not be smaller than its source is
///   [`Outcome::Incompressible`], also if it was the destination that ended first, as long as
///   the destination was not the shorter of the two.
/// * A result that would not fit otherwise is [`JobError::OutputTooSmall`].
/// * A kernel that claims to have written more than it was given room for has failed.
///
/// # Errors
/// [`JobError`], never [`JobError::DeadlineExceeded`].
pub fn outcome(
    operation: Operation,
    source_len: usize,
    capacity: usize,
    result: Result<Output, Error>,
) -> Result<Outcome, JobError> {
    let shrinks = operation.lengths() == Lengths::Shrinks;
    match result {
        Ok(output) if output.written > capacity => Err(JobError::Failed(format!(
            "the library reports {} bytes in a destination of {capacity}",
            output.written
        ))),
        Ok(output) if shrinks && output.written >= source_len => Ok(Outcome::Incompressible),
        Ok(output) => Ok(Outcome::Done(output)),
        Err(Error::OutputTooSmall { .. }) if shrinks && capacity >= source_len => {
            Ok(Outcome::Incompressible)
        }
        Err(Error::OutputTooSmall { .. }) => Err(JobError::OutputTooSmall { capacity }),
        Err(Error::Corrupt(reason)) => Err(JobError::Corrupt(reason)),
        Err(error) => Err(JobError::Failed(error.to_string())),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use overside_ops::Format;

    const COMPRESS: Operation = Operation::Compress(Format::Deflate);
    const DECOMPRESS: Operation = Operation::Decompress(Format::Deflate);

    fn written(written: usize) -> Result<Output, Error> {
        Ok(Output { written, value: None })
    }

    fn too_small(capacity: usize) -> Result<Output, Error> {
        Err(Error::OutputTooSmall { capacity })
    }

    #[test]
    fn output_that_is_not_smaller_than_its_source_is_incompressible() {
        let done = Ok(Outcome::Done(Output { written: 99, value: None }));
        assert_eq!(outcome(COMPRESS, 100, 200, written(99)), done);
        assert_eq!(outcome(COMPRESS, 100, 200, written(100)), Ok(Outcome::Incompressible));
        assert_eq!(outcome(COMPRESS, 0, 200, written(2)), Ok(Outcome::Incompressible));
        assert_eq!(outcome(COMPRESS, 100, 100, too_small(100)), Ok(Outcome::Incompressible));
    }

    #[test]
    fn a_destination_shorter_than_needed_is_too_small() {
        let error = Err(JobError::OutputTooSmall { capacity: 99 });
        assert_eq!(outcome(COMPRESS, 100, 99, too_small(99)), error);
        assert_eq!(outcome(DECOMPRESS, 10, 99, too_small(99)), error);
    }

    #[test]
    fn decompression_may_write_less_or_more_than_it_reads() {
        for len in [1, 10, 1000] {
            let done = Ok(Outcome::Done(Output { written: len, value: None }));
            assert_eq!(outcome(DECOMPRESS, 10, 1000, written(len)), done);
        }
    }

    #[test]
    fn a_library_that_overstates_its_output_has_failed() {
        let result = outcome(DECOMPRESS, 10, 99, written(100));
        assert!(matches!(result, Err(JobError::Failed(_))), "{result:?}");
    }
}
