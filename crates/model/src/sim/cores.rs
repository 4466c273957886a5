//! Cores that work off jobs, and how they learn that there is one.

use super::{Service, Station};

/// How a core learns of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It looks all the time: it is never late and always busy.
    Polling,
    /// It sleeps where there is nothing to do, and has to be woken.
    Event {
        /// Nanoseconds from the event until the core works on it.
        wake_ns: u64,
    },
}

/// Equal cores in front of one queue.
#[derive(Clone, Debug)]
pub struct Cores {
    station: Station,
    completion: Completion,
    wakes: u64,
}

impl Cores {
    /// At least one core, room for `room` jobs that wait.
    pub fn new(cores: usize, completion: Completion, room: usize) -> Self {
        Self {
            station: Station::bounded(cores, room),
            completion,
            wakes: 0,
        }
    }

    /// A job that arrives now and needs a core for `work_ns`; `None` if there is no room. A core
    /// that slept is woken first, which counts as its busy time.
    pub fn admit(&mut self, now_ns: u64, work_ns: u64) -> Option<Service> {
        let (completion, wakes) = (self.completion, &mut self.wakes);
        self.station.admit_with(now_ns, |_, idle| match completion {
            Completion::Event { wake_ns } if idle => {
                *wakes += 1;
                work_ns.saturating_add(wake_ns)
            }
            _ => work_ns,
        })
    }

    /// Cores that are busy on average until `end_ns`: all of them where they poll.
    pub fn busy(&self, end_ns: u64) -> f64 {
        let cores = self.station.servers() as f64;
        match self.completion {
            Completion::Polling => cores,
            Completion::Event { .. } => self.station.utilisation(end_ns) * cores,
        }
    }

    /// The share of their time that they spend on jobs.
    pub fn utilisation(&self, end_ns: u64) -> f64 {
        self.station.utilisation(end_ns)
    }

    /// How often a core was woken.
    pub fn wakes(&self) -> u64 {
        self.wakes
    }

    /// Jobs for which there was no room.
    pub fn refused(&self) -> u64 {
        self.station.refused()
    }

    /// When all that was admitted is done.
    pub fn drained_ns(&self) -> u64 {
        self.station.drained_ns()
    }
}
