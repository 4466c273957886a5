//! Conversion of a driver's status to the outcome of a job.

use overside_device::threads::outcome;
use overside_device::{JobError, Operation, Outcome, Output};
use overside_ops::{Error, MatchKind};

use crate::engine::Behavior;
use crate::queue::FinishedJob;
use crate::shim;

/// The library in errors of its own.
const LIBRARY: &str = "the DPDK driver";

/// Error text for a stream that is truncated.
pub(crate) const ENDS_EARLY: &str = "the stream ends early";

/// Converts a driver's result to the outcome of a job. `source_len` and `capacity` are the lengths
/// of the job's source and destination in bytes.
pub(crate) fn of(
    operation: Operation,
    behavior: Behavior,
    done: &FinishedJob,
    source_len: usize,
    capacity: usize,
) -> Result<Outcome, JobError> {
    let output = match operation {
        Operation::Compress(_) => compressed(done, source_len, capacity),
        Operation::Decompress(_) => decompressed(behavior, done, source_len, capacity),
        _ => copied(done, source_len),
    };
    outcome(operation, source_len, capacity, output)
}

fn compressed(done: &FinishedJob, source_len: usize, capacity: usize) -> Result<Output, Error> {
    // What DEFLATE makes at worst of bytes that it cannot compress, by engines that store nothing.
    let worst = source_len + source_len / 8 + 64;
    match done.status {
        shim::DONE if done.consumed as usize == source_len => Ok(written(done.produced)),
        shim::DONE => Err(failed(format!(
            "it compressed {} of {source_len} bytes and called that done",
            done.consumed
        ))),
        shim::NO_SPACE => Err(Error::OutputTooSmall { capacity }),
        // Older drivers of hardware have one status for all that goes wrong. Any bytes can be
        // compressed, so with a destination that is not for the worst case it was that.
        shim::ERROR if capacity < worst => Err(Error::OutputTooSmall { capacity }),
        _ => Err(other(done)),
    }
}

fn decompressed(
    behavior: Behavior,
    done: &FinishedJob,
    source_len: usize,
    capacity: usize,
) -> Result<Output, Error> {
    let consumed = done.consumed as usize;
    match done.status {
        // Into the trailer.
        shim::DONE if consumed > source_len => Err(Error::Corrupt(ENDS_EARLY.into())),
        shim::DONE if consumed < source_len => {
            Err(Error::Corrupt(format!("{} bytes follow the stream", source_len - consumed)))
        }
        shim::DONE if done.produced as usize > capacity => Err(Error::OutputTooSmall { capacity }),
        shim::DONE => Ok(written(done.produced)),
        shim::NO_SPACE => Err(Error::OutputTooSmall { capacity }),
        shim::ERROR if behavior.tells_space => {
            Err(Error::Corrupt(format!("the device finds the stream invalid{}", detail(done))))
        }
        shim::ERROR => Err(failed(format!(
            "the stream is invalid or does not fit into {capacity} bytes: the driver does not say \
             which{}",
            detail(done)
        ))),
        _ => Err(other(done)),
    }
}

fn copied(done: &FinishedJob, source_len: usize) -> Result<Output, Error> {
    match done.status {
        shim::DONE => Ok(written(source_len as u32)),
        _ => Err(other(done)),
    }
}

/// Converts the matches that the engine reports to the outcome of a matching job. The engine
/// reports the start and length of each match; a record matches if it contains a match.
pub(crate) fn matched(
    kind: MatchKind,
    done: &FinishedJob,
    source: &[u8],
    destination: &mut [u8],
) -> Result<Outcome, JobError> {
    match done.status {
        shim::DONE => {}
        shim::INCOMPLETE => {
            return Err(JobError::Failed("there are more matches than the engine reports".into()));
        }
        _ => return Err(JobError::Failed(other(done).to_string())),
    }
    let mut places = Vec::with_capacity(done.matches.len());
    for one in &done.matches {
        let (start, len) = ((one >> 32) as usize & 0xFFFF, (one >> 48) as usize);
        let Some(bytes) = source.get(start..start + len) else {
            return Err(JobError::Failed(
                "the engine reports a match outside of the source".into(),
            ));
        };
        if bytes.contains(&b'\n') {
            return Err(JobError::Failed(
                "the engine reports a match over a line's end: its rules must be compiled so that \
                 nothing matches that"
                    .into(),
            ));
        }
        places.push(start);
    }
    places.sort_unstable();
    let output = match kind {
        MatchKind::Groups => {
            let reason = "the engine does not report what groups hold";
            return Err(JobError::Failed(reason.into()));
        }
        MatchKind::Search => Output {
            written: 0,
            value: places.first().map(|place| record_start(source, *place) as u64),
        },
        MatchKind::Count => {
            let count = records(source, &places, |_| ());
            Output { written: 0, value: Some(count) }
        }
        MatchKind::Bitmap => {
            let all = source.split_inclusive(|byte| *byte == b'\n').count();
            let capacity = destination.len();
            let Some(bits) = destination.get_mut(..all.div_ceil(8)) else {
                return Err(JobError::OutputTooSmall { capacity });
            };
            bits.fill(0);
            let count = records(source, &places, |record| bits[record / 8] |= 1 << (record % 8));
            Output { written: all.div_ceil(8), value: Some(count) }
        }
    };
    Ok(Outcome::Done(output))
}

fn record_start(source: &[u8], place: usize) -> usize {
    let before = &source[..place];
    before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
}

/// Calls `found` with each record that has a place in it. Returns how many.
fn records(source: &[u8], places: &[usize], mut found: impl FnMut(usize)) -> u64 {
    let (mut count, mut next, mut start, mut record) = (0, 0, 0, 0);
    for bytes in source.split_inclusive(|byte| *byte == b'\n') {
        let end = start + bytes.len();
        let first = next;
        while places.get(next).is_some_and(|place| *place < end) {
            next += 1;
        }
        if next > first {
            count += 1;
            found(record);
        }
        (start, record) = (end, record + 1);
    }
    count
}

fn written(bytes: u32) -> Output {
    Output { written: bytes as usize, value: None }
}

fn failed(reason: String) -> Error {
    Error::Library { library: LIBRARY, reason }
}

fn other(done: &FinishedJob) -> Error {
    failed(match done.status {
        shim::INVALID => "it does not take this job".into(),
        _ => format!("it reports an error{}", detail(done)),
    })
}

fn detail(done: &FinishedJob) -> String {
    match done.detail {
        0 => String::new(),
        code => format!(" (its code {code:#x})"),
    }
}
