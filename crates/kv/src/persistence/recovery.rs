//! Reading what a directory holds.

use std::fs::OpenOptions;
use std::path::Path;
use std::time::{Duration, Instant};

use super::directory::Directory;
use super::frame::{Frame, FrameReader, Kind, Next, previous};
use super::{HistoryPosition, PersistenceError, Snapshots};
use crate::codec::DecodeError;
use crate::{Answer, KeyHasher, ProcessingEngine, Refusal, Request, codec};

/// Requests executed at once.
const BATCH: usize = 256;

/// What was read at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The snapshot's number; `None`: there was none.
    pub snapshot: Option<u64>,
    /// Number of logs.
    pub logs: usize,
    /// Requests that were executed again.
    pub requests: u64,
    /// Bytes at the end of the last log that were no whole frame, and were cut off.
    pub cut_bytes: u64,
    /// What is there is a part of another server's state.
    pub is_partial: bool,
    /// Where in a primary's history what is there is the state.
    pub position: Option<HistoryPosition>,
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
) -> Result<Recovery, PersistenceError> {
    let begin = Instant::now();
    let contents = directory.contents()?;
    let mut recovered = Recovery::default();
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
        recovered.position = read.position.flatten();
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
        recovered.is_partial = read.is_partial.unwrap_or(recovered.is_partial);
        if let Some(position) = read.position {
            recovered.position = position;
        }
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
    /// It ends within a copy of another server, or behind the end of one.
    is_partial: Option<bool>,
    /// It changes where in a primary's history it is, to this.
    position: Option<Option<HistoryPosition>>,
    /// It goes on from this log, which is not there.
    missing: Option<u64>,
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
                Kind::Flush | Kind::CopyBegin => {
                    read.position = Some(None);
                    if frame.kind == Kind::CopyBegin {
                        read.is_partial = Some(true);
                    }
                    let refused = |_| PersistenceError::DoesNotFit { path: path.into() };
                    self.engine.flush().map_err(refused)?;
                    read.requests += 1;
                }
                Kind::End => read.is_complete = true,
                Kind::CopyEnd => read.is_partial = Some(false),
                Kind::Time => {}
                Kind::Requests | Kind::Copy => {
                    read.position = Some(None);
                    read.requests += self.requests(frame.payload, &frame, path)?;
                }
                Kind::Followed => {
                    let mut requests = frame.payload;
                    read.position = Some(HistoryPosition::decode(&mut requests));
                    read.requests += self.requests(requests, &frame, path)?;
                }
            }
        }
    }

    fn requests(
        &mut self,
        requests: &[u8],
        frame: &Frame<'_>,
        path: &Path,
    ) -> Result<u64, PersistenceError> {
        let executed = self.execute_payload(requests, frame.now_ms);
        executed.map_err(|error| match error {
            ReplayError::Request(source) => PersistenceError::Request {
                path: path.into(),
                offset: frame.offset,
                source,
            },
            ReplayError::Refused(_) => PersistenceError::DoesNotFit { path: path.into() },
        })
    }
}

/// Why a frame's requests were not all executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// It holds what is no request.
    #[error("a frame cannot be read: {0}")]
    Request(DecodeError),
    /// The engine refuses.
    #[error("{0}")]
    Refused(Refusal),
}

/// Executes requests again.
pub(crate) struct Replay<'e, E> {
    pub engine: &'e mut E,
    pub hasher: &'e KeyHasher,
}

impl<E: ProcessingEngine> Replay<'_, E> {
    /// Executes the requests of a frame; how many there were.
    pub fn execute_payload(&mut self, payload: &[u8], now_ms: u64) -> Result<u64, ReplayError> {
        let mut rest = payload;
        let mut requests = 0;
        let mut batch = Vec::with_capacity(BATCH);
        while !rest.is_empty() {
            batch.clear();
            while !rest.is_empty() && batch.len() < BATCH {
                let request = codec::decode(&mut rest, self.hasher);
                batch.push(request.map_err(ReplayError::Request)?);
            }
            requests += batch.len() as u64;
            if let Some(refusal) = self.execute(&batch, now_ms) {
                return Err(ReplayError::Refused(refusal));
            }
        }
        Ok(requests)
    }

    /// Why something was refused, if the engine was full or takes no writes. While it ran, what had
    /// expired was removed now and then; here only when there is no room.
    fn execute(&mut self, batch: &[Request<'_>], now_ms: u64) -> Option<Refusal> {
        let counts = self.engine.statistics();
        // In parts of ten.
        let is_nearly_full = counts.memory_bytes / 8 >= counts.memory_limit_bytes / 10
            && counts.items_with_expiry > 0;
        if !is_nearly_full {
            return self.try_execute(batch, now_ms);
        }
        batch.chunks(1).find_map(|one| {
            let refused = self.try_execute(one, now_ms)?;
            if refused == Refusal::OutOfMemory {
                self.engine.expire_some(now_ms, usize::MAX);
                return self.try_execute(one, now_ms);
            }
            Some(refused)
        })
    }

    fn try_execute(&mut self, batch: &[Request<'_>], now_ms: u64) -> Option<Refusal> {
        let mut refused = None;
        self.engine.execute(batch, now_ms, &mut |_, answer| {
            if let Answer::Refused(refusal @ (Refusal::OutOfMemory | Refusal::ReadOnly)) = answer {
                refused = Some(refusal);
            }
        });
        refused
    }
}
