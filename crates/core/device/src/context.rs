//! Devices and the contexts opened on them.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::{
    Capabilities, Completion, ContextConfig, DeviceInfo, ExternalBytes, Job, Lost, MemoryError,
    OpenError, Region, Registration, Slice, SubmitError,
};

/// Default of [`Device::context_bytes`], in bytes, for devices that give no better estimate.
const CONTEXT_BYTES: u64 = 16 << 20;

/// A device that runs jobs. Shared between threads; each opens contexts of its own.
pub trait Device: Send + Sync {
    /// Name, driver, location, provenance.
    fn info(&self) -> &DeviceInfo;

    /// Returns the device's operations and limits, probed when it was opened.
    fn capabilities(&self) -> &Capabilities;

    /// Zeroed memory that the device reaches without a copy. `align` is a power of two. The CPU can
    /// address it, except where the capabilities say [`MemoryKind::Device`](crate::MemoryKind).
    ///
    /// # Errors
    /// [`MemoryError`].
    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError> {
        Region::allocate(len, align, self.registration())
    }

    /// Returns the registration that marks this process's memory as reachable by the device; `None`
    /// if the device reaches any memory.
    fn registration(&self) -> Option<Registration> {
        None
    }

    /// Copies bytes into memory that this device gave out, from `offset` on. Waits until they are
    /// there.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`]; [`MemoryError::NotAddressable`] if the memory is another
    /// device's.
    fn write(&self, to: &mut Region, offset: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        let range = within(to.len(), offset, bytes.len())?;
        to.bytes_mut()?[range].copy_from_slice(bytes);
        Ok(())
    }

    /// Copies bytes out of memory that this device gave out, from `offset` on.
    ///
    /// # Errors
    /// As [`Device::write`].
    fn read(&self, from: &Region, offset: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        let range = within(from.len(), offset, into.len())?;
        into.copy_from_slice(&from.bytes()?[range]);
        Ok(())
    }

    /// Makes the caller's memory readable for the device, without a copy. Its owner lives until
    /// the last slice is dropped.
    ///
    /// # Errors
    /// [`MemoryError::Unreachable`] if the device cannot read memory of that kind.
    fn register(&self, foreign: ExternalBytes) -> Result<Slice, MemoryError> {
        Ok(Slice::from_external(foreign, self.registration()))
    }

    /// Returns the memory that a context holds in addition to that of its jobs, in bytes. It is an
    /// upper bound as far as it is known, and includes the state of libraries.
    fn context_bytes(&self, config: &ContextConfig) -> u64 {
        let _ = config;
        CONTEXT_BYTES
    }

    /// Opens a context for one operation. May take as long as the device takes to be set up.
    ///
    /// # Errors
    /// [`OpenError`]; never opens something else instead.
    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError>;
}

/// The range of `len` bytes at `offset` of a region of `region` bytes.
///
/// # Errors
/// [`MemoryError::OutOfBounds`].
pub fn within(region: usize, offset: usize, len: usize) -> Result<Range<usize>, MemoryError> {
    match offset.checked_add(len) {
        Some(end) if end <= region => Ok(offset..end),
        _ => Err(MemoryError::OutOfBounds { offset, len, region }),
    }
}

/// An opened, configured device, owned by one thread (it may be moved to another between calls).
///
/// Dropping it without [`Context::close`] abandons the jobs in flight: it does not wait, and the
/// memory that the engine may still touch stays allocated until the engine is done with it.
pub trait Context: Send {
    /// Takes jobs from the front of `jobs` and hands them over at one doorbell. Returns how many;
    /// fewer than offered, or none, is back-pressure.
    ///
    /// # Errors
    /// [`SubmitError::Refused`] if the first job is not one for this context (valid jobs before a
    /// refused one are taken, and the next call reports it); [`SubmitError::Lost`].
    fn submit(&mut self, jobs: &mut VecDeque<Job>) -> Result<usize, SubmitError>;

    /// Appends up to `max` completions to `out`, in any order. Returns their number.
    ///
    /// # Errors
    /// [`Lost`], once all jobs that completed have been returned.
    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, Lost>;

    /// The descriptor that becomes readable after [`Context::arm`]; `None` if the device can only
    /// be polled. To wait: `arm`; if that returns `false`, wait until the descriptor is readable;
    /// then `poll`. A wake-up without a completion is possible.
    fn event_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Makes the descriptor readable at the next completion (or when the device is lost). Returns `true` if
    /// completions are already pending: then poll instead of waiting. A device may delay the event to
    /// gather a few completions, but not when it would otherwise be idle.
    ///
    /// # Errors
    /// [`Lost`]; also for a device that can only be polled.
    fn arm(&mut self) -> Result<bool, Lost>;

    /// Extends the deadlines of all jobs in flight to `until` at least. It is for a caller that was away:
    /// some devices make progress only while they are called. Devices whose jobs make progress by themselves
    /// do nothing.
    fn put_off(&mut self, until: Instant) {
        let _ = until;
    }

    /// Jobs submitted and not yet returned.
    fn in_flight(&self) -> usize;

    /// Destinations that the engine may still write to though their jobs are over.
    fn quarantined(&self) -> usize;

    /// Sets the context up for another configuration, as if it were closed and opened.
    ///
    /// # Errors
    /// [`OpenError::InFlight`]; else as [`Device::open`], and the context keeps its configuration.
    fn reconfigure(&mut self, config: ContextConfig) -> Result<(), OpenError>;

    /// Returns how long setting up the context took, by stage.
    fn lifecycle(&self) -> Lifecycle;

    /// CPU time spent by this context's own threads so far, by ledger. The submitter's own time
    /// is not in it.
    fn cpu_time(&self) -> CpuTime;

    /// Waits for the jobs in flight, but not longer than `deadline`, and lets the device go.
    fn close(self: Box<Self>, deadline: Instant) -> Closed;
}

/// Times of a context's stages of life, in nanoseconds; `None` if the device has no such stage or
/// does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifecycle {
    /// Finding the device.
    pub discovery_ns: Option<u64>,
    /// Setting up the context: compiling patterns, starting threads, creating queues.
    pub init_ns: Option<u64>,
    /// Allocating and registering memory that belongs to the context.
    pub memory_ns: Option<u64>,
    /// Time from the last completion until the device released the context; known after closing or
    /// reconfiguring.
    pub end_ns: Option<u64>,
}

/// CPU time in nanoseconds, by whose cores were used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    /// The host's.
    pub host_ns: u64,
    /// The DPU's.
    pub dpu_ns: u64,
    /// CPU time of the emulation itself, which a real system would not spend.
    pub emulator_ns: u64,
}

impl CpuTime {
    /// The sum, ledger by ledger.
    pub fn plus(self, other: Self) -> Self {
        self.by_ledger(other, u64::saturating_add)
    }

    /// Returns the CPU time spent between `earlier` and this, ledger by ledger.
    pub fn since(self, earlier: Self) -> Self {
        self.by_ledger(earlier, u64::saturating_sub)
    }

    fn by_ledger(self, other: Self, with: fn(u64, u64) -> u64) -> Self {
        Self {
            host_ns: with(self.host_ns, other.host_ns),
            dpu_ns: with(self.dpu_ns, other.dpu_ns),
            emulator_ns: with(self.emulator_ns, other.emulator_ns),
        }
    }
}

/// Final state of a closed context: its remaining completions, abandoned jobs and times.
#[derive(Debug)]
pub struct Closed {
    /// Jobs that completed and had not been polled for.
    pub completions: Vec<Completion>,
    /// Jobs that did not complete before the deadline; their destinations are quarantined.
    pub abandoned: Vec<u64>,
    /// The context's times, the end included.
    pub lifecycle: Lifecycle,
    /// The CPU time its threads spent, by ledger.
    pub cpu_time: CpuTime,
}
