//! Reading what a directory holds.

use std::fs::OpenOptions;
use std::path::Path;
use std::time::{Duration, Instant};

use super::directory::Directory;
use super::frame::{Frame, FrameReader, Kind, Next, previous};
use super::{PersistenceError, Snapshots};
use crate::{Answer, KeyHasher, Refusal, Request, codec};

/// Requests executed at once.
const BATCH: usize = 256;

/// What was read at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The snapshot's number; `None`: there was none.
    pub snapshot: Option<u64>,
    /// Number of logs.
    pub logs: usize,
    /// Requests that were executed again.
    pub requests: u64,
    /// Bytes at the end of the last log that were no whole frame, and were cut off.
    pub cut_bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// Bytes of the snapshot, and of the logs.
    pub(super) snapshot_bytes: u64,
    pub(super) log_bytes: u64,
    /// The greatest number there is; 0: the directory was empty.
    pub(super) generation: u64,
}

/// Executes what the directory holds.
pub(super) fn recover(
    directory: &Directory,
    engine: &mut impl Snapshots,
    hasher: &KeyHasher,
) -> Result<Recovered, PersistenceError> {
    let begin = Instant::now();
    let contents = directory.contents()?;
    let mut recovered = Recovered::default();
    let mut replay = Replay { engine, hasher };
    let newest = contents.snapshots.last().copied();
    if let Some(number) = newest {
        let path = directory.snapshot(number);
        let read = replay.file(&path, None)?;
        if !read.is_complete {
            let offset = read.len;
            return Err(PersistenceError::Damaged { path, offset });
        }
        recovered.snapshot = newest;
        recovered.snapshot_bytes = read.len;
        recovered.requests += read.requests;
    }
    let first = newest.unwrap_or_default();
    let logs: Vec<u64> = contents.logs.into_iter().filter(|n| *n >= first).collect();
    let mut before = first;
    // What was written behind it has nothing to go on from.
    let mut torn = Vec::new();
    for &number in &logs {
        let path = directory.log(number);
        // The log of a snapshot's number begins with it.
        let expected = (number != first || newest.is_none()).then_some(before);
        let read = replay.file(&path, expected)?;
        if let Some(missing) = read.missing {
            let path = directory.log(missing);
            return Err(PersistenceError::Missing { path });
        }
        if read.requests > 0
            && let Some((path, offset)) = torn.pop()
        {
            return Err(PersistenceError::Damaged { path, offset });
        }
        if read.torn_bytes > 0 {
            recovered.cut_bytes += read.torn_bytes;
            torn.push((path, read.len));
        }
        before = number;
        recovered.logs += 1;
        recovered.log_bytes += read.len;
        recovered.requests += read.requests;
    }
    for (path, len) in torn {
        cut(&path, len)?;
    }
    recovered.generation = before;
    recovered.elapsed = begin.elapsed();
    Ok(recovered)
}

/// Ends the file behind its last whole frame.
fn cut(path: &Path, len: u64) -> Result<(), PersistenceError> {
    let cut = || {
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(len)?;
        file.sync_all()
    };
    cut().map_err(PersistenceError::io(path))
}

#[derive(Default)]
struct ReadFile {
    /// Bytes of whole frames.
    len: u64,
    requests: u64,
    torn_bytes: u64,
    /// It has a frame that says so.
    is_complete: bool,
    /// It goes on from this log, which is not there.
    missing: Option<u64>,
}

struct Replay<'e, E> {
    engine: &'e mut E,
    hasher: &'e KeyHasher,
}

impl<E: Snapshots> Replay<'_, E> {
    /// Executes a file. `expected`: what it must go on from.
    fn file(&mut self, path: &Path, expected: Option<u64>) -> Result<ReadFile, PersistenceError> {
        let io = PersistenceError::io;
        let mut reader = FrameReader::open(path).map_err(io(path))?;
        let total = reader.len();
        let mut read = ReadFile::default();
        loop {
            read.len = reader.offset();
            let frame = match reader.next().map_err(io(path))? {
                Next::Frame(frame) => frame,
                Next::End => return Ok(read),
                Next::Torn { offset } => {
                    read.torn_bytes = total - offset;
                    return Ok(read);
                }
                Next::Damaged { offset } => {
                    let path = path.into();
                    return Err(PersistenceError::Damaged { path, offset });
                }
                Next::Format(format) => {
                    let path = path.into();
                    return Err(PersistenceError::Format { path, format });
                }
            };
            match frame.kind {
                Kind::Begin => {
                    let previous = previous(frame.payload).unwrap_or_default();
                    if expected.is_some_and(|expected| expected != previous) {
                        read.missing = Some(previous);
                        return Ok(read);
                    }
                }
                Kind::Flush => {
                    let refused = |_| PersistenceError::DoesNotFit { path: path.into() };
                    self.engine.flush().map_err(refused)?;
                    read.requests += 1;
                }
                Kind::End => read.is_complete = true,
                Kind::Requests => read.requests += self.requests(&frame, path)?,
            }
        }
    }

    fn requests(&mut self, frame: &Frame<'_>, path: &Path) -> Result<u64, PersistenceError> {
        let mut rest = frame.payload;
        let mut requests = 0;
        let mut batch = Vec::with_capacity(BATCH);
        while !rest.is_empty() {
            batch.clear();
            while !rest.is_empty() && batch.len() < BATCH {
                let request = codec::decode(&mut rest, self.hasher);
                batch.push(request.map_err(|source| PersistenceError::Request {
                    path: path.into(),
                    offset: frame.offset,
                    source,
                })?);
            }
            requests += batch.len() as u64;
            if self.execute(&batch, frame.now_ms) {
                return Err(PersistenceError::DoesNotFit { path: path.into() });
            }
        }
        Ok(requests)
    }

    /// Whether something was refused because the engine was full. While it ran, what had expired was
    /// removed now and then; here only when there is no room.
    fn execute(&mut self, batch: &[Request<'_>], now_ms: u64) -> bool {
        let counts = self.engine.statistics();
        // In parts of ten.
        let is_nearly_full = counts.memory_bytes / 8 >= counts.memory_limit_bytes / 10
            && counts.items_with_expiry > 0;
        if !is_nearly_full {
            return self.try_execute(batch, now_ms);
        }
        batch.chunks(1).any(|one| {
            self.try_execute(one, now_ms) && {
                self.engine.expire_some(now_ms, usize::MAX);
                self.try_execute(one, now_ms)
            }
        })
    }

    fn try_execute(&mut self, batch: &[Request<'_>], now_ms: u64) -> bool {
        let mut is_full = false;
        self.engine.execute(batch, now_ms, &mut |_, answer| {
            is_full |= answer == Answer::Refused(Refusal::OutOfMemory);
        });
        is_full
    }
}
