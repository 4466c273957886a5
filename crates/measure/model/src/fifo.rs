//! A device as three servers in a row, in virtual time: the link towards it, its engines, the link
//! back. Each takes one job at a time, in order of arrival.

use crate::StageTimes;

/// Times at which each server is free again, in nanoseconds of the caller's clock.
#[derive(Clone, Debug)]
pub struct Fifo {
    link_in_free_ns: u64,
    engines_free_ns: Vec<u64>,
    link_out_free_ns: u64,
}

/// Queueing and completion times of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Waiting for the link, the engine and the link back, together.
    pub queueing_ns: u64,
    /// Time at which the result is in the host's memory, in nanoseconds of the caller's clock.
    pub done_ns: u64,
}

impl Fifo {
    /// Idle servers, with at least one engine.
    pub fn new(engines: usize) -> Self {
        Self { link_in_free_ns: 0, engines_free_ns: vec![0; engines.max(1)], link_out_free_ns: 0 }
    }

    /// Admits a job that arrives at `now_ns` and needs each server for its stage's time. A job that comes out of order
    /// waits for those admitted before it. Times saturate instead of overflowing.
    pub fn admit(&mut self, now_ns: u64, stages: &StageTimes) -> Schedule {
        let received = serve(&mut self.link_in_free_ns, now_ns, stages.link_in_ns);
        let at_engine_ns = stages.doorbell_ns.saturating_add(stages.engine_ns);
        let first = self.engines_free_ns.iter_mut().min();
        let processed = first.map_or(received, |engine| serve(engine, received, at_engine_ns));
        let sent = serve(&mut self.link_out_free_ns, processed, stages.link_out_ns);
        // The way to the engine and back holds nobody else up.
        let latency_ns = stages.latency_ns.unwrap_or(0);
        let done_ns = sent.saturating_add(latency_ns);
        let busy = [stages.engine_ns, stages.link_out_ns, latency_ns]
            .into_iter()
            .fold(stages.link_in_ns, u64::saturating_add);
        Schedule { queueing_ns: (done_ns - now_ns).saturating_sub(busy), done_ns }
    }
}

fn serve(free_ns: &mut u64, ready_ns: u64, service_ns: u64) -> u64 {
    *free_ns = ready_ns.max(*free_ns).saturating_add(service_ns);
    *free_ns
}
