//! Servers in front of one queue, first come, first served.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Equal servers in front of one queue.
///
/// The duration of a job is known when it arrives, so its start and its end are too: instead of a queue, only
/// the times at which the servers are free are stored. Jobs must be admitted in the order of their arrival.
#[derive(Clone, Debug)]
pub struct Station {
    first_free_ns: u64,
    /// Times at which the other servers are free. The first server's is a field of its own, so that
    /// one server needs no heap.
    others_free_ns: BinaryHeap<Reverse<u64>>,
    servers: usize,
    room: usize,
    /// Start times of the jobs that wait; kept only where the room is limited.
    starts_ns: VecDeque<u64>,
    busy_ns: u64,
    last_done_ns: u64,
}

/// Times at which the service of a job starts and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Time at which the job starts.
    pub start_ns: u64,
    /// Time at which the job is done.
    pub done_ns: u64,
}

impl Station {
    /// Makes a station with at least one server, and room for any number of jobs.
    pub fn new(servers: usize) -> Self {
        Self::bounded(servers, usize::MAX)
    }

    /// Makes a station with at least one server, and room for `room` waiting jobs in addition to those that
    /// are served.
    pub fn bounded(servers: usize, room: usize) -> Self {
        let servers = servers.max(1);
        Self {
            first_free_ns: 0,
            others_free_ns: vec![Reverse(0); servers - 1].into(),
            servers,
            room,
            starts_ns: VecDeque::new(),
            busy_ns: 0,
            last_done_ns: 0,
        }
    }

    /// A job that arrives now and needs a server for `service_ns`; `None` if there is no room.
    pub fn admit(&mut self, now_ns: u64, service_ns: u64) -> Option<Service> {
        self.admit_with(now_ns, |_| service_ns)
    }

    /// A job that arrives now, and needs a server for a time that depends on when it starts.
    pub fn admit_with(
        &mut self,
        now_ns: u64,
        service_ns: impl FnOnce(u64) -> u64,
    ) -> Option<Service> {
        let start_ns = self.first_free_ns.max(now_ns);
        if self.room != usize::MAX && start_ns > now_ns {
            if self.waiting(now_ns) >= self.room {
                return None;
            }
            self.starts_ns.push_back(start_ns);
        }
        let service_ns = service_ns(start_ns);
        let done_ns = start_ns.saturating_add(service_ns);
        self.first_free_ns = done_ns;
        if let Some(mut least) = self.others_free_ns.peek_mut()
            && least.0 < done_ns
        {
            std::mem::swap(&mut self.first_free_ns, &mut least.0);
        }
        self.busy_ns = self.busy_ns.saturating_add(service_ns);
        self.last_done_ns = self.last_done_ns.max(done_ns);
        Some(Service { start_ns, done_ns })
    }

    /// Jobs that wait now; counted only where the room is limited.
    fn waiting(&mut self, now_ns: u64) -> usize {
        while self.starts_ns.front().is_some_and(|start| *start <= now_ns) {
            self.starts_ns.pop_front();
        }
        self.starts_ns.len()
    }

    /// The share of the servers' time until `end_ns`, or until all is done, that they are busy.
    pub fn utilisation(&self, end_ns: u64) -> f64 {
        let end_ns = end_ns.max(self.last_done_ns).max(1);
        self.busy_ns as f64 / (end_ns as f64 * self.servers as f64)
    }
}
