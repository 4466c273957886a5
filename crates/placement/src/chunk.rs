//! What goes into an executor and what comes out.

use std::sync::Arc;

use overside_device::{Applied, JobError, Outcome, Slice, Source, Stages};

use crate::{Buffer, Target};

/// What goes in: a part of the stream.
#[derive(Debug)]
pub struct Chunk {
    /// The caller's name for it; comes back with the result. Need not be unique.
    pub label: u64,
    /// What is read. It stays as it is until the result comes.
    pub source: Source,
    /// The longest result that is wanted, in bytes.
    pub destination_bytes: usize,
    /// What the result is known by, if it is known.
    pub checksum: Option<Checksum>,
}

/// A checksum that a result has to have: of a device that verifies itself by it, the work need
/// not be done twice.
#[derive(Clone, Copy, Debug)]
pub struct Checksum {
    /// How it is computed.
    pub of: fn(&[u8]) -> u32,
    /// What it has to be.
    pub value: u32,
}

impl Checksum {
    /// Whether `bytes` have it.
    pub fn is_right(&self, bytes: &[u8]) -> bool {
        (self.of)(bytes) == self.value
    }
}

impl Chunk {
    /// A chunk whose result may be as long as the executor's buffers are.
    pub fn new(label: u64, source: impl Into<Source>) -> Self {
        Self {
            label,
            source: source.into(),
            destination_bytes: usize::MAX,
            checksum: None,
        }
    }

    /// With the longest result that is wanted.
    pub fn destination_bytes(self, destination_bytes: usize) -> Self {
        Self {
            destination_bytes,
            ..self
        }
    }
}

impl From<Slice> for Chunk {
    fn from(slice: Slice) -> Self {
        Self::new(0, slice)
    }
}

/// What was read into a buffer out of the executor, up to the buffer's length.
impl From<Buffer> for Chunk {
    fn from(buffer: Buffer) -> Self {
        match buffer.share() {
            Some(slice) => Self::new(0, slice),
            None => Self::new(0, Source::Chain(Box::default())),
        }
    }
}

/// What comes out: what became of a chunk.
#[derive(Debug)]
pub struct ChunkResult {
    /// The chunk's label.
    pub label: u64,
    /// The chunk's source, handed back.
    pub source: Source,
    /// What became of it.
    pub result: Result<Outcome, JobError>,
    /// Begins with the result, if there is one. Goes back to the pool when dropped.
    pub destination: Buffer,
    /// Whose result it is.
    pub target: Target,
    /// What ran it; `None` if nothing did.
    pub applied: Option<Arc<Applied>>,
    /// Where its time went.
    pub stages: Stages,
    /// How often it was begun; more than 1 if a target failed at it.
    pub attempts: u32,
}

impl ChunkResult {
    /// The result's bytes; `None` if there are none, because it failed or is to be stored.
    pub fn output(&self) -> Option<&[u8]> {
        match self.result {
            Ok(Outcome::Done(output)) => self.destination.get(..output.written),
            Ok(Outcome::Incompressible) | Err(_) => None,
        }
    }
}
