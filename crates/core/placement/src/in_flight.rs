//! The table of chunks between `push` and `pull`: where each is, and in what order they leave.
//!
//! A chunk waits in a queue, runs on a target, or is done. Its source is kept while it runs on a
//! target that may fail, so that it can be run again elsewhere. While a device is silent, the CPU
//! may run the same chunk as well; the first result counts, and the other job is *superseded*: it
//! is remembered until it comes back, because its chunk may have left long before.

use std::collections::{BTreeSet, VecDeque};

use overside_device::{JobError, Source, Stages};

use crate::reorder::ReorderBuffer;
use crate::{Buffer, Checksum, Chunk, ChunkResult, Target};

/// A chunk on its way.
pub(crate) struct InFlightChunk {
    pub(crate) label: u64,
    pub(crate) source_bytes: usize,
    pub(crate) destination_bytes: usize,
    pub(crate) checksum: Option<Checksum>,
    pub(crate) attempts: u32,
    /// Device that failed at the chunk, and its error, if the CPU runs the chunk again.
    pub(crate) device_error: Option<(Target, JobError)>,
    state: ChunkState,
}

// Most chunks are done or about to be: a box each would cost more than the room it saves.
#[allow(clippy::large_enum_variant)]
enum ChunkState {
    /// The chunk is in a queue.
    Waiting(Source),
    /// The chunk is on a target; it keeps its source if that may be needed again.
    Running(Target, Option<Source>),
    /// The chunk is on a device, and on the CPU as well.
    RunningOnBoth(Target, Source),
    /// A device has finished, and its result is being verified.
    Verifying(Source),
    /// Waits for its turn.
    Done(ChunkResult),
}

/// Targets that a waiting chunk may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Any target may take the chunk.
    Shared,
    /// Only this target may take the chunk.
    Of(Target),
}

/// Chunks by their place in the stream.
pub(crate) struct InFlight {
    chunks: ReorderBuffer<InFlightChunk>,
    shared: VecDeque<u64>,
    shared_bytes: u64,
    /// Queues of the targets.
    queues: Vec<VecDeque<u64>>,
    /// Chunks that the CPU runs before all others, because results wait for them.
    retry: BTreeSet<u64>,
    /// Jobs that targets still have though their chunks are done.
    superseded: BTreeSet<(Target, u64)>,
}

impl InFlight {
    /// Room for `capacity` chunks on `targets` targets.
    pub(crate) fn new(capacity: usize, targets: usize) -> Self {
        Self {
            chunks: ReorderBuffer::new(capacity),
            shared: VecDeque::new(),
            shared_bytes: 0,
            queues: vec![VecDeque::new(); targets],
            retry: BTreeSet::new(),
            superseded: BTreeSet::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.chunks.is_full()
    }

    /// Takes a chunk whose result has at most `destination_bytes`, and returns its position in the
    /// stream. It waits for [`InFlight::enqueue`].
    pub(crate) fn push(&mut self, chunk: Chunk, destination_bytes: usize) -> u64 {
        self.chunks.push(InFlightChunk {
            label: chunk.label,
            source_bytes: chunk.source.len(),
            destination_bytes,
            checksum: chunk.checksum,
            attempts: 0,
            device_error: None,
            state: ChunkState::Waiting(chunk.source),
        })
    }

    /// Returns `true` if the next result in the order of the stream is there.
    pub(crate) fn is_ready(&self) -> bool {
        (self.chunks.front()).is_some_and(|chunk| matches!(chunk.state, ChunkState::Done(_)))
    }

    /// Returns the next result in order, if it is ready.
    pub(crate) fn pop(&mut self) -> Option<ChunkResult> {
        if !self.is_ready() {
            return None;
        }
        match self.chunks.pop()?.state {
            ChunkState::Done(result) => Some(result),
            _ => None,
        }
    }

    /// Puts a chunk behind those that wait.
    pub(crate) fn enqueue(&mut self, place: u64, queue: Queue) {
        match queue {
            Queue::Shared => {
                self.shared.push_back(place);
                self.shared_bytes += self.source_bytes(place);
            }
            Queue::Of(target) => self.queues[target.index()].push_back(place),
        }
    }

    /// Puts a chunk that was to be run back where it comes first.
    pub(crate) fn put_back(&mut self, place: u64, target: Target) {
        match target {
            Target::Cpu => {
                self.retry.insert(place);
            }
            Target::Device(_) => self.queues[target.index()].push_front(place),
        }
    }

    /// The next chunk that waits for this target and no other.
    pub(crate) fn take(&mut self, target: Target) -> Option<u64> {
        let retry = match target {
            Target::Cpu => self.retry.pop_first(),
            Target::Device(_) => None,
        };
        retry.or_else(|| self.queues[target.index()].pop_front())
    }

    /// The length of the next chunk that waits for any target.
    pub(crate) fn next_shared_bytes(&mut self) -> Option<u64> {
        let place = *self.shared.front()?;
        Some(self.source_bytes(place))
    }

    /// The next chunk that waits for any target.
    pub(crate) fn take_shared(&mut self) -> Option<u64> {
        let place = self.shared.pop_front()?;
        self.shared_bytes -= self.source_bytes(place);
        Some(place)
    }

    /// Bytes that wait for any target.
    pub(crate) fn shared_bytes(&self) -> u64 {
        self.shared_bytes
    }

    /// Returns `true` if a chunk waits in the queue that is shared by all targets.
    pub(crate) fn has_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Returns how many chunks wait for this target and no other.
    pub(crate) fn waiting(&self, target: Target) -> usize {
        self.queues[target.index()].len()
    }

    /// Returns `true` if no chunk waits in any queue.
    pub(crate) fn is_none_waiting(&self) -> bool {
        self.shared.is_empty()
            && self.retry.is_empty()
            && self.queues.iter().all(VecDeque::is_empty)
    }

    /// Empties a target's queue.
    pub(crate) fn drain(&mut self, target: Target) -> Vec<u64> {
        self.queues[target.index()].drain(..).collect()
    }

    fn source_bytes(&mut self, place: u64) -> u64 {
        (self.chunks.get_mut(place)).map_or(0, |chunk| chunk.source_bytes as u64)
    }

    /// Begins to run a chunk that waited: its source.
    pub(crate) fn start(&mut self, place: u64, target: Target) -> Option<Source> {
        let chunk = self.chunks.get_mut(place)?;
        match std::mem::replace(&mut chunk.state, ChunkState::Running(target, None)) {
            ChunkState::Waiting(source) => {
                chunk.attempts += 1;
                Some(source)
            }
            other => {
                chunk.state = other;
                None
            }
        }
    }

    /// Keeps the source of a chunk that runs.
    pub(crate) fn keep(&mut self, place: u64, source: Source) {
        if let Some(chunk) = self.chunks.get_mut(place)
            && let ChunkState::Running(_, kept) = &mut chunk.state
        {
            *kept = Some(source);
        }
    }

    /// Returns the first chunk that only one of such devices has, with the device.
    pub(crate) fn first_on(&self, is_such: impl Fn(Target) -> bool) -> Option<(u64, Target)> {
        self.chunks.iter().find_map(|(place, chunk)| match chunk.state {
            ChunkState::Running(target, Some(_)) if target.is_device() && is_such(target) => {
                Some((place, target))
            }
            _ => None,
        })
    }

    /// Begins to run a chunk that a device has on the CPU as well: its source.
    pub(crate) fn start_second(&mut self, place: u64) -> Option<Source> {
        let chunk = self.chunks.get_mut(place)?;
        let ChunkState::Running(target, Some(source)) = &chunk.state else {
            return None;
        };
        let (target, source) = (*target, source.clone());
        chunk.attempts += 1;
        chunk.state = ChunkState::RunningOnBoth(target, source.clone());
        Some(source)
    }

    /// Returns `true` if a target has a job for a chunk, superseded or not.
    pub(crate) fn is_running(&mut self, place: u64, target: Target) -> bool {
        self.is_superseded(place, target)
            || (self.chunks.get_mut(place)).is_some_and(|chunk| chunk.runs_on(target))
    }

    pub(crate) fn is_superseded(&self, place: u64, target: Target) -> bool {
        !self.superseded.is_empty() && self.superseded.contains(&(target, place))
    }

    /// Removes a superseded job that came back. Returns `true` if it was superseded.
    pub(crate) fn remove_superseded(&mut self, place: u64, target: Target) -> bool {
        !self.superseded.is_empty() && self.superseded.remove(&(target, place))
    }

    /// Removes the superseded jobs of a target. Returns their number.
    pub(crate) fn clear_superseded(&mut self, of: Target) -> usize {
        let before = self.superseded.len();
        self.superseded.retain(|(target, _)| *target != of);
        before - self.superseded.len()
    }

    /// Returns the checksum that the chunk's result must have; `None` if it is not known.
    pub(crate) fn checksum(&mut self, place: u64) -> Option<Checksum> {
        self.chunks.get_mut(place)?.checksum
    }

    /// A device is done with a chunk, and its result is verified before it counts: the chunk's
    /// source. `come_back` is the job's source.
    pub(crate) fn begin_verifying(&mut self, place: u64, come_back: &Source) -> Option<Source> {
        let chunk = self.chunks.get_mut(place)?;
        let ChunkState::Running(Target::Device(_), kept) = &mut chunk.state else {
            return None;
        };
        let source = kept.take().unwrap_or_else(|| come_back.clone());
        chunk.state = ChunkState::Verifying(source.clone());
        Some(source)
    }

    /// The chunks that a target has, but those that are done.
    pub(crate) fn running_on(&self, target: Target) -> Vec<u64> {
        (self.chunks.iter())
            .filter(|(_, chunk)| chunk.runs_on(target))
            .map(|(place, _)| place)
            .collect()
    }

    /// Records that a device finished a chunk without a result. Returns `true` if that does not
    /// matter, because the CPU runs or ran the chunk as well.
    pub(crate) fn drop_from(&mut self, place: u64, device: Target) -> bool {
        if self.remove_superseded(place, device) {
            return true;
        }
        let Some(chunk) = self.chunks.get_mut(place) else {
            return false;
        };
        let ChunkState::RunningOnBoth(_, source) = &chunk.state else {
            return false;
        };
        chunk.state = ChunkState::Running(Target::Cpu, Some(source.clone()));
        true
    }

    /// Queues a device's chunk again; `source` is its source if none was kept.
    pub(crate) fn retry(
        &mut self,
        place: u64,
        device: Target,
        source: Option<Source>,
        error: JobError,
    ) {
        if self.unstart(place, source).is_some_and(|chunk| {
            chunk.device_error = Some((device, error));
            true
        }) {
            self.retry.insert(place);
        }
    }

    /// Queues a chunk for a device again that never took it.
    pub(crate) fn withdraw(&mut self, place: u64, device: Target) {
        let Some(chunk) = self.unstart(place, None) else {
            return;
        };
        chunk.attempts -= 1;
        self.queues[device.index()].push_back(place);
    }

    fn unstart(&mut self, place: u64, source: Option<Source>) -> Option<&mut InFlightChunk> {
        let chunk = self.chunks.get_mut(place)?;
        let none = ChunkState::Running(Target::Cpu, None);
        chunk.state = match (std::mem::replace(&mut chunk.state, none), source) {
            (
                ChunkState::Running(_, Some(source))
                | ChunkState::Waiting(source)
                | ChunkState::Verifying(source),
                _,
            )
            | (ChunkState::Running(_, None), Some(source)) => ChunkState::Waiting(source),
            (other, _) => {
                chunk.state = other;
                return None;
            }
        };
        Some(chunk)
    }

    /// Ends a chunk with `result`, to which it passes the source, if that was kept.
    pub(crate) fn finish(
        &mut self,
        place: u64,
        target: Target,
        result: impl FnOnce(&mut InFlightChunk, Option<Source>) -> ChunkResult,
    ) {
        let Some(chunk) = self.chunks.get_mut(place) else {
            return;
        };
        let none = ChunkState::Running(target, None);
        let kept = match std::mem::replace(&mut chunk.state, none) {
            ChunkState::Running(_, kept) => kept,
            ChunkState::RunningOnBoth(device, source) => {
                let other = if target == device { Target::Cpu } else { device };
                self.superseded.insert((other, place));
                Some(source)
            }
            ChunkState::Verifying(source) => Some(source),
            ChunkState::Waiting(_) | ChunkState::Done(_) => None,
        };
        chunk.state = ChunkState::Done(result(chunk, kept));
    }

    /// Ends a chunk without a result, unless it has one.
    pub(crate) fn fail(&mut self, place: u64, target: Target, error: JobError) {
        let Some(chunk) = self.chunks.get_mut(place) else {
            return;
        };
        let none = ChunkState::Running(target, None);
        let source = match std::mem::replace(&mut chunk.state, none) {
            ChunkState::Waiting(source)
            | ChunkState::Running(_, Some(source))
            | ChunkState::RunningOnBoth(_, source)
            | ChunkState::Verifying(source) => source,
            ChunkState::Running(_, None) => Source::Chain(Box::default()),
            done @ ChunkState::Done(_) => {
                chunk.state = done;
                return;
            }
        };
        chunk.state = ChunkState::Done(ChunkResult {
            label: chunk.label,
            source,
            result: Err(error),
            destination: Buffer::none(),
            target,
            applied: None,
            stages: Stages::default(),
            attempts: chunk.attempts,
        });
    }
}

impl InFlightChunk {
    fn runs_on(&self, target: Target) -> bool {
        match self.state {
            ChunkState::Running(on, _) => on == target,
            ChunkState::RunningOnBoth(device, _) => target == device || target == Target::Cpu,
            ChunkState::Waiting(_) | ChunkState::Verifying(_) | ChunkState::Done(_) => false,
        }
    }
}
