//! A pass: its duration, and its result.

use std::time::{Duration, Instant};

use overside_link::codec;
use serde::{Deserialize, Serialize};

use super::{CONNECTIONS_MAX, Error, Plan, SLICES_SENT_MAX, Traffic, nanoseconds};
use crate::counters::Events;
use crate::latency::Latencies;

/// The longest time that a pass is sent for, and the longest that it may take, in nanoseconds.
pub(super) const SENDING_NS_MAX: u64 = 3600 * 1_000_000_000;
pub(super) const PASS_NS_MAX: u64 = 24 * SENDING_NS_MAX;
const PASS_TIME_MAX: Duration = Duration::from_nanos(PASS_NS_MAX);

/// Condition under which sending stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Ends after this number of messages on each connection.
    Messages(u64),
    /// Sending stops once this time has passed; each connection sends at least one message.
    Time(Duration),
}

/// Messages that were sent and checked in one pass, and their figures. A pass is sent between
/// machines as it is, except for its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pass {
    /// Start of the pass; for a pass from another machine, the time at which it was received.
    #[serde(skip, default = "Instant::now")]
    pub start: Instant,
    /// Time from before the first message until the last came back, or until the server had all.
    #[serde(rename = "elapsed_ns", with = "as_nanoseconds")]
    pub elapsed: Duration,
    /// Messages that came back right, or that the server has found right.
    pub messages: u64,
    /// Bytes of the messages; of a round trip in one direction.
    pub bytes: u64,
    /// Bytes by connection.
    #[serde(deserialize_with = "codec::list::<_, _, CONNECTIONS_MAX>")]
    pub connection_bytes: Vec<u64>,
    /// Writes that took at least one byte.
    pub writes: u64,
    /// CPU time of the client's threads.
    #[serde(rename = "client_cpu_ns", with = "as_nanoseconds")]
    pub client_cpu: Duration,
    /// CPU time of the server's threads.
    #[serde(rename = "server_cpu_ns", with = "as_nanoseconds")]
    pub server_cpu: Duration,
    /// With a rate: number of messages that were sent more than a millisecond late.
    pub late: u64,
    /// Processor events counted on the client's threads, if the plan requests them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Events>,
    /// Slices of the pass, if the plan requests them.
    #[serde(deserialize_with = "codec::list::<_, _, SLICES_SENT_MAX>")]
    pub slices: Vec<Slice>,
    /// Latency of each round trip, or one-way delay of each message of a paced stream. With a rate
    /// it begins at the intended time of sending.
    pub latencies: Latencies,
    /// Delivery figures of a paced stream; `None` for other traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<OneWay>,
    /// Start of a pass from another machine in nanoseconds, on the clock that
    /// [`super::remote::NetworkReply::Clock`] reports.
    #[serde(default)]
    pub started_ns: u64,
}

impl Pass {
    /// Checks that figures from another machine are plausible for a pass by `plan`.
    ///
    /// # Errors
    /// [`Error::Wrong`] if they contradict each other or the plan.
    pub fn check(&self, plan: &Plan) -> Result<(), Error> {
        let timed = plan.load.traffic == Traffic::RoundTrips || plan.load.is_paced();
        let sum = (self.connection_bytes.iter()).try_fold(0u64, |sum, &one| sum.checked_add(one));
        let expected = [
            ("connections", self.connection_bytes.len() as u64, plan.load.connections as u64),
            ("bytes", sum.unwrap_or(u64::MAX), self.bytes),
            (
                "bytes of messages",
                self.messages.saturating_mul(plan.load.message_bytes as u64),
                self.bytes,
            ),
            ("latencies", self.latencies.count(), if timed { self.messages } else { 0 }),
        ];
        for (what, told, right) in expected {
            if told != right {
                let what = format!("its figures have {told} {what}, where there are {right}");
                return Err(Error::Wrong(what));
            }
        }
        let one_way = self.one_way.unwrap_or(OneWay { sent: self.messages, ..OneWay::default() });
        let paced = self.one_way.is_some() == plan.load.is_paced()
            && self.messages <= one_way.sent
            && (one_way.drift.is_finite() && one_way.drift_error.is_finite());
        let sent = self.messages > 0 && !self.elapsed.is_zero() && self.late <= one_way.sent;
        let counted = (self.events.clone()).is_none_or(|mut events| events.tidy())
            && self.events.is_some() == plan.events;
        let sent = sent && counted;
        if !sent || !paced || self.elapsed > PASS_TIME_MAX || !slices_can_be(&self.slices) {
            return Err(Error::Wrong("its figures cannot be".into()));
        }
        Ok(())
    }
}

/// Delivery figures of a paced stream. The pass's `messages` are those that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneWay {
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that came again.
    pub duplicates: u64,
    /// Messages that came after one with a higher number (RFC 4737).
    pub reordered: u64,
    /// Largest error of each delay in nanoseconds, because the two ends have different clocks.
    pub clock_error_ns: u64,
    /// Relative drift of the receiver's clock, and its uncertainty.
    pub drift: f64,
    /// See `drift`.
    pub drift_error: f64,
}

impl OneWay {
    /// Messages that never came, of which `received` did.
    pub fn lost(&self, received: u64) -> u64 {
        self.sent.saturating_sub(received)
    }
}

/// A part of a pass; sent as its fields in this order, times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "[u64; 7]", into = "[u64; 7]")]
pub struct Slice {
    /// End of the slice, from the beginning of the pass.
    pub end: Duration,
    /// Length of the slice.
    pub length: Duration,
    /// Number of bytes that arrived in the slice.
    pub bytes: u64,
    /// Round trips that ended in it; of streams messages that came.
    pub messages: u64,
    /// Sum of their latencies in nanoseconds.
    pub latency_sum_ns: u64,
    /// Longest latency of the slice.
    pub latency_max_ns: u64,
    /// Messages of a paced stream that should have been sent in the slice, and never arrived.
    pub lost: u64,
}

impl Slice {
    /// An empty slice with `before` slices of this length before it.
    pub(super) fn numbered(before: usize, length_ns: u64) -> Self {
        Self {
            end: Duration::from_nanos(length_ns.saturating_mul(before as u64 + 1)),
            length: Duration::from_nanos(length_ns),
            ..Self::default()
        }
    }
}

impl From<[u64; 7]> for Slice {
    fn from(fields: [u64; 7]) -> Self {
        let [end, length, bytes, messages, latency_sum_ns, latency_max_ns, lost] = fields;
        Self {
            end: Duration::from_nanos(end),
            length: Duration::from_nanos(length.max(1)),
            bytes,
            messages,
            latency_sum_ns,
            latency_max_ns,
            lost,
        }
    }
}

impl From<Slice> for [u64; 7] {
    fn from(slice: Slice) -> Self {
        [
            nanoseconds(slice.end),
            nanoseconds(slice.length),
            slice.bytes,
            slice.messages,
            slice.latency_sum_ns,
            slice.latency_max_ns,
            slice.lost,
        ]
    }
}

/// Returns `true` if the slices lie within the longest pass, and their sums do not overflow.
pub(super) fn slices_can_be(slices: &[Slice]) -> bool {
    let within = |slice: &Slice| slice.end <= PASS_TIME_MAX && slice.length <= PASS_TIME_MAX;
    let counts: [fn(&Slice) -> u64; 4] = [
        |slice| slice.lost,
        |slice| slice.bytes,
        |slice| slice.messages,
        |slice| slice.latency_sum_ns,
    ];
    let sum = |count: fn(&Slice) -> u64| {
        (slices.iter()).try_fold(0u64, |sum, slice| sum.checked_add(count(slice)))
    };
    slices.iter().all(within) && counts.into_iter().all(|count| sum(count).is_some())
}

/// A duration as a number of nanoseconds.
mod as_nanoseconds {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        duration: &std::time::Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        super::nanoseconds(*duration).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<std::time::Duration, D::Error> {
        u64::deserialize(deserializer).map(std::time::Duration::from_nanos)
    }
}
