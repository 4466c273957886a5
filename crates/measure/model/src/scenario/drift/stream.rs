//! Chunks that cores and a device work off together, in virtual time.

use crate::sim::{Calendar, Model, SimulationError, Station, run};

/// Assignment of chunks to the cores and the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Assignment {
    /// A number for the device, the others for the cores, decided beforehand.
    Fixed {
        /// Chunks.
        device: u64,
    },
    /// Both targets take chunks from one queue. Neither takes a chunk that would take it longer than the
    /// other needs for all remaining ones.
    Shared,
}

/// Conditions of one stream of chunks. Times are for one chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StreamModel {
    pub(super) chunks: u64,
    pub(super) assignment: Assignment,
    pub(super) cores: u64,
    pub(super) core_ns: f64,
    pub(super) link_in_ns: f64,
    pub(super) engine_ns: f64,
    pub(super) engines: usize,
    pub(super) link_out_ns: f64,
    pub(super) latency_ns: f64,
    /// Jobs that the device is given at once.
    pub(super) depth: u64,
    /// Factor by which the engine's times grow
    pub(super) slowdown: f64,
    /// from then on.
    pub(super) slow_from_ns: f64,
}

/// Result of one stream of chunks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StreamResult {
    pub(super) time_ns: f64,
    pub(super) device_chunks: u64,
    /// Cores that were busy on average.
    pub(super) busy_cores: f64,
    pub(super) bottleneck: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    CoreDone,
    DeviceDone { since_ns: u64 },
}

/// The weight of the newest observation of a rate; `docs/core/placement.md` has the controller's.
const WEIGHT: f64 = 0.3;

struct StreamState<'a> {
    world: &'a StreamModel,
    /// Number of chunks that no target has, or that only the cores may take.
    waiting: u64,
    /// Chunks that only the device may take.
    for_device: u64,
    busy_cores: u64,
    core_chunks: u64,
    in_flight: u64,
    device_chunks: u64,
    link_in: Station,
    engines: Station,
    link_out: Station,
    /// The logarithm of the device's time a chunk, as observed.
    device_log_ns: Option<f64>,
    last_done_ns: u64,
}

impl StreamModel {
    /// Runs the stream.
    ///
    /// # Errors
    /// [`SimulationError`], if there are more chunks than a simulation takes.
    pub(super) fn run(&self) -> Result<StreamResult, SimulationError> {
        let (for_device, waiting) = match self.assignment {
            Assignment::Fixed { device } => {
                (device.min(self.chunks), self.chunks.saturating_sub(device))
            }
            Assignment::Shared => (0, self.chunks),
        };
        let mut state = StreamState {
            world: self,
            waiting,
            for_device,
            busy_cores: 0,
            core_chunks: 0,
            in_flight: 0,
            device_chunks: 0,
            link_in: Station::new(1),
            engines: Station::new(self.engines),
            link_out: Station::new(1),
            device_log_ns: None,
            last_done_ns: 0,
        };
        let mut calendar = Calendar::new();
        state.take(&mut calendar);
        run(&mut state, &mut calendar, u64::MAX, self.chunks.saturating_add(1))?;
        let time_ns = calendar.now_ns().max(1) as f64;
        let busy_cores = state.core_chunks as f64 * self.core_ns / time_ns;
        let end_ns = calendar.now_ns();
        let limits = [
            ("host cores", busy_cores / self.cores as f64),
            ("link to the device", state.link_in.utilisation(end_ns)),
            ("engine", state.engines.utilisation(end_ns)),
            ("link from the device", state.link_out.utilisation(end_ns)),
        ];
        let busiest = limits.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        Ok(StreamResult {
            time_ns,
            device_chunks: state.device_chunks,
            busy_cores,
            bottleneck: busiest.map_or("", |(name, _)| name),
        })
    }
}

impl StreamState<'_> {
    /// Makes both targets take as many chunks as they may.
    fn take(&mut self, calendar: &mut Calendar<Event>) {
        while self.device_takes() {
            self.submit(calendar);
        }
        while self.core_takes() {
            self.waiting -= 1;
            self.busy_cores += 1;
            self.core_chunks += 1;
            calendar.after(ns(self.world.core_ns), Event::CoreDone);
        }
    }

    fn submit(&mut self, calendar: &mut Calendar<Event>) {
        let world = self.world;
        let left = match world.assignment {
            Assignment::Fixed { .. } => &mut self.for_device,
            Assignment::Shared => &mut self.waiting,
        };
        *left -= 1;
        self.in_flight += 1;
        self.device_chunks += 1;
        let now_ns = calendar.now_ns();
        // No room is limited, so that all are admitted.
        let received_ns = done(self.link_in.admit(now_ns, ns(world.link_in_ns)), now_ns);
        let engine = self.engines.admit_with(received_ns, |start_ns| {
            let slow = start_ns as f64 >= world.slow_from_ns;
            ns(world.engine_ns * if slow { world.slowdown } else { 1.0 })
        });
        let processed_ns = done(engine, received_ns);
        let link_out = self.link_out.admit(processed_ns, ns(world.link_out_ns));
        let done_ns = done(link_out, processed_ns).saturating_add(ns(world.latency_ns));
        calendar.at(done_ns, Event::DeviceDone { since_ns: now_ns });
    }

    fn device_takes(&self) -> bool {
        if self.in_flight >= self.world.depth {
            return false;
        }
        match self.world.assignment {
            Assignment::Fixed { .. } => self.for_device > 0,
            Assignment::Shared if self.waiting == 0 => false,
            Assignment::Shared => {
                let rounds = self.waiting.div_ceil(self.world.cores) as f64;
                let Some(log_ns) = self.device_log_ns else {
                    return true;
                };
                (self.in_flight + 1) as f64 * log_ns.exp() <= rounds * self.world.core_ns
            }
        }
    }

    fn core_takes(&self) -> bool {
        if self.waiting == 0 || self.busy_cores >= self.world.cores {
            return false;
        }
        match (self.world.assignment, self.device_log_ns) {
            (Assignment::Shared, Some(log_ns)) => {
                self.world.core_ns <= (self.in_flight + self.waiting) as f64 * log_ns.exp()
            }
            _ => true,
        }
    }
}

impl Model for StreamState<'_> {
    type Event = Event;

    fn handle(&mut self, event: Event, calendar: &mut Calendar<Event>) {
        match event {
            Event::CoreDone => self.busy_cores -= 1,
            Event::DeviceDone { since_ns } => {
                self.in_flight -= 1;
                let now_ns = calendar.now_ns();
                let took_ns = now_ns - since_ns.max(self.last_done_ns).min(now_ns);
                let log_ns = (took_ns.max(1) as f64).ln();
                let before = self.device_log_ns.unwrap_or(log_ns);
                self.device_log_ns = Some(before + WEIGHT * (log_ns - before));
                self.last_done_ns = now_ns;
            }
        }
        self.take(calendar);
    }
}

fn done(service: Option<crate::sim::Service>, otherwise_ns: u64) -> u64 {
    service.map_or(otherwise_ns, |service| service.done_ns)
}

fn ns(time_ns: f64) -> u64 {
    // `as` saturates.
    time_ns.round() as u64
}
