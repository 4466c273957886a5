//! Counters of a worker: plain integers, since only its thread changes them.

use std::time::Duration;

use crate::ethernet::FrameCounts;
use crate::udp::Sent;

/// Classes of the histogram of turns: the first ends at 2^10 ns, each next one at twice as much.
const CLASSES: usize = 22;
const FIRST_CLASS_LOG2: u32 = 10;

/// Counts since the start.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    pub traffic: Traffic,
    pub closed: [u64; CloseReason::COUNT],
    pub turns: Histogram,
    pub datagrams: DatagramCounters,
    pub ethernet: FrameCounts,
}

overside_kv_store::counts! {
    /// Connections and their bytes.
    pub(super) struct Traffic {
        connections_accepted: "connections_total" = "Connections accepted.",
        connections_rejected: "connections_rejected_total" = "Connections beyond the limit.",
        wrong_passwords: "wrong_passwords_total" = "Wrong passwords.",
        bytes_received: "received_bytes_total" = "Bytes received from clients.",
        bytes_sent: "sent_bytes_total" = "Bytes sent to clients.",
        sends: "sends_total" = "Writes of replies to connections: system calls that sent some.",
    }
}

overside_kv_store::counts! {
    /// Datagrams since the start, and those that wait now.
    pub(super) struct DatagramCounters {
        received: "datagrams_received" = "Datagrams received.",
        received_bytes: "datagrams_received_bytes" = "Bytes of the received datagrams.",
        sent: "datagrams_sent" = "Datagrams sent.",
        sent_bytes: "datagrams_sent_bytes" = "Bytes of the sent datagrams.",
        unsent: "datagrams_unsent" = "Datagrams that could not be sent.",
        invalid: "datagrams_invalid" = "Datagrams dropped as malformed.",
        repeated: "datagrams_repeated" = "Copies of datagrams with writes.",
        refused: "datagrams_refused" = "Datagrams dropped because they are not from this machine.",
        dropped: "datagrams_dropped" = "Datagrams dropped because the receive queue was full.",
        backlog_bytes: "datagrams_backlog_bytes" = "Bytes that wait to be received.",
        backlog_max_bytes: "datagrams_backlog_max_bytes" = "Maximum number of bytes that waited to be received.",
        queue_bytes: "datagrams_queue_bytes" = "Maximum number of bytes that can wait to be received.",
        region_writes: "region_link_writes" = "One-sided writes of clients into request regions.",
        region_written_bytes: "region_link_written_bytes" = "Bytes of the one-sided writes.",
        region_requests: "region_requests" = "Requests in the one-sided writes.",
    }
}

impl DatagramCounters {
    /// Counts sent and dropped answers.
    pub(super) fn add_sent(&mut self, sent: Sent) {
        self.sent += sent.datagrams;
        self.sent_bytes += sent.bytes;
        self.unsent += sent.failed;
    }
}

impl Counters {
    /// Adds those of another worker.
    pub(super) fn add(&mut self, other: &Self) {
        self.traffic.add(&other.traffic);
        for (sum, count) in self.closed.iter_mut().zip(other.closed) {
            *sum += count;
        }
        self.turns.add(&other.turns);
        self.datagrams.add(&other.datagrams);
        self.ethernet.add(&other.ethernet);
    }
}

/// Reason why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseReason {
    /// The client ended it.
    Client,
    /// After `QUIT`, or a violation of the protocol.
    Protocol,
    /// The socket or TLS failed.
    Failed,
    /// The client sent nothing for too long.
    Idle,
    /// The client took no output for too long.
    Stalled,
    /// The client held most memory when all held too much.
    Memory,
    /// The client did not authenticate in time.
    Unauthenticated,
    /// Another client closed the connection.
    Killed,
    /// Changes that its commands made could not be kept.
    Persistence,
    /// The server ends.
    Shutdown,
}

impl CloseReason {
    pub(super) const COUNT: usize = 10;
    /// Names, in the order of the variants.
    pub(super) const NAMES: [&str; Self::COUNT] = [
        "client",
        "protocol",
        "failed",
        "idle",
        "stalled",
        "memory",
        "unauthenticated",
        "killed",
        "persistence",
        "shutdown",
    ];
}

/// Durations by powers of two.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    classes: [u64; CLASSES],
    count: u64,
    sum_ns: u64,
}

impl Histogram {
    pub(super) fn record(&mut self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let log2 = ns.max(1).ilog2() + u32::from(!ns.is_power_of_two());
        let class = log2.saturating_sub(FIRST_CLASS_LOG2) as usize;
        if let Some(count) = self.classes.get_mut(class) {
            *count += 1;
        }
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    fn add(&mut self, other: &Self) {
        for (sum, count) in self.classes.iter_mut().zip(other.classes) {
            *sum += count;
        }
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// Returns upper bounds in seconds, ascending, each with the number of turns that took at most
    /// that long.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut sum = 0;
        self.classes.iter().enumerate().map(move |(class, count)| {
            sum += count;
            let ns = 1u64 << (class as u32 + FIRST_CLASS_LOG2);
            (ns as f64 / 1e9, sum)
        })
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn sum_s(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Histogram;

    #[test]
    fn a_duration_is_in_the_classes_that_end_after_it() {
        let mut histogram = Histogram::default();
        for ns in [0, 1024, 1025, 5000, 60_000_000_000] {
            histogram.record(Duration::from_nanos(ns));
        }
        let classes: Vec<_> = histogram.cumulative().collect();
        assert_eq!(classes[0], (1.024e-6, 2));
        assert_eq!(classes[1], (2.048e-6, 3));
        assert_eq!(classes[2], (4.096e-6, 3));
        assert_eq!(classes[3], (8.192e-6, 4));
        assert_eq!(classes.last().unwrap().1, 4);
        assert_eq!(histogram.count(), 5);
        assert!((histogram.sum_s() - 60.000007049).abs() < 1e-9);
    }
}
