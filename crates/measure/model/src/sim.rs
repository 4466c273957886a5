//! A discrete-event simulator, for queues, contention and drift.
//!
//! Time is virtual, in whole nanoseconds. A [`Model`] has one type of event; the [`Calendar`]
//! holds those to come and gives them back by time, those of the same time in the order in which
//! they were put in. All random numbers come from a seeded [`Random`]. So the same question
//! with the same seed has the same answer, on every machine.
//!
//! The parts are passive: they get the time and return when something will be done, and the model
//! puts that into the calendar. [`Station`] is engines in front of a queue, [`Arrivals`] an
//! open-loop source. [`Latencies`] has the results.
//!
//! ```
//! use overside_model::sim::{Arrivals, Calendar, Latencies, Model, Random, Station, run};
//!
//! /// One engine that takes 100 ns a job; jobs arrive at random, every 200 ns on average.
//! struct Engine {
//!     random: Random,
//!     arrivals: Arrivals,
//!     engine: Station,
//!     latencies: Latencies,
//! }
//!
//! enum Event {
//!     Arrives,
//!     Done { since_ns: u64 },
//! }
//!
//! impl Model for Engine {
//!     type Event = Event;
//!     fn handle(&mut self, event: Event, calendar: &mut Calendar<Event>) {
//!         let now_ns = calendar.now_ns();
//!         match event {
//!             Event::Arrives => {
//!                 if let Some(service) = self.engine.admit(now_ns, 100) {
//!                     calendar.at(service.done_ns, Event::Done { since_ns: now_ns });
//!                 }
//!                 calendar.at(self.arrivals.next_ns(&mut self.random), Event::Arrives);
//!             }
//!             Event::Done { since_ns } => self.latencies.record(now_ns - since_ns),
//!         }
//!     }
//! }
//!
//! let mut model = Engine {
//!     random: Random::new(1),
//!     arrivals: Arrivals::new(0, 200.0),
//!     engine: Station::new(1),
//!     latencies: Latencies::new(),
//! };
//! let mut calendar = Calendar::new();
//! calendar.at(0, Event::Arrives);
//! run(&mut model, &mut calendar, 20_000_000, u64::MAX)?;
//! // Half busy, such an engine makes a job wait for half its own time.
//! assert!((model.latencies.mean_ns() - 150.0).abs() < 5.0);
//! # Ok::<(), overside_model::sim::SimulationError>(())
//! ```

mod calendar;
mod latencies;
mod source;
mod station;

pub use calendar::{Calendar, PENDING_MAX};
pub use latencies::Latencies;
pub use overside_base::{Random, Zipf};
pub use source::Arrivals;
pub use station::{Service, Station};

/// Model of a system whose events happen in virtual time.
pub trait Model {
    /// All events; an enum of small variants is the fastest.
    type Event;

    /// Handles one event, at [`Calendar::now_ns`], and schedules those that follow.
    fn handle(&mut self, event: Self::Event, calendar: &mut Calendar<Self::Event>);
}

/// Reason why a simulation cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// More events wait than the calendar holds.
    #[error("more than {PENDING_MAX} events wait; ask for less load or fewer clients")]
    TooManyPending,
    /// More events happened than were allowed.
    #[error("{handled} events happened and there are more; ask for less time or fewer requests")]
    TooManyEvents {
        /// Number of events that happened: as many as were allowed.
        handled: u64,
    },
}

/// Handles events until the calendar is empty or `until_ns` has passed, including events of that very
/// time. Returns the number of events.
///
/// # Errors
/// [`SimulationError`].
pub fn run<M: Model>(
    model: &mut M,
    calendar: &mut Calendar<M::Event>,
    until_ns: u64,
    events_max: u64,
) -> Result<u64, SimulationError> {
    let mut handled = 0;
    while handled < events_max {
        let Some(event) = calendar.next_until(until_ns) else {
            break;
        };
        handled += 1;
        model.handle(event, calendar);
    }
    if calendar.overflowed() {
        return Err(SimulationError::TooManyPending);
    }
    match calendar.next_ns() {
        Some(next_ns) if next_ns <= until_ns => Err(SimulationError::TooManyEvents { handled }),
        _ => Ok(handled),
    }
}
