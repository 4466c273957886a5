//! The executor: the interface for its owner.
//!
//! It has three parts: the [`Scheduler`] decides, chunks run in [`Lanes`], and [`InFlight`] knows
//! where each chunk is and in what order they leave. `drive` moves chunks between them; the
//! [`Verifier`] checks results of devices; `recovery` runs chunks that a target failed to do.

mod drive;
mod recovery;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use drive::is_readable;
use overside_device::threads::thread_cpu_ns;
use overside_device::{Completion, Device, ExternalBytes, JobError, Slice};

use crate::adaptive::chunk_size::{ChunkSizer, Finished};
use crate::in_flight::InFlight;
use crate::lane::Lane;
use crate::lanes::Lanes;
use crate::memory::{Pool, registered};
use crate::report::{EventKind, Log};
use crate::scheduler::Scheduler;
use crate::verifier::Verifier;
use crate::{Buffer, Chunk, ChunkResult, DeviceSetup, Error, Report, Setup, Target, TargetReport};

/// Runs a stream of chunks on its targets and gives the results back in order.
///
/// Owned and driven by one thread; it starts none itself. Its contexts may start threads.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use overside_backend_cpu::{CpuDevice, CpuOptions};
/// use overside_device::{Operation, OperationConfig};
/// use overside_placement::{Chunk, Executor, Policy, Setup};
///
/// let compress: Operation = "compress-deflate".parse()?;
/// let cpu = CpuDevice::new(CpuOptions { threads: 2, cores: None })?;
/// let mut executor = Executor::open(Setup {
///     cpu: Some(Arc::new(cpu)),
///     cpu_depth: 4,
///     ..Setup::new(OperationConfig::new(compress), Policy::Cpu)
/// })?;
///
/// let mut text = &*b"What I tell you three times is true. ".repeat(100_000);
/// let (mut pushed, mut pulled, mut compressed) = (0, 0, Vec::new());
/// while !text.is_empty() || executor.in_flight() > 0 {
///     // Fill buffers while there are any: read() could write straight into them.
///     while !text.is_empty()
///         && let Some(mut buffer) = executor.buffer()
///     {
///         let (now, later) = text.split_at(text.len().min(buffer.len()));
///         buffer[..now.len()].copy_from_slice(now);
///         buffer.set_len(now.len());
///         let chunk = Chunk { label: pushed, ..buffer.into() };
///         executor.push(chunk).expect("there is room where there is a buffer");
///         (text, pushed) = (later, pushed + 1);
///     }
///     // Results come in the order of the chunks, wherever they were made.
///     while let Some(piece) = executor.pull()? {
///         assert_eq!(piece.label, pulled);
///         compressed.extend_from_slice(piece.output().expect("text gets smaller"));
///         pulled += 1;
///     }
///     executor.wait(Duration::from_secs(1))?;
/// }
/// let report = executor.close();
/// assert_eq!(report.cpu.map(|cpu| cpu.chunks), Some(pushed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Executor {
    setup: Setup,
    scheduler: Scheduler,
    /// Controller of the chunk length; `None` if the caller chooses the length.
    sizer: Option<ChunkSizer>,
    lanes: Lanes,
    verifier: Verifier,
    in_flight: InFlight,
    log: Log,
    opened: Instant,
    first_push: Option<Instant>,
    last_done: Option<Instant>,
    /// CPU time that waiting took.
    wait_cpu_ns: u64,
    /// Reused.
    completions: Vec<Completion>,
    /// First error after which the executor cannot continue.
    failure: Option<Error>,
}

impl Executor {
    /// Makes an executor and opens the targets that its policy uses; under [`Policy::Adaptive`](crate::Policy::Adaptive) a
    /// device is opened when it is first needed.
    ///
    /// # Errors
    /// [`Error`]: a target that the policy needs is missing or cannot be opened. Under
    /// [`Policy::Adaptive`](crate::Policy::Adaptive) a device that cannot do the operation is an event, not an error.
    pub fn open(setup: Setup) -> Result<Self, Error> {
        let clock = setup.clock.clone();
        let opened = clock.now();
        setup.check()?;
        let mut log = Log::default();
        let scheduler = Scheduler::new(setup.policy, setup.devices.len(), clock);
        let sizer = ChunkSizer::of(&setup, setup.window());
        Ok(Self {
            lanes: Lanes::open(&setup, &mut log)?,
            scheduler,
            sizer,
            verifier: Verifier::new(&setup)?,
            in_flight: InFlight::new(setup.window(), 1 + setup.devices.len()),
            log,
            opened,
            first_push: None,
            last_done: None,
            wait_cpu_ns: 0,
            completions: Vec::new(),
            failure: None,
            setup,
        })
    }

    /// An empty buffer that all targets reach, if they can, for the next chunk. It has the longest
    /// length of a source; set the real one. Its content is unspecified. `None`: there is no room
    /// for another chunk, pull first.
    pub fn buffer(&mut self) -> Option<Buffer> {
        if !self.has_capacity() {
            return None;
        }
        match self.lanes.buffer() {
            Ok(buffer) => Some(buffer),
            Err(error) => {
                self.failure = Some(error);
                None
            }
        }
    }

    /// Returns the length of the next chunk, in bytes. If the controller may choose it, this is its
    /// current choice, the fastest so far or one on trial. Otherwise the chunk may have at most the
    /// length that [`Setup`] sets.
    pub fn chunk_bytes(&self) -> usize {
        let first = (self.setup.first_chunk_bytes).map(|first| first.min(self.setup.source_bytes));
        (self.sizer.as_ref().map(ChunkSizer::bytes)).or(first).unwrap_or(self.setup.source_bytes)
    }

    /// Wraps the caller's memory as a source without a copy: it is registered with the first device that
    /// needs and supports it. Otherwise it is copied when a device needs it, and the copy is counted.
    pub fn register(&self, foreign: ExternalBytes) -> Slice {
        registered(self.registrar().as_deref(), foreign)
    }

    /// The first device that takes only its own memory.
    pub(crate) fn registrar(&self) -> Option<Arc<dyn Device>> {
        self.lanes.registered().map(|lane| Arc::clone(lane.device()))
    }

    /// Returns the pool that the buffers for sources come from.
    pub(crate) fn sources(&self) -> Arc<Pool> {
        self.lanes.sources()
    }

    /// Returns `true` if [`Executor::push`] would take a chunk.
    pub fn has_capacity(&self) -> bool {
        self.failure.is_none() && !self.in_flight.is_full()
    }

    /// Takes the next chunk of the stream, and may hand some over. A chunk that no target takes
    /// comes back as a result that failed.
    ///
    /// # Errors
    /// Gives the chunk back if there is no room for it; pull first.
    // The chunk is what the caller goes on with.
    #[allow(clippy::result_large_err)]
    pub fn push(&mut self, chunk: Chunk) -> Result<(), Chunk> {
        if !self.has_capacity() {
            return Err(chunk);
        }
        if self.first_push.is_none() {
            self.first_push = Some(self.setup.clock.now());
        }
        let source_bytes = chunk.source.len();
        let destination_bytes = chunk.destination_bytes.min(self.setup.destination_bytes);
        let place = self.in_flight.push(chunk, destination_bytes);
        self.route(place, (source_bytes, destination_bytes));
        self.pump(false);
        Ok(())
    }

    /// Returns the next result in the order of the stream, if there is one. Drives all targets; never
    /// blocks, except that a device that failed may be opened again.
    ///
    /// # Errors
    /// [`Error`] if the stream cannot continue: the CPU is lost, or there is no memory. A chunk that failed
    /// is a result with its error.
    pub fn pull(&mut self) -> Result<Option<ChunkResult>, Error> {
        if !(self.in_flight.is_ready() && self.in_flight.is_none_waiting()) {
            self.drive(false)?;
        }
        Ok(self.in_flight.pop())
    }

    /// Waits until there may be something to pull, but not longer than `timeout`. Returns at once
    /// if nothing is in flight.
    ///
    /// # Errors
    /// As [`Executor::pull`]; [`Error::Wait`].
    pub fn wait(&mut self, timeout: Duration) -> Result<(), Error> {
        let begun = thread_cpu_ns();
        let waited = self.wait_until_ready(timeout);
        self.wait_cpu_ns += thread_cpu_ns().saturating_sub(begun);
        waited
    }

    fn wait_until_ready(&mut self, timeout: Duration) -> Result<(), Error> {
        let begin = self.setup.clock.now();
        while !self.in_flight.is_ready() && self.in_flight.len() > 0 {
            self.drive(true)?;
            if self.in_flight.is_ready() {
                return Ok(());
            }
            let left = timeout.saturating_sub(self.setup.clock.since(begin));
            if left.is_zero() {
                return Ok(());
            }
            self.sleep(left, None)?;
        }
        Ok(())
    }

    /// Waits until `input` is readable or has ended, or until there may be a result to pull: chunks in flight
    /// make progress meanwhile. Returns `true` if there is input.
    ///
    /// # Errors
    /// Those of [`Executor::wait`].
    pub fn wait_for_input(&mut self, input: BorrowedFd<'_>) -> Result<bool, Error> {
        let begun = thread_cpu_ns();
        let waited = self.wait_until_readable(input);
        self.wait_cpu_ns += thread_cpu_ns().saturating_sub(begun);
        waited
    }

    fn wait_until_readable(&mut self, input: BorrowedFd<'_>) -> Result<bool, Error> {
        while !is_readable(input)? {
            if self.in_flight.len() == 0 {
                // The next read waits for it.
                return Ok(true);
            }
            self.drive(true)?;
            if self.in_flight.is_ready() {
                return Ok(false);
            }
            self.sleep(Duration::MAX, Some(input))?;
        }
        Ok(true)
    }

    /// Chunks pushed and not yet pulled.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Tears all contexts and buffers down and sets them up again, as for a stream whose buffers
    /// have another size. Under [`Policy::Adaptive`](crate::Policy::Adaptive) a device follows when
    /// it is next used, and the controller keeps its estimates; buffers only use a device's memory
    /// once devices are used. Times and counts continue.
    ///
    /// # Errors
    /// [`Error::InFlight`] if not everything has been pulled; otherwise those of [`Executor::open`]. A
    /// device that fails now is only an event if there is a CPU to replace it.
    pub fn reconfigure(&mut self) -> Result<(), Error> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        if self.in_flight() > 0 {
            return Err(Error::InFlight(self.in_flight()));
        }
        let uses_device = self.scheduler.uses_device();
        self.verifier.reconfigure();
        let unopened = self.lanes.reconfigure(&self.setup, uses_device)?;
        self.forget_superseded();
        if let Some((device, error)) = unopened {
            self.cannot_open(device, &error);
        }
        Ok(())
    }

    /// Returns the report of the work done so far.
    pub fn report(&self) -> Report {
        let devices = self.lanes.devices().map(|device| {
            let report = self.lanes.get(device).map(Lane::report);
            let name = |setup: &DeviceSetup| setup.device.info().name.clone();
            report.unwrap_or_else(|| TargetReport {
                device: self.setup.devices.get(device.index() - 1).map_or_else(String::new, name),
                ..TargetReport::default()
            })
        });
        let (decisions, decisions_left_out) = self.log.decisions();
        let elapsed = (self.first_push.zip(self.last_done))
            .map_or(Duration::ZERO, |(first, last)| last.saturating_duration_since(first));
        Report {
            elapsed_ns: elapsed.as_nanos() as u64,
            cpu: self.lanes.get(Target::Cpu).map(Lane::report),
            devices: devices.collect(),
            verification: self.verifier.report(),
            bounce_copies: self.lanes.iter().map(|lane| lane.bounced.0).sum(),
            bounce_bytes: self.lanes.iter().map(|lane| lane.bounced.1).sum(),
            memory_ns: self.lanes.memory_spent().as_nanos() as u64,
            wait_cpu_ns: self.wait_cpu_ns,
            quarantined: self.lanes.quarantined(),
            events: self.log.events.clone(),
            events_left_out: self.log.events_left_out,
            decisions,
            decisions_left_out,
        }
    }

    /// Closes all targets and returns the report. Chunks that were not pulled are dropped; those in
    /// flight are waited for, for a second at most.
    pub fn close(mut self) -> Report {
        self.forget_superseded();
        self.lanes.close();
        self.verifier.close();
        self.report()
    }

    /// Reports finished work to the sizer, and notes its decision.
    fn size_chunks(&mut self) {
        let Some(sizer) = &mut self.sizer else {
            return;
        };
        let mut finished = Finished::default();
        for lane in self.lanes.iter() {
            finished.bytes += lane.tally.source_bytes;
            finished.chunks += lane.tally.chunks;
        }
        let since = self.setup.clock.since(self.opened);
        let Some(resized) = sizer.observe(since, finished) else {
            return;
        };
        let fraction = (self.scheduler.adaptive()).map_or(0.0, |adaptive| adaptive.fraction());
        self.log.decision(resized.record(since, fraction));
    }

    /// Records an event.
    fn event(&mut self, target: Target, kind: EventKind, message: String) {
        let at_ns = self.setup.clock.since(self.opened).as_nanos() as u64;
        let device = self.lanes.get(target).map_or("", Lane::name);
        match kind.is_failure() {
            true => tracing::warn!(device, %kind, "{message}"),
            false => tracing::info!(device, %kind, "{message}"),
        }
        self.log.event(at_ns, target, kind, message);
    }

    /// Ends a chunk that nothing ran.
    fn fail_chunk(&mut self, place: u64, target: Target, error: JobError) {
        self.in_flight.fail(place, target, error);
        self.last_done = Some(self.setup.clock.now());
    }
}
