//! Chunks that go into an executor, and the results that come out.

use std::sync::Arc;

use overside_device::{Applied, JobError, Outcome, Slice, Source, Stages};

use crate::{Buffer, Target};

/// Part of the stream that the caller pushes into an executor.
#[derive(Debug)]
pub struct Chunk {
    /// The caller's name for it; comes back with the result. Need not be unique.
    pub label: u64,
    /// Bytes that the target reads. The caller must not change them until the result comes.
    pub source: Source,
    /// The longest result that is wanted, in bytes.
    pub destination_bytes: usize,
    /// Checksum that the result must have; `None` if it is not known.
    pub checksum: Option<Checksum>,
}

/// A checksum that a result has to have: of a device that verifies itself by it, the work need
/// not be done twice.
#[derive(Clone, Copy, Debug)]
pub struct Checksum {
    /// Function that computes the checksum of a result's bytes.
    pub of: fn(&[u8]) -> u32,
    /// Expected checksum.
    pub value: u32,
}

impl Checksum {
    /// Returns `true` if `bytes` have this checksum.
    pub fn is_right(&self, bytes: &[u8]) -> bool {
        (self.of)(bytes) == self.value
    }
}

impl Chunk {
    /// A chunk whose result may be as long as the executor's buffers are.
    pub fn new(label: u64, source: impl Into<Source>) -> Self {
        Self { label, source: source.into(), destination_bytes: usize::MAX, checksum: None }
    }

    /// Sets the maximum length of the result.
    pub fn destination_bytes(self, destination_bytes: usize) -> Self {
        Self { destination_bytes, ..self }
    }
}

impl From<Slice> for Chunk {
    fn from(slice: Slice) -> Self {
        Self::new(0, slice)
    }
}

/// Makes a chunk of the bytes that were read into an executor's buffer, up to the buffer's length.
impl From<Buffer> for Chunk {
    fn from(buffer: Buffer) -> Self {
        match buffer.share() {
            Some(slice) => Self::new(0, slice),
            None => Self::new(0, Source::Chain(Box::default())),
        }
    }
}

/// Result of a chunk, which the caller pulls from an executor.
#[derive(Debug)]
pub struct ChunkResult {
    /// The chunk's label.
    pub label: u64,
    /// The chunk's source, handed back.
    pub source: Source,
    /// Outcome of the operation, or the error if no target could do it.
    pub result: Result<Outcome, JobError>,
    /// Begins with the result, if there is one. Goes back to the pool when dropped.
    pub destination: Buffer,
    /// Target that the result is from.
    pub target: Target,
    /// Implementation that ran the chunk; `None` if no target ran it.
    pub applied: Option<Arc<Applied>>,
    /// Time that the chunk spent in each stage.
    pub stages: Stages,
    /// Number of times that a target began to run the chunk; more than 1 if a target failed at it.
    pub attempts: u32,
}

impl ChunkResult {
    /// Returns the result's bytes; `None` if there are none, because the job failed or the chunk is to be
    /// stored.
    pub fn output(&self) -> Option<&[u8]> {
        match self.result {
            Ok(Outcome::Done(output)) => self.destination.get(..output.written),
            Ok(Outcome::Incompressible) | Err(_) => None,
        }
    }
}
