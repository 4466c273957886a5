//! Recovery of the state from a directory.

use std::fs::OpenOptions;
use std::path::Path;
use std::time::{Duration, Instant};

use super::directory::Directory;
use super::frame::{Frame, FrameReader, Kind, Next};
use super::link::{Link, Newest};
use super::{HistoryPosition, PersistenceError, Snapshots};
use crate::codec::DecodeError;
use crate::{Answer, KeyHasher, ProcessingEngine, Refusal, Request, codec};

/// Requests executed at once.
const BATCH: usize = 256;

/// Result of reading a directory at the start.
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
    /// `true` if the state is only a part of another server's state.
    pub is_partial: bool,
    /// Position in a primary's history to which the state corresponds; `None` if there is none.
    pub position: Option<HistoryPosition>,
    /// Time that reading and executing took.
    pub elapsed: Duration,
    /// Bytes of the snapshot, and of the logs.
    pub(super) snapshot_bytes: u64,
    pub(super) log_bytes: u64,
    /// Snapshot and last log; empty by default.
    pub(super) files: Newest,
}

/// Executes the snapshot and logs of the directory.
pub(super) fn recover(
    directory: &Directory,
    engine: &mut impl Snapshots,
    hasher: &KeyHasher,
) -> Result<Recovery, PersistenceError> {
    let begin = Instant::now();
    let contents = directory.contents()?;
    let mut recovered = Recovery::default();
    let mut replay = Replay { engine, hasher };
    let newest = directory.newest()?.unwrap_or_default();
    recovered.snapshot = contents.snapshots.last().copied();
    let mut first = 0;
    // The log that begins with the snapshot.
    let mut its_log = None;
    let mut before = (directory.path().into(), Link::default());
    if let Some(number) = recovered.snapshot {
        let path = directory.snapshot(number);
        let read = replay.file(&path, number)?;
        if !read.is_complete {
            let offset = read.link.len;
            return Err(PersistenceError::Damaged { path, offset });
        }
        first = number;
        // The next log and `lock` know its length: a person may have cut it.
        let log = Link { len: 0, ..read.previous };
        its_log = Some(log).filter(|log| log.identity != 0);
        recovered.files.snapshot = read.link;
        recovered.snapshot_bytes = read.link.len;
        recovered.position = read.position.flatten();
        recovered.requests += read.requests;
        before = (path, read.link);
    }
    if newest.snapshot.generation > first {
        let path = directory.snapshot(newest.snapshot.generation);
        return Err(PersistenceError::Missing { path });
    }
    let logs: Vec<u64> = contents.logs.into_iter().filter(|n| *n >= first).collect();
    // Of the logs that others name, the one that is looked for.
    let needed = [its_log, Some(newest.log).filter(|log| log.generation >= first.max(1))];
    let is_missing = |log: &&Link| !logs.contains(&log.generation);
    if let Some(log) = needed.iter().flatten().find(is_missing) {
        let path = directory.log(log.generation);
        return Err(PersistenceError::Missing { path });
    }
    // What was written behind it has nothing to go on from.
    let mut torn = Vec::new();
    for &number in &logs {
        let path = directory.log(number);
        let read = replay.file(&path, number)?;
        if number == first {
            its_log.map_or(Ok(()), |log| log.check(&path, &read.link, &before.0))?;
        } else if read.is_begun() && read.previous.generation > before.1.generation {
            let path = directory.log(read.previous.generation);
            return Err(PersistenceError::Missing { path });
        } else if read.is_begun() && read.previous.generation < before.1.generation {
            let by = before.0;
            return Err(PersistenceError::Foreign { path, by });
        } else {
            read.previous.check(&before.0, &before.1, &path)?;
        }
        if newest.log.generation == number {
            newest.log.check(&path, &read.link, &directory.lock_path())?;
        }
        if read.requests > 0
            && let Some((path, offset, _)) = torn.pop()
        {
            return Err(PersistenceError::Damaged { path, offset });
        }
        if read.torn_bytes > 0 {
            recovered.cut_bytes += read.torn_bytes;
            torn.push((path.clone(), read.link.len, read.torn_bytes));
        }
        recovered.files.log = read.link;
        recovered.logs += 1;
        recovered.is_partial = read.is_partial.unwrap_or(recovered.is_partial);
        if let Some(position) = read.position {
            recovered.position = position;
        }
        recovered.log_bytes += read.link.len;
        recovered.requests += read.requests;
        before = (path, read.link);
    }
    for (path, len, bytes) in torn {
        tracing::warn!(
            "the last {bytes} bytes of {} were not written as a whole when the server or the machine stopped, \
             and are cut off",
            path.display()
        );
        cut(&path, len)?;
    }
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
    /// The file, and the one that it names.
    link: Link,
    previous: Link,
    requests: u64,
    torn_bytes: u64,
    /// `true` if it has a frame that marks its end.
    is_complete: bool,
    /// `true` if it ends within a copy of another server, or behind the end of one.
    is_partial: Option<bool>,
    /// New position in a primary's history, if it changes it.
    position: Option<Option<HistoryPosition>>,
}

impl ReadFile {
    /// Returns `true` if the file has a first frame.
    fn is_begun(&self) -> bool {
        self.link.len > 0
    }
}

impl<E: Snapshots> Replay<'_, E> {
    /// Executes the file of a generation.
    fn file(&mut self, path: &Path, generation: u64) -> Result<ReadFile, PersistenceError> {
        let io = PersistenceError::io;
        let mut reader = FrameReader::open(path).map_err(io(path))?;
        let total = reader.len();
        let mut read = ReadFile::default();
        read.link.generation = generation;
        loop {
            read.link.len = reader.offset();
            read.link.identity = reader.identity().map_or(0, u64::from_le_bytes);
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
                    let own;
                    (own, read.previous) = Link::read(frame.payload);
                    if let Some(own) = own.filter(|own| *own != generation) {
                        let (path, generation) = (path.into(), own);
                        return Err(PersistenceError::Misnamed { path, generation });
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
            ReplayError::Request(source) => {
                PersistenceError::Request { path: path.into(), offset: frame.offset, source }
            }
            ReplayError::Refused(_) => PersistenceError::DoesNotFit { path: path.into() },
        })
    }
}

/// Reason why not all requests of a frame were executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The frame has an invalid request.
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
    /// Executes the requests of a frame. Returns their number.
    pub(crate) fn execute_payload(
        &mut self,
        payload: &[u8],
        now_ms: u64,
    ) -> Result<u64, ReplayError> {
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

    /// Executes a batch. Returns the refusal if the engine was full or takes no writes. A running
    /// server removes expired items periodically; here they are removed only when there is no room.
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
