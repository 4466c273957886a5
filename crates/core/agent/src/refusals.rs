//! Rate-limited log of refused connections. Entries beyond the limit are only counted.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use overside_base::lock;

/// Maximum number of refusals that are logged in one period.
const LOGGED_MAX: u32 = 10;
const PERIOD: Duration = Duration::from_secs(10);

/// Logs refusals at a bounded rate: any peer can cause them.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    /// Time of the first entry logged in the current period; `None` before the first entry.
    since: Option<Instant>,
    logged: u32,
    left_out: u64,
}

impl Refusals {
    pub(crate) fn log(&self, peer: SocketAddr, reason: &dyn Display) {
        if let Some(left_out) = lock(&self.0).count(Instant::now()) {
            tracing::warn!(%peer, %reason, left_out, "connection refused");
        }
    }
}

impl Counts {
    /// Counts a refusal. If it is to be logged, returns the number of refusals that were not logged
    /// since the last one.
    fn count(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now - since >= PERIOD) {
            (self.since, self.logged) = (Some(now), 0);
        }
        if self.logged == LOGGED_MAX {
            self.left_out += 1;
            return None;
        }
        self.logged += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[test]
fn few_are_logged_and_all_are_counted() {
    let (mut counts, begin) = (Counts::default(), Instant::now());
    let logged = |counts: &mut Counts, at| (0..1000).filter_map(|_| counts.count(at)).collect();
    let first: Vec<u64> = logged(&mut counts, begin);
    assert_eq!(first, [0; LOGGED_MAX as usize]);
    let later: Vec<u64> = logged(&mut counts, begin + PERIOD);
    assert_eq!((later.len(), later[0], later[1]), (LOGGED_MAX as usize, 990, 0));
}
