//! A link as a token bucket.

/// Parts of a nanosecond that are kept, so that short messages do not lose time by rounding.
const PARTS: f64 = 1024.0;

/// What a link can carry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRate {
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Bytes that pass at once after a pause.
    pub burst_bytes: f64,
    /// Bytes of one packet; 0 if it has none.
    pub packet_bytes: u64,
    /// Bytes that each packet adds: headers.
    pub packet_overhead_bytes: u64,
    /// Time that each packet takes beside its bytes.
    pub packet_ns: f64,
    /// From one end to the other.
    pub latency_ns: u64,
    /// Bytes that may wait before it; more are dropped.
    pub buffer_bytes: f64,
}

impl LinkRate {
    /// Without bursts, packets, latency or a limit to what waits.
    pub const fn new(bytes_per_s: f64) -> Self {
        Self {
            bytes_per_s,
            burst_bytes: 0.0,
            packet_bytes: 0,
            packet_overhead_bytes: 0,
            packet_ns: 0.0,
            latency_ns: 0,
            buffer_bytes: f64::INFINITY,
        }
    }
}

/// A link that carries one message after another.
#[derive(Clone, Debug)]
pub struct Link {
    rate: LinkRate,
    /// When all that was sent is through, in parts of nanoseconds, with the burst added: a full
    /// bucket at time 0 needs no time before it.
    through: u64,
    burst: u64,
    carried_bytes: u64,
    dropped: u64,
}

/// When a message is through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its last byte has left.
    pub left_ns: u64,
    /// Its last byte has arrived.
    pub arrived_ns: u64,
}

impl Link {
    /// An idle link.
    pub fn new(rate: LinkRate) -> Self {
        let burst = rate.burst_bytes / rate.bytes_per_s * 1e9 * PARTS;
        Self {
            rate,
            through: 0,
            burst: burst as u64,
            carried_bytes: 0,
            dropped: 0,
        }
    }

    /// A message that is sent now, after those that were sent before; `None` if the buffer before
    /// the link is full.
    pub fn send(&mut self, now_ns: u64, bytes: u64) -> Option<Sent> {
        let now = self.now(now_ns);
        if self.backlog_bytes(now_ns) + bytes as f64 > self.rate.buffer_bytes {
            self.dropped += 1;
            return None;
        }
        let start = self.through.max(now.saturating_sub(self.burst));
        self.through = start.saturating_add(self.parts(bytes));
        self.carried_bytes = self.carried_bytes.saturating_add(bytes);
        let left_ns = (self.through.max(now) - self.burst).div_ceil(PARTS as u64);
        Some(Sent {
            left_ns,
            arrived_ns: left_ns.saturating_add(self.rate.latency_ns),
        })
    }

    /// Bytes that still wait or are under way into the link.
    pub fn backlog_bytes(&self, now_ns: u64) -> f64 {
        self.through.saturating_sub(self.now(now_ns)) as f64 / PARTS / 1e9 * self.rate.bytes_per_s
    }

    fn now(&self, now_ns: u64) -> u64 {
        now_ns
            .saturating_mul(PARTS as u64)
            .saturating_add(self.burst)
    }

    /// Time of `bytes` in parts of nanoseconds.
    fn parts(&self, bytes: u64) -> u64 {
        let packets = match self.rate.packet_bytes {
            0 => 1,
            packet => bytes.div_ceil(packet).max(1),
        };
        let headers = packets.saturating_mul(self.rate.packet_overhead_bytes) as f64;
        let ns = (bytes as f64 + headers) / self.rate.bytes_per_s * 1e9
            + packets as f64 * self.rate.packet_ns;
        (ns * PARTS).round() as u64
    }

    /// Bytes that were sent, without headers.
    pub fn carried_bytes(&self) -> u64 {
        self.carried_bytes
    }

    /// Messages that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}
