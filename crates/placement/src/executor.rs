//! The executor: what its owner calls.

mod equip;
mod renew;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{Completion, Foreign, JobError, Slice};

use equip::Home;

use crate::health::Health;
use crate::lane::Lane;
use crate::memory::Pool;
use crate::pilot::Pilot;
use crate::policy::Diffusion;
use crate::queues::Queues;
use crate::report::{EventKind, Log};
use crate::window::{Slot, State, Window};
use crate::{Buffer, Chunk, Error, Leg, Piece, Policy, Report, Setup};

/// Runs a stream of chunks on two legs and gives the results back in order.
///
/// Owned and driven by one thread; it starts none itself. What its contexts are made of may.
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
    pub(crate) setup: Setup,
    pub(crate) lanes: [Option<Lane>; 2],
    pub(crate) window: Window,
    pub(crate) queues: Queues,
    pub(crate) diffusion: Diffusion,
    pub(crate) health: Health,
    /// Under adaptive placement.
    pub(crate) pilot: Option<Pilot>,
    pub(crate) log: Log,
    pub(crate) sources: Arc<Pool>,
    pub(crate) home: Home,
    pub(crate) opened: Instant,
    pub(crate) first_push: Option<Instant>,
    pub(crate) last_done: Option<Instant>,
    pub(crate) bounce_copies: u64,
    pub(crate) bounce_bytes: u64,
    /// Destinations given up with their contexts.
    pub(crate) quarantined: u64,
    /// Time spent on buffers that are gone.
    pub(crate) memory_before: Duration,
    pub(crate) completions: Vec<Completion>,
    /// Jobs that legs still have though their chunks are done: the other leg was first.
    pub(crate) overtaken: BTreeSet<(Leg, u64)>,
    /// Why it cannot go on.
    pub(crate) broken: Option<Error>,
}

impl Executor {
    /// Makes an executor and opens the legs that its policy uses; under [`Policy::Adaptive`] the
    /// device is opened when it is first needed.
    ///
    /// # Errors
    /// [`Error`]: a leg that the policy needs is missing or cannot be opened. Under
    /// [`Policy::Adaptive`] a device that cannot do the operation is an event, not an error.
    pub fn open(setup: Setup) -> Result<Self, Error> {
        let opened = Instant::now();
        if let Policy::Split(percent) = setup.policy
            && !(0.0..=100.0).contains(&percent)
        {
            return Err(Error::Percent(percent));
        }
        let mut log = Log::default();
        let mut lanes = equip::lanes(&setup, &mut log)?;
        let sources = equip::memory(&setup, &mut lanes, Home::Device)?;
        equip::open(&setup, &mut lanes, &sources)?;
        let mut health = Health::new(setup.retry);
        if lanes[Leg::Device as usize].is_none() {
            health.give_up();
        }
        Ok(Self {
            lanes,
            window: Window::new(setup.window()),
            queues: Queues::default(),
            diffusion: Diffusion::default(),
            health,
            pilot: (setup.policy == Policy::Adaptive).then(Pilot::new),
            log,
            sources,
            home: Home::Device,
            opened,
            first_push: None,
            last_done: None,
            bounce_copies: 0,
            bounce_bytes: 0,
            quarantined: 0,
            memory_before: Duration::ZERO,
            completions: Vec::new(),
            overtaken: BTreeSet::new(),
            broken: None,
            setup,
        })
    }

    /// An empty buffer that both legs reach, for the next chunk. Its length is the longest that a
    /// source may have, to be set to what it is; what is in it is unspecified. `None`: there is no
    /// room for another chunk, pull first.
    pub fn buffer(&mut self) -> Option<Buffer> {
        if !self.room() {
            return None;
        }
        match self.sources.take() {
            Ok(region) => Some(Buffer::new(region, &self.sources)),
            Err(error) => {
                self.broken = Some(error.into());
                None
            }
        }
    }

    /// The caller's memory as a source, without a copy: registered with the device if that needs
    /// it and can. What cannot be registered is copied when the device needs it, and counted.
    pub fn register(&self, foreign: Foreign) -> Slice {
        match (&self.setup.device, self.lane(Leg::Device)) {
            (Some(device), Some(lane)) if lane.is_registered() => {
                let foreign = Arc::new(foreign);
                let shared = Foreign::new(Shared(Arc::clone(&foreign)));
                device
                    .register(shared)
                    .unwrap_or_else(|_| Slice::from_foreign(Foreign::new(Shared(foreign)), None))
            }
            _ => Slice::from_foreign(foreign, None),
        }
    }

    /// Whether [`Executor::push`] would take a chunk.
    pub fn room(&self) -> bool {
        self.broken.is_none() && !self.window.is_full()
    }

    /// Takes the next chunk of the stream, and may hand some over. A chunk that no leg takes comes
    /// back as a piece that failed.
    ///
    /// # Errors
    /// Gives the chunk back if there is no room for it; pull first.
    // The chunk is what the caller goes on with.
    #[allow(clippy::result_large_err)]
    pub fn push(&mut self, chunk: Chunk) -> Result<(), Chunk> {
        if !self.room() {
            return Err(chunk);
        }
        if self.first_push.is_none() {
            self.first_push = Some(Instant::now());
        }
        let slot = Slot {
            label: chunk.label,
            source_bytes: chunk.source.len(),
            destination_bytes: chunk.destination_bytes.min(self.setup.destination_bytes),
            attempts: 0,
            said: None,
            state: State::Waiting(chunk.source),
        };
        let sizes = (slot.source_bytes, slot.destination_bytes);
        let place = self.window.push(slot);
        self.route(place, sizes);
        self.pump(false);
        Ok(())
    }

    /// The next result in the order of the stream, if it is there. Drives both legs; never blocks,
    /// except that a device that failed may be opened again.
    ///
    /// # Errors
    /// [`Error`] if nothing can go on: the CPU is lost, or there is no memory. A chunk that failed
    /// is a piece that says so.
    pub fn pull(&mut self) -> Result<Option<Piece>, Error> {
        if self.window.is_ready() && self.queues.is_empty() {
            return Ok(self.window.pop());
        }
        self.drive(false)?;
        Ok(self.window.pop())
    }

    /// Waits until there may be something to pull, but not longer than `timeout`. Returns at once
    /// if nothing is in flight.
    ///
    /// # Errors
    /// As [`Executor::pull`]; [`Error::Wait`].
    pub fn wait(&mut self, timeout: Duration) -> Result<(), Error> {
        let begin = Instant::now();
        while !self.window.is_ready() && self.window.len() > 0 {
            self.drive(true)?;
            if self.window.is_ready() {
                return Ok(());
            }
            let left = timeout.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            self.sleep(left)?;
        }
        Ok(())
    }

    /// Chunks pushed and not yet pulled.
    pub fn in_flight(&self) -> usize {
        self.window.len()
    }

    /// What was done so far.
    pub fn report(&self) -> Report {
        let leg = |leg| self.lane(leg).map(Lane::report);
        let (decisions, decisions_left_out) = self.log.decisions();
        let elapsed = (self.first_push.zip(self.last_done))
            .map_or(Duration::ZERO, |(first, last)| {
                last.saturating_duration_since(first)
            });
        let lanes = self.lanes.iter().flatten();
        Report {
            elapsed_ns: elapsed.as_nanos() as u64,
            cpu: leg(Leg::Cpu),
            device: leg(Leg::Device),
            bounce_copies: self.bounce_copies,
            bounce_bytes: self.bounce_bytes,
            memory_ns: self.memory_spent().as_nanos() as u64,
            quarantined: self.quarantined
                + lanes.map(|lane| lane.quarantined() as u64).sum::<u64>(),
            events: self.log.events.clone(),
            events_left_out: self.log.events_left_out,
            decisions,
            decisions_left_out,
        }
    }

    fn memory_spent(&self) -> Duration {
        let lanes = self.lanes.iter().flatten();
        self.memory_before + self.sources.spent() + lanes.map(Lane::memory_spent).sum::<Duration>()
    }

    /// Lets both legs go and says what was done. What was pushed and not pulled is dropped; what
    /// is in flight is waited for, for a second at most.
    pub fn close(mut self) -> Report {
        self.forget_overtaken();
        for lane in self.lanes.iter_mut().flatten() {
            self.quarantined += lane.close() as u64;
        }
        self.report()
    }

    pub(crate) fn lane(&self, leg: Leg) -> Option<&Lane> {
        self.lanes[leg as usize].as_ref()
    }

    pub(crate) fn lane_mut(&mut self, leg: Leg) -> Option<&mut Lane> {
        self.lanes[leg as usize].as_mut()
    }

    /// Notes what went wrong.
    pub(crate) fn event(&mut self, leg: Leg, kind: EventKind, message: String) {
        let at_ns = self.opened.elapsed().as_nanos() as u64;
        self.log.event(at_ns, leg, kind, message);
    }

    /// Ends a chunk that nothing ran.
    pub(crate) fn finish_without(&mut self, place: u64, leg: Leg, error: JobError) {
        let Some(slot) = self.window.get_mut(place) else {
            return;
        };
        slot.fail(leg, error);
        self.last_done = Some(Instant::now());
    }
}

/// Memory whose owner two may have.
struct Shared(Arc<Foreign>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
