//! Trial of a device's operations.
//!
//! A driver's own list is not enough: it names algorithms without directions, not the treatment of
//! a stream that ends early or a destination that is too short, and software drivers take more than
//! they list. So each operation is tried on a small text when a device is set up.

// Hands jobs over and waits for them.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{DeviceId, Operation, OperationConfig, Region};
use overside_ops::{Format, MatchKind, prepare};

use crate::capabilities::MAX_SEGMENTS;
use crate::engine::{Behavior, Behaviors, Engine};
use crate::memory;
use crate::queue::{FinishedJob, Queue, token};
use crate::resources::Resources;
use crate::runtime::Runtime;
use crate::shim::{self, CHAINED, Kind, RawJob, RawSegment};

/// Longest time that a device may take for one small job.
const PATIENCE: Duration = Duration::from_secs(2);
/// The text's length in bytes.
const LEN: usize = 4000;
/// Length of a destination that is too short for the result.
const SHORT: usize = 64;

/// Number of bytes of a [`TRAILER`], which consists of ones.
///
/// Ones stop a decoder in any state in which its stream may be cut off. As a block's header they are invalid.
/// As symbols they end the block or write bytes, at 16 bits a byte or less, until the destination is full. A
/// stored block ends after one part. So a truncated stream ends as an error, for lack of space, or having
/// consumed a part of the trailer. A complete stream ends before the trailer.
pub(crate) const TRAILER_BYTES: usize = 65_535;
/// The lengths of the segments behind a stream, all of the same ones: enough to fill the longest
/// destination, and then some. The first is a single byte, because `compress_isal` counts a segment
/// of a chain when all of it is consumed, and one that it stopped in not at all.
pub(crate) const TRAILER: [usize; 4] = [1, TRAILER_BYTES, TRAILER_BYTES, TRAILER_BYTES];

/// Tries everything that a device of this class may support.
///
/// # Errors
/// The reason why it supports nothing.
pub(crate) fn behaviors(runtime: &Arc<Runtime>, engine: &Engine) -> Result<Behaviors, String> {
    let candidates = match engine.found.kind {
        Kind::Compress => vec![
            Operation::Compress(Format::Deflate),
            Operation::Decompress(Format::Deflate),
            Operation::Compress(Format::Lz4Block),
            Operation::Decompress(Format::Lz4Block),
        ],
        Kind::Copy => vec![Operation::Copy],
        // Without rules there is nothing to try.
        Kind::Match => return Ok(matching(engine)),
    };
    let (mut works, mut reasons) = (Vec::new(), Vec::new());
    for operation in candidates {
        match Trial::new(runtime, engine, operation).and_then(|mut trial| trial.run()) {
            Ok(behavior) => works.push((operation, behavior)),
            Err(reason) => reasons.push(format!("{operation}: {reason}")),
        }
    }
    match works.is_empty() {
        true => Err(reasons.join("; ")),
        false => Ok(Behaviors(works)),
    }
}

fn matching(engine: &Engine) -> Behaviors {
    let behavior = Behavior { segments: 1, needs_trailer: false, tells_space: true };
    let kinds = [MatchKind::Search, MatchKind::Count, MatchKind::Bitmap];
    match engine.limits.matches {
        0 => Behaviors::default(),
        _ => Behaviors(kinds.map(|kind| (Operation::Match(kind), behavior)).to_vec()),
    }
}

/// One operation on one device.
struct Trial<'a> {
    engine: &'a Engine,
    operation: Operation,
    queue: Arc<Queue>,
    number: u32,
    resources: Option<Resources>,
    /// The source, and a trailer behind it.
    source: Option<Region>,
    destination: Option<Region>,
    source_len: usize,
}

impl<'a> Trial<'a> {
    fn new(
        runtime: &Arc<Runtime>,
        engine: &'a Engine,
        operation: Operation,
    ) -> Result<Self, String> {
        let config = OperationConfig::new(operation);
        let resources = Resources::new(runtime, engine, &config, 1, MAX_SEGMENTS)?;
        let input = match operation {
            Operation::Decompress(format) => compute(Operation::Compress(format), &text())?,
            _ => text(),
        };
        let nobody = (DeviceId::unique(), engine.found.name.as_str());
        let alloc =
            |len| memory::allocate(runtime, nobody, len, 64).map_err(|error| error.to_string());
        let mut source = alloc(input.len() + TRAILER_BYTES)?;
        source.fill(0xFF);
        source[..input.len()].copy_from_slice(&input);
        let destination = alloc(2 * LEN)?;
        let queue = engine.queue();
        Ok(Self {
            number: queue.enter(),
            queue,
            engine,
            operation,
            resources: Some(resources),
            source: Some(source),
            destination: Some(destination),
            source_len: input.len(),
        })
    }

    fn run(&mut self) -> Result<Behavior, String> {
        let len = self.source_len;
        self.right(&[(0, len)])?;
        let decompress = matches!(self.operation, Operation::Decompress(_));
        Ok(Behavior {
            segments: match !decompress && self.takes_chains() {
                true => MAX_SEGMENTS,
                false => 1,
            },
            needs_trailer: self.needs_trailer()?,
            tells_space: !decompress || self.job(&[(0, len)], SHORT)?.status == shim::NO_SPACE,
        })
    }

    /// Returns `true` if the device accepts a chain of segments as a source. For compression, this
    /// is tried only if the driver claims to support chains. For decompression it is never tried:
    /// given a chain whose stream ends early, one of the software drivers searches for its end
    /// forever.
    fn takes_chains(&mut self) -> bool {
        let (len, half) = (self.source_len, self.source_len / 2);
        let may = self.engine.found.kind == Kind::Copy || self.engine.limits.flags & CHAINED != 0;
        may && self.right(&[(0, half), (half, len - half)]).is_ok()
    }

    /// Returns `true` if the driver may accept a stream that ends early as complete, and detects it
    /// when a trailer follows. An error means that it cannot be made to detect it.
    fn needs_trailer(&mut self) -> Result<bool, String> {
        if self.operation != Operation::Decompress(Format::Deflate) {
            return Ok(false);
        }
        let (len, mut unnoticed) = (self.source_len, false);
        for cut in 1..len {
            unnoticed |= self.job(&[(0, cut)], 2 * LEN)?.status == shim::DONE;
        }
        if !unnoticed {
            return Ok(false);
        }
        let blind = || "the driver does not notice streams that end early".to_owned();
        if !self.engine.computes_at_once() {
            return Err(blind());
        }
        let whole = self.before_trailer(len)?;
        let mut noticed = whole.status == shim::DONE && whole.consumed as usize == len;
        for cut in 1..len {
            let done = self.before_trailer(cut)?;
            noticed &= done.status != shim::DONE || done.consumed as usize != cut;
        }
        match noticed {
            true => Ok(true),
            false => Err(blind()),
        }
    }

    /// The first bytes of the stream as a source, and a trailer behind them.
    fn before_trailer(&mut self, len: usize) -> Result<FinishedJob, String> {
        let trailer = TRAILER.map(|part| (self.source_len, part));
        let segments: Vec<_> = [(0, len)].into_iter().chain(trailer).collect();
        self.job(&segments, 2 * LEN)
    }

    /// A job that must be done, and rightly.
    fn right(&mut self, segments: &[(usize, usize)]) -> Result<(), String> {
        let done = self.job(segments, 2 * LEN)?;
        match done.status {
            shim::DONE => self.check(&done),
            status => Err(format!("the driver answers a simple job with status {status}")),
        }
    }

    fn job(&mut self, segments: &[(usize, usize)], capacity: usize) -> Result<FinishedJob, String> {
        let (Some(resources), Some(source), Some(destination)) =
            (&self.resources, &self.source, &mut self.destination)
        else {
            return Err("the device did not answer".into());
        };
        destination.fill(0);
        let segments: Vec<RawSegment> = (segments.iter())
            .map(|(start, len)| RawSegment {
                start: source[*start..start + len].as_ptr(),
                len: *len as u64,
            })
            .collect();
        let job = RawJob {
            token: token(self.number, 0),
            slot: resources.slot(0),
            transform: resources.transform(0),
            segments: segments.as_ptr(),
            destination: destination.as_mut_ptr(),
            segment_count: segments.len() as u32,
            destination_len: capacity as u32,
        };
        let (give_up, mut taken) = (Instant::now() + PATIENCE, false);
        let mut all = Vec::new();
        while Instant::now() < give_up {
            if !taken {
                // SAFETY: all that the job names belongs to `self`; it is used for this job only,
                // and is leaked below if the job does not come back.
                taken = unsafe { self.queue.put(&[job]) }? == 1;
            }
            self.queue.take(self.number, &mut all)?;
            if let Some(done) = all.pop() {
                return Ok(done);
            }
            std::thread::yield_now();
        }
        if taken {
            let memory = (self.resources.take(), self.source.take(), self.destination.take());
            std::mem::forget(memory);
        }
        Err("the device did not answer".into())
    }

    /// Checks that the destination contains the correct bytes after a job that the driver reported
    /// as done.
    fn check(&self, done: &FinishedJob) -> Result<(), String> {
        let Some(destination) = &self.destination else {
            return Err("the device did not answer".into());
        };
        let text = text();
        let right = match self.operation {
            Operation::Compress(format) => (destination.get(..done.produced as usize))
                .and_then(|stream| compute(Operation::Decompress(format), stream).ok())
                .is_some_and(|back| back == text),
            _ => destination[..LEN] == text,
        };
        match right {
            true => Ok(()),
            false => Err("the device gives wrong bytes".into()),
        }
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.queue.leave(self.number);
    }
}

/// A text that compresses.
fn text() -> Vec<u8> {
    let words = b"what is said three times is true; what is said twice is not yet. ";
    words.iter().copied().cycle().take(LEN).collect()
}

/// Runs the operation on `input` with a library of `overside-ops` and returns the output.
fn compute(operation: Operation, input: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = vec![0; 2 * LEN];
    let output = prepare(&OperationConfig::new(operation))
        .and_then(|prepared| prepared.kernel())
        .and_then(|mut kernel| kernel.run(&[input], &mut out))
        .map_err(|error| error.to_string())?;
    out.truncate(output.written);
    Ok(out)
}
