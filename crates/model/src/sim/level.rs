//! A number that goes up and down, and its mean over time.

/// How many are in a system, say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Level {
    now: i64,
    since_ns: u64,
    /// Number times nanoseconds.
    area: f64,
    most: i64,
}

impl Level {
    /// None, from time 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// So many more, or fewer, from now on.
    pub fn add(&mut self, now_ns: u64, change: i64) {
        self.area += self.now as f64 * now_ns.saturating_sub(self.since_ns) as f64;
        self.since_ns = self.since_ns.max(now_ns);
        self.now += change;
        self.most = self.most.max(self.now);
    }

    /// How many there are.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// The most there were.
    pub fn most(&self) -> i64 {
        self.most
    }

    /// The mean over the time until `end_ns`.
    pub fn mean(&self, end_ns: u64) -> f64 {
        let rest = self.now as f64 * end_ns.saturating_sub(self.since_ns) as f64;
        (self.area + rest) / end_ns.max(1) as f64
    }
}
