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
    pub connections_accepted: u64,
    pub connections_rejected: u64,
    pub closed: [u64; CloseReason::COUNT],
    pub bytes_received: u64,
    pub bytes_sent: u64,
    pub wrong_passwords: u64,
    pub turns: Histogram,
    pub datagrams: DatagramCounters,
    pub ethernet: EthernetCounters,
}

/// Datagrams since the start, and those that wait now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DatagramCounters {
    pub received: u64,
    pub received_bytes: u64,
    pub sent: u64,
    pub sent_bytes: u64,
    /// Answers that the kernel did not take.
    pub unsent: u64,
    /// Malformed.
    pub invalid: u64,
    /// Copies of datagrams with writes.
    pub repeated: u64,
    /// Not from this machine.
    pub refused: u64,
    /// Dropped by the kernel because no more could wait; a train that came together counts as one.
    pub dropped: u64,
    /// Bytes that wait to be received. `backlog_max_bytes` is the most that was seen, `queue_bytes`
    /// the most that can wait.
    pub backlog_bytes: u64,
    pub backlog_max_bytes: u64,
    pub queue_bytes: u64,
    /// One-sided writes of clients into request regions, bytes of them, and requests that were in them.
    pub region_writes: u64,
    pub region_written_bytes: u64,
    pub region_requests: u64,
}

impl DatagramCounters {
    /// Counts sent and dropped answers.
    pub(super) fn add_sent(&mut self, sent: Sent) {
        self.sent += sent.datagrams;
        self.sent_bytes += sent.bytes;
        self.unsent += sent.failed;
    }

    /// Names in `INFO` with descriptions, for the metrics; sizes are those of now.
    pub(super) fn fields(&self) -> [(&'static str, &'static str, u64); 15] {
        [
            ("datagrams_received", "Datagrams received.", self.received),
            (
                "datagrams_received_bytes",
                "Bytes of them.",
                self.received_bytes,
            ),
            ("datagrams_sent", "Datagrams sent.", self.sent),
            ("datagrams_sent_bytes", "Bytes of them.", self.sent_bytes),
            (
                "datagrams_unsent",
                "Datagrams that could not be sent.",
                self.unsent,
            ),
            (
                "datagrams_invalid",
                "Datagrams dropped as malformed.",
                self.invalid,
            ),
            (
                "datagrams_repeated",
                "Copies of datagrams with writes.",
                self.repeated,
            ),
            (
                "datagrams_refused",
                "Datagrams dropped because they are not from this machine.",
                self.refused,
            ),
            (
                "datagrams_dropped",
                "Dropped: the receive queue was full.",
                self.dropped,
            ),
            (
                "datagrams_backlog_bytes",
                "What waits to be received.",
                self.backlog_bytes,
            ),
            (
                "datagrams_backlog_max_bytes",
                "The most that was seen to wait.",
                self.backlog_max_bytes,
            ),
            (
                "datagrams_queue_bytes",
                "What can wait to be received.",
                self.queue_bytes,
            ),
            (
                "region_link_writes",
                "One-sided writes of clients into request regions.",
                self.region_writes,
            ),
            (
                "region_link_written_bytes",
                "Bytes of them.",
                self.region_written_bytes,
            ),
            ("region_requests", "Requests in them.", self.region_requests),
        ]
    }

    fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.unsent += other.unsent;
        self.invalid += other.invalid;
        self.repeated += other.repeated;
        self.refused += other.refused;
        self.dropped += other.dropped;
        self.backlog_bytes += other.backlog_bytes;
        self.backlog_max_bytes += other.backlog_max_bytes;
        self.queue_bytes += other.queue_bytes;
        self.region_writes += other.region_writes;
        self.region_written_bytes += other.region_written_bytes;
        self.region_requests += other.region_requests;
    }
}

/// Frames of the port that DPDK drives, since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EthernetCounters {
    pub frames: FrameCounts,
    pub received: u64,
    /// To the worker that has their keys, by another one; and those that it had no room for.
    pub handed_over: u64,
    pub handover_dropped: u64,
    /// Frames that the device dropped because no receive descriptor was free, by its own count.
    /// `no_buffer` are those that its driver dropped because no buffer was free, `unsent` those
    /// that the device could not send.
    pub missed: u64,
    pub no_buffer: u64,
    pub unsent: u64,
    /// Ports that have a link now.
    pub links: u64,
}

impl EthernetCounters {
    /// Names in `INFO` with descriptions, for the metrics.
    pub(super) fn fields(&self) -> [(&'static str, &'static str, u64); 12] {
        let frames = &self.frames;
        [
            ("frames_links", "Ports that have a link.", self.links),
            ("frames_received", "Frames received.", self.received),
            (
                "frames_questions",
                "ARP and ICMP echo that were answered.",
                frames.questions,
            ),
            (
                "frames_not_for_us",
                "For others, or of protocols that are not spoken here.",
                frames.not_for_us,
            ),
            (
                "frames_fragments",
                "Dropped: parts of IPv4 packets.",
                frames.fragments,
            ),
            (
                "frames_checksum_errors",
                "Dropped: a checksum is wrong.",
                frames.checksums,
            ),
            (
                "frames_malformed",
                "Dropped: lengths contradict each other.",
                frames.malformed,
            ),
            (
                "frames_handed_over",
                "Handed over to the core that has their keys.",
                self.handed_over,
            ),
            (
                "frames_handover_dropped",
                "Dropped: that core had too many.",
                self.handover_dropped,
            ),
            (
                "frames_missed",
                "Dropped by the device: no receive descriptor was free.",
                self.missed,
            ),
            (
                "frames_no_buffer",
                "Dropped by the driver: no buffer was free.",
                self.no_buffer,
            ),
            (
                "frames_unsent",
                "Frames that the device could not send.",
                self.unsent,
            ),
        ]
    }

    fn add(&mut self, other: &Self) {
        self.frames.add(&other.frames);
        self.received += other.received;
        self.handed_over += other.handed_over;
        self.handover_dropped += other.handover_dropped;
        self.missed += other.missed;
        self.no_buffer += other.no_buffer;
        self.unsent += other.unsent;
        self.links += other.links;
    }
}

impl Counters {
    /// Adds those of another worker.
    pub(super) fn add(&mut self, other: &Self) {
        self.connections_accepted += other.connections_accepted;
        self.connections_rejected += other.connections_rejected;
        for (sum, count) in self.closed.iter_mut().zip(other.closed) {
            *sum += count;
        }
        self.bytes_received += other.bytes_received;
        self.bytes_sent += other.bytes_sent;
        self.wrong_passwords += other.wrong_passwords;
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
    /// Another client asked for that.
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
