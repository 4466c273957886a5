//! Batches that wait: in memory up to a limit, and then on disk.
//!
//! 1. Each batch has a position. Readers have a cursor and get the batches from it on; batches that a reader is done
//!    with are released. A reader that starts again goes back to the first position that is not released.
//! 2. When memory is full, everything that is not released is written to disk, oldest first, and so
//!    are later batches, until the rest fits into memory. So the batches on disk have no gaps, and
//!    can be acknowledged.
//! 3. When the disk's share is used up, or without one, the producer that adds a batch waits.

pub mod spill;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use overside_base::lock;
use tokio::sync::Notify;

use crate::counted::Counted;
use crate::input::batch::{Batch, RecordError};
use crate::queue::spill::{Spill, SpillError, SpillLocation, SpillOptions};

/// Longest wait between two attempts to add a batch that found no room or could not be spilled.
const RETRY: Duration = Duration::from_millis(200);

/// Receipt of a batch, which is settled when the batch is safe. One that is dropped before means
/// that the batch is not.
pub trait Ack: Send + 'static {
    /// The batch is delivered or on disk.
    fn committed(self);

    /// Returns `false` if the batch is not to be kept any more: it will be sent again.
    fn is_current(&self) -> bool {
        true
    }
}

/// Batches that wait.
pub struct Queue<R> {
    memory_limit_bytes: usize,
    state: Mutex<Backlog<R>>,
    readable: Notify,
    writable: Notify,
    /// Number of callers that wait for room.
    waiting: AtomicUsize,
}

struct Backlog<R> {
    /// The position of the first slot.
    first: u64,
    slots: VecDeque<Slot<R>>,
    memory_bytes: usize,
    spill: Option<Spill>,
    is_spilling: bool,
    /// Slots that are on disk only.
    disk_only: usize,
    is_closed: bool,
    counts: QueueCounts,
}

struct Slot<R> {
    /// Absent if it is on disk only.
    batch: Option<Arc<Batch>>,
    place: Option<SpillLocation>,
    memory_bytes: usize,
    receipt: Option<R>,
    is_released: bool,
    since: Instant,
}

impl<R: Ack> Slot<R> {
    /// Returns `true` if the batch is neither delivered nor on disk, and nobody will send it again.
    fn is_unsafe(&self) -> bool {
        let is_current = self.receipt.as_ref().is_none_or(Ack::is_current);
        !self.is_released && self.place.is_none() && is_current
    }
}

/// Totals and peaks of a queue since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct QueueCounts {
    /// Batches that were added.
    pub batches: u64,
    /// Rows of these batches.
    pub rows: u64,
    /// Batches that were written to disk.
    pub spilled_batches: u64,
    /// The most memory in bytes that it held.
    pub memory_peak_bytes: u64,
    /// Maximum number of batches that waited.
    pub backlog_peak_batches: u64,
}

/// State of a queue at one moment.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct QueueStatus {
    /// Batches that are not released.
    pub backlog_batches: u64,
    /// Memory that they hold in bytes.
    pub memory_bytes: u64,
    /// Bytes that the queue's segments take on disk.
    pub spilled_bytes: u64,
    /// Age of the oldest waiting batch, in milliseconds.
    pub lag_ms: u64,
    /// Totals and peaks since the queue was opened.
    #[serde(flatten)]
    pub counts: QueueCounts,
}

/// Reason why a batch is not taken, or cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The service ends.
    #[error("the service is shutting down")]
    Closed,
    /// The batch cannot be spilled.
    #[error(transparent)]
    Spill(#[from] SpillError),
    /// A spilled batch cannot be written or read.
    #[error("a batch cannot be spilled or read back: {0}")]
    Record(#[from] RecordError),
    /// A spilled batch cannot be read.
    #[error("a spilled batch cannot be read: {0}")]
    Read(#[from] std::io::Error),
}

/// A batch and where it is in the queue.
#[derive(Clone, Debug)]
pub struct Queued {
    /// Position of the batch in the queue.
    pub position: u64,
    /// The batch.
    pub batch: Arc<Batch>,
}

/// Result of looking for the first batch from a cursor on.
enum NextBatch {
    Memory(Queued),
    Disk(u64, SpillLocation),
    Nothing,
    End,
}

/// Result of an attempt to add a batch.
enum Added<R> {
    Taken,
    /// No room is left.
    Full(Arc<Batch>, R),
    /// The batch cannot be spilled.
    Failed(Arc<Batch>, R, QueueError),
}

impl<R: Ack> Queue<R> {
    /// A queue with this memory, and perhaps a place on disk. Also returns the batches there, in order, without rows, and
    /// the number of those that are lost.
    ///
    /// # Errors
    /// [`QueueError`]: the batches on disk cannot be read.
    pub fn open(
        memory_limit_bytes: usize,
        spill: Option<SpillOptions>,
    ) -> Result<(Self, Vec<Batch>, u64), QueueError> {
        let mut slots = VecDeque::new();
        let mut recovered = Vec::new();
        let mut lost = 0;
        let spill = match spill {
            None => None,
            Some(options) => {
                let (spill, found) = Spill::open(options)?;
                lost = found.lost;
                for place in found.places {
                    recovered.push(Batch::from_record(&place.read()?)?.without_rows());
                    slots.push_back(Slot {
                        batch: None,
                        place: Some(place),
                        memory_bytes: 0,
                        receipt: None,
                        is_released: false,
                        since: Instant::now(),
                    });
                }
                Some(spill)
            }
        };
        let counts = QueueCounts { batches: slots.len() as u64, ..QueueCounts::default() };
        let state = Backlog {
            first: 0,
            is_spilling: !slots.is_empty(),
            disk_only: slots.len(),
            slots,
            memory_bytes: 0,
            spill,
            is_closed: false,
            counts,
        };
        let queue = Self {
            memory_limit_bytes,
            state: Mutex::new(state),
            readable: Notify::new(),
            writable: Notify::new(),
            waiting: AtomicUsize::new(0),
        };
        Ok((queue, recovered, lost))
    }

    /// Adds a batch; waits for room.
    ///
    /// # Errors
    /// [`QueueError`]; the batch is not taken.
    pub async fn push(&self, batch: Batch, receipt: R) -> Result<(), QueueError> {
        self.push_until(batch, receipt, Err).await
    }

    /// Adds a batch; waits for room, also while it cannot be spilled.
    ///
    /// # Errors
    /// [`QueueError::Closed`].
    pub async fn push_with_retry(&self, batch: Batch, receipt: R) -> Result<(), QueueError> {
        let mut is_logged = false;
        let log = |error| {
            if !std::mem::replace(&mut is_logged, true) {
                tracing::error!("batches wait, since they cannot be spilled: {error}");
            }
            Ok(())
        };
        self.push_until(batch, receipt, log).await
    }

    /// Adds a batch; waits for room, and while it cannot be spilled until `failed` returns an error.
    async fn push_until(
        &self,
        batch: Batch,
        receipt: R,
        mut failed: impl FnMut(QueueError) -> Result<(), QueueError>,
    ) -> Result<(), QueueError> {
        let (mut batch, mut receipt) = (Arc::new(batch), receipt);
        loop {
            let writable = self.writable.notified();
            tokio::pin!(writable);
            writable.as_mut().enable();
            (batch, receipt) = match self.try_push(batch, receipt)? {
                Added::Taken => return Ok(()),
                Added::Full(batch, receipt) => (batch, receipt),
                Added::Failed(batch, receipt, error) => {
                    failed(error)?;
                    (batch, receipt)
                }
            };
            let _waiting = Counted::one(&self.waiting);
            // There is no event when a disk has room again.
            let _ = tokio::time::timeout(RETRY, writable).await;
        }
    }

    /// The most memory of batches in bytes.
    pub fn memory_limit_bytes(&self) -> usize {
        self.memory_limit_bytes
    }

    /// Returns `true` if a caller waits for room.
    pub fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    fn try_push(&self, batch: Arc<Batch>, receipt: R) -> Result<Added<R>, QueueError> {
        let mut state = lock(&self.state);
        if state.is_closed {
            return Err(QueueError::Closed);
        }
        if !receipt.is_current() {
            return Ok(Added::Taken);
        }
        let bytes = batch.memory_bytes();
        let fits = state.memory_bytes + bytes <= self.memory_limit_bytes || state.slots.is_empty();
        if !fits && !state.is_spilling {
            match state.start_spilling() {
                Ok(true) => {}
                Ok(false) | Err(QueueError::Spill(SpillError::Full(_))) => {
                    return Ok(Added::Full(batch, receipt));
                }
                Err(error) => return Ok(Added::Failed(batch, receipt, error)),
            }
        }
        let rows = batch.data.num_rows() as u64;
        let mut slot = Slot {
            batch: Some(batch),
            place: None,
            memory_bytes: bytes,
            receipt: Some(receipt),
            is_released: false,
            since: Instant::now(),
        };
        if state.is_spilling {
            if let Err(error) = state.write(&mut slot) {
                let (Some(batch), Some(receipt)) = (slot.batch, slot.receipt) else {
                    return Ok(Added::Taken);
                };
                return Ok(match error {
                    QueueError::Spill(SpillError::Full(_)) => Added::Full(batch, receipt),
                    error => Added::Failed(batch, receipt, error),
                });
            }
            if !fits {
                (slot.batch, slot.memory_bytes) = (None, 0);
                state.disk_only += 1;
            }
        }
        state.memory_bytes += slot.memory_bytes;
        state.slots.push_back(slot);
        let backlog = state.slots.len() as u64;
        let counts = &mut state.counts;
        counts.batches += 1;
        counts.rows += rows;
        counts.backlog_peak_batches = counts.backlog_peak_batches.max(backlog);
        state.counts.memory_peak_bytes =
            (state.counts.memory_peak_bytes).max(state.memory_bytes as u64);
        drop(state);
        self.readable.notify_waiters();
        Ok(Added::Taken)
    }

    /// The first batch at `cursor` or behind it; waits for one. `None`: none will come.
    ///
    /// # Errors
    /// [`QueueError`]: it is on disk, and cannot be read.
    pub async fn next(&self, cursor: u64) -> Result<Option<Queued>, QueueError> {
        loop {
            let readable = self.readable.notified();
            tokio::pin!(readable);
            readable.as_mut().enable();
            match self.find(cursor) {
                NextBatch::Memory(queued) => return Ok(Some(queued)),
                NextBatch::Disk(position, place) => {
                    let batch = tokio::task::block_in_place(|| {
                        Ok::<_, QueueError>(Batch::from_record(&place.read()?)?)
                    })?;
                    return Ok(Some(Queued { position, batch: Arc::new(batch) }));
                }
                NextBatch::End => return Ok(None),
                NextBatch::Nothing => readable.await,
            }
        }
    }

    fn find(&self, cursor: u64) -> NextBatch {
        let state = lock(&self.state);
        let skipped = cursor.saturating_sub(state.first) as usize;
        let mut slots =
            (state.slots.iter().enumerate().skip(skipped)).filter(|(_, slot)| !slot.is_released);
        let Some((index, slot)) = slots.next() else {
            return match state.is_closed {
                true => NextBatch::End,
                false => NextBatch::Nothing,
            };
        };
        let position = state.first + index as u64;
        match (&slot.batch, &slot.place) {
            (Some(batch), _) => NextBatch::Memory(Queued { position, batch: Arc::clone(batch) }),
            (None, Some(place)) => NextBatch::Disk(position, place.clone()),
            (None, None) => NextBatch::Nothing,
        }
    }

    /// Returns `true` if no unreleased batch is at `cursor` or behind it.
    pub fn is_drained(&self, cursor: u64) -> bool {
        matches!(self.find(cursor), NextBatch::Nothing | NextBatch::End)
    }

    /// The batch at `position` is delivered: it is not needed any more.
    pub fn release(&self, position: u64) {
        let receipt = lock(&self.state).take_out(position, self.memory_limit_bytes);
        self.writable.notify_waiters();
        if let Some(receipt) = receipt {
            receipt.committed();
        }
    }

    /// The batch at `position` is not wanted any more, although it was not delivered. `settle` is called with its
    /// receipt, unless it is on disk, before later batches can get there.
    pub fn remove(&self, position: u64, settle: impl FnOnce(Option<R>)) {
        let mut state = lock(&self.state);
        settle(state.take_out(position, self.memory_limit_bytes));
        drop(state);
        self.writable.notify_waiters();
    }

    /// Calls `look` with the receipt of the batch at `position`; `None` if the queue holds none for it.
    pub fn with_receipt<T>(&self, position: u64, look: impl FnOnce(&R) -> T) -> Option<T> {
        let state = lock(&self.state);
        let index = position.checked_sub(state.first)? as usize;
        state.slots.get(index)?.receipt.as_ref().map(look)
    }

    /// The position of the first batch that is not released, or of the next one.
    pub fn first(&self) -> u64 {
        lock(&self.state).first
    }

    /// The position behind the last batch.
    pub fn end(&self) -> u64 {
        let state = lock(&self.state);
        state.first + state.slots.len() as u64
    }

    /// The position behind the last batch within these that is on disk and not released: its
    /// producer may take it for safe, although it is not delivered.
    pub fn saved_until(&self, positions: Range<u64>) -> Option<u64> {
        let state = lock(&self.state);
        let saved = (state.first..).zip(&state.slots).filter(|(position, slot)| {
            positions.contains(position) && slot.place.is_some() && !slot.is_released
        });
        saved.last().map(|(position, _)| position + 1)
    }

    /// Takes no more batches. Readers come to an end.
    pub fn close(&self) {
        lock(&self.state).is_closed = true;
        self.readable.notify_waiters();
        self.writable.notify_waiters();
    }

    /// Writes unreleased batches to disk, if there is a place, so that the next start finds it.
    ///
    /// # Errors
    /// [`QueueError`].
    pub fn save(&self) -> Result<(), QueueError> {
        let mut state = lock(&self.state);
        state.start_spilling().map(|_| ())
    }

    /// Batches that are neither delivered nor on disk.
    pub fn unsafe_batches(&self) -> usize {
        let state = lock(&self.state);
        let slots = state.slots.iter();
        slots.filter(|slot| slot.is_unsafe()).count()
    }

    /// Returns the state of the queue now.
    pub fn status(&self) -> QueueStatus {
        let state = lock(&self.state);
        let oldest = state.slots.front().map_or(Duration::ZERO, |slot| slot.since.elapsed());
        let waiting = state.slots.iter().filter(|slot| !slot.is_released);
        QueueStatus {
            backlog_batches: waiting.count() as u64,
            memory_bytes: state.memory_bytes as u64,
            spilled_bytes: state.spill.as_ref().map_or(0, Spill::bytes),
            lag_ms: oldest.as_millis() as u64,
            counts: state.counts,
        }
    }
}

impl<R: Ack> Backlog<R> {
    /// Writes everything to disk that is not there; `false` if there is no disk.
    fn start_spilling(&mut self) -> Result<bool, QueueError> {
        if self.spill.is_none() {
            return Ok(false);
        }
        let mut slots = std::mem::take(&mut self.slots);
        let mut missing = slots.iter_mut().filter(|slot| slot.is_unsafe());
        let written = tokio::task::block_in_place(|| missing.try_for_each(|slot| self.write(slot)));
        self.slots = slots;
        self.is_spilling = written.is_ok();
        written.map(|()| true)
    }

    /// Writes a batch to disk, where it is safe.
    fn write(&mut self, slot: &mut Slot<R>) -> Result<(), QueueError> {
        let (Some(spill), Some(batch)) = (&mut self.spill, &slot.batch) else {
            return Ok(());
        };
        let mut record = Vec::with_capacity(batch.memory_bytes());
        batch.write_record(&mut record).map_err(RecordError::from)?;
        slot.place = Some(spill.append(&record)?);
        self.counts.spilled_batches += 1;
        if let Some(receipt) = slot.receipt.take() {
            receipt.committed();
        }
        Ok(())
    }

    /// Marks a batch as released. Returns its receipt, if it is there.
    fn take_out(&mut self, position: u64, memory_limit_bytes: usize) -> Option<R> {
        let index = position.checked_sub(self.first)? as usize;
        let slot = (self.slots.get_mut(index)).filter(|slot| !slot.is_released)?;
        slot.is_released = true;
        let was_on_disk_only = slot.batch.take().is_none();
        let receipt = slot.receipt.take();
        let bytes = std::mem::take(&mut slot.memory_bytes);
        self.memory_bytes -= bytes;
        self.disk_only -= usize::from(was_on_disk_only);
        self.drop_released(memory_limit_bytes);
        receipt
    }

    /// Forgets released batches at the front, and goes back to memory once everything is there.
    fn drop_released(&mut self, memory_limit_bytes: usize) {
        let mut last = None;
        while let Some(slot) = self.slots.pop_front_if(|slot| slot.is_released) {
            last = slot.place.or(last);
            self.first += 1;
        }
        if let (Some(spill), Some(last)) = (&mut self.spill, &last) {
            spill.release(last);
        }
        let is_in_memory = self.disk_only == 0 && self.memory_bytes < memory_limit_bytes / 2;
        if self.is_spilling && is_in_memory {
            self.is_spilling = false;
        }
    }
}
