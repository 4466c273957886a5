//! Traffic before, beside and after a stream of DMAs, in virtual time.
//!
//! One frame after the other spends its time elsewhere and on the card's path to memory, which is
//! one server with one queue. DMAs arrive there at random and take as long as a frame on average,
//! so that a frame waits for a number of them that follows from the path's load.

use crate::sim::{Arrivals, Calendar, Model, Random, SimulationError, Station, run};

/// Frames and DMAs on a card's path to memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TrafficModel {
    /// A frame without jobs or DMAs.
    pub(super) frame_ns: f64,
    /// Part of the frame's time on the shared path.
    pub(super) path_ns: f64,
    /// The share of the path's time that DMAs take while they stream.
    pub(super) load: f64,
    /// Length of each of the three phases: before the DMAs begin, while they stream, and
    /// afterwards.
    pub(super) phase_ns: u64,
    /// Number of windows into which each phase is divided.
    pub(super) windows: u64,
    pub(super) seed: u64,
}

/// One part of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Window {
    /// Frames that went through.
    pub(super) frames: u64,
    /// Total time of these frames on the path, waiting included.
    pub(super) path_ns: u64,
}

enum Event {
    FrameArrives,
    FrameLeaves { since_ns: u64 },
    Dma,
}

struct SimulationState {
    world: TrafficModel,
    random: Random,
    path: Station,
    dmas: Arrivals,
    windows: Vec<Window>,
}

impl TrafficModel {
    /// Events that it takes at most, about.
    pub(super) fn events(&self) -> u64 {
        let frames = self.phase_ns as f64 * 3.0 / self.frame_ns;
        let dmas = self.phase_ns as f64 * self.load / self.path_ns;
        // Random arrivals are within a few times their root.
        (frames * 2.0 + dmas + 10.0 * dmas.sqrt()) as u64 + 16
    }

    /// Looks at each window, in order.
    ///
    /// # Errors
    /// [`SimulationError`].
    pub(super) fn run(self) -> Result<Vec<Window>, SimulationError> {
        let mean_ns = self.path_ns / self.load;
        let mut state = SimulationState {
            world: self,
            random: Random::new(self.seed),
            path: Station::new(1),
            dmas: Arrivals::new(self.phase_ns, mean_ns),
            windows: vec![Window::default(); self.windows as usize * 3],
        };
        let mut calendar = Calendar::new();
        calendar.at(0, Event::FrameArrives);
        if self.load > 0.0 {
            state.next_dma(&mut calendar);
        }
        run(&mut state, &mut calendar, self.phase_ns.saturating_mul(3), self.events())?;
        Ok(state.windows)
    }

    /// Returns the length of one window in nanoseconds.
    pub(super) fn window_ns(&self) -> f64 {
        self.phase_ns as f64 / self.windows as f64
    }
}

impl SimulationState {
    fn next_dma(&mut self, calendar: &mut Calendar<Event>) {
        let at_ns = self.dmas.next_ns(&mut self.random);
        if at_ns < self.world.phase_ns * 2 {
            calendar.at(at_ns, Event::Dma);
        }
    }
}

/// Rounds to whole nanoseconds, at least one.
fn whole(ns: f64) -> u64 {
    (ns.round() as u64).max(1)
}

impl Model for SimulationState {
    type Event = Event;

    fn handle(&mut self, event: Event, calendar: &mut Calendar<Event>) {
        let now_ns = calendar.now_ns();
        match event {
            Event::FrameArrives => {
                if let Some(served) = self.path.admit(now_ns, whole(self.world.path_ns)) {
                    calendar.at(served.done_ns, Event::FrameLeaves { since_ns: now_ns });
                }
            }
            Event::FrameLeaves { since_ns } => {
                let at = (now_ns as f64 / self.world.window_ns()) as usize;
                if let Some(window) = self.windows.get_mut(at) {
                    window.frames += 1;
                    window.path_ns += now_ns - since_ns;
                }
                let elsewhere_ns = whole(self.world.frame_ns) - whole(self.world.path_ns);
                calendar.at(now_ns + elsewhere_ns, Event::FrameArrives);
            }
            Event::Dma => {
                let service_ns = whole(self.random.exponential(self.world.path_ns));
                self.path.admit(now_ns, service_ns);
                self.next_dma(calendar);
            }
        }
    }
}
