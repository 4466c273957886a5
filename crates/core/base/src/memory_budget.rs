//! Memory budget of a process, shared by all code that reserves from it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory_figure;

/// Share of the limit from which on caches give their memory back.
const TIGHT: (u64, u64) = (3, 4);

/// Limit on the memory of a process. Code reserves its bytes here before it allocates them.
///
/// Two figures are held against the limit: the reserved bytes, and the process's real ones. The
/// first counts memory that libraries will take but have not, the second memory that they took
/// without a reservation.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: u64,
    reserved: AtomicU64,
    resident: fn() -> u64,
    /// Budget that this one is a share of; `None` for the budget of the whole process.
    whole: Option<Arc<MemoryBudget>>,
}

impl MemoryBudget {
    /// Makes a budget of `limit` bytes, for the whole process.
    pub fn new(limit: u64) -> Arc<Self> {
        Self::measured_by(limit, resident_bytes)
    }

    fn measured_by(limit: u64, resident: fn() -> u64) -> Arc<Self> {
        Arc::new(Self { limit, reserved: AtomicU64::new(0), resident, whole: None })
    }

    /// A part of this budget: at most `limit` bytes, if they are left.
    pub fn share(self: &Arc<Self>, limit: u64) -> Arc<Self> {
        Arc::new(Self {
            limit,
            reserved: AtomicU64::new(0),
            resident: || 0,
            whole: Some(Arc::clone(self)),
        })
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Reserves `bytes` bytes.
    ///
    /// # Errors
    /// [`OutOfMemory`] if fewer are left.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reservation, OutOfMemory> {
        let mut reservation = Reservation { budget: Arc::clone(self), bytes: 0 };
        reservation.grow(bytes)?;
        Ok(reservation)
    }

    /// Most is reserved: nothing is to be kept for later.
    pub fn is_tight(&self) -> bool {
        let is_tight = self.reserved.load(Ordering::Relaxed) > self.limit / TIGHT.1 * TIGHT.0;
        is_tight || self.whole.as_ref().is_some_and(|whole| whole.is_tight())
    }

    fn take(&self, more: u64) -> Result<(), OutOfMemory> {
        let (limit, resident) = (self.limit, (self.resident)());
        let left = |reserved: u64| limit.saturating_sub(reserved.max(resident));
        let with = |reserved| (more <= left(reserved)).then(|| reserved + more);
        let order = (Ordering::Relaxed, Ordering::Relaxed);
        let taken = self.reserved.fetch_update(order.0, order.1, with);
        taken.map_err(|reserved| OutOfMemory { needed: more, left: left(reserved), limit })?;
        let whole = self.whole.as_ref().map_or(Ok(()), |whole| whole.take(more));
        whole.inspect_err(|_| {
            self.reserved.fetch_sub(more, Ordering::Relaxed);
        })
    }

    fn give_back(&self, less: u64) {
        self.reserved.fetch_sub(less, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.give_back(less);
        }
    }
}

/// Bytes of a budget. Dropping it gives them back.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl Reservation {
    /// Returns the number of reserved bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns `true` if the reservation's budget is tight, see [`MemoryBudget::is_tight`].
    pub fn is_tight(&self) -> bool {
        self.budget.is_tight()
    }

    /// Reserves more.
    ///
    /// # Errors
    /// [`OutOfMemory`]; then it is as large as it was.
    pub fn grow(&mut self, more: u64) -> Result<(), OutOfMemory> {
        if more > 0 {
            self.budget.take(more)?;
            self.bytes += more;
        }
        Ok(())
    }

    /// Returns all but `bytes` bytes to the budget.
    pub fn shrink_to(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        self.bytes -= less;
        self.budget.give_back(less);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// Error of a budget that has too little left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Number of requested bytes.
    pub needed: u64,
    /// Bytes that are left in the budget.
    pub left: u64,
    /// The whole budget.
    pub limit: u64,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        write!(
            f,
            "it takes {} MiB of memory, and {} of {} MiB are left",
            mib(self.needed),
            self.left >> 20,
            mib(self.limit)
        )
    }
}

impl std::error::Error for OutOfMemory {}

/// Memory that this process has, in bytes; 0 if the system does not report it.
fn resident_bytes() -> u64 {
    memory_figure("/proc/self/status", "VmRSS").unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_is_given_back_and_no_more_than_the_limit_is_given() {
        let budget = MemoryBudget::measured_by(100, || 0);
        let mut first = budget.reserve(60).unwrap();
        let refused = budget.reserve(50).unwrap_err();
        assert_eq!((refused.needed, refused.left, refused.limit), (50, 40, 100));
        assert!(first.grow(41).is_err() && first.grow(40).is_ok());
        assert_eq!(first.bytes(), 100);
        assert!(budget.is_tight() && budget.reserve(1).is_err());
        first.shrink_to(10);
        assert!(!budget.is_tight());
        let second = budget.reserve(90).unwrap();
        drop((first, second));
        assert!(budget.reserve(100).is_ok());
    }

    #[test]
    fn one_who_has_a_share_leaves_the_rest_to_others() {
        let whole = MemoryBudget::measured_by(100, || 0);
        let (one, other) = (whole.share(75), whole.share(75));
        let held = one.reserve(75).unwrap();
        assert!(one.is_tight() && one.reserve(1).is_err());
        assert!(other.reserve(26).is_err() && other.reserve(25).is_ok());
        drop(held);
        assert!(other.reserve(75).is_ok() && whole.reserve(100).is_ok());
    }

    #[test]
    fn what_nobody_foresaw_counts() {
        let budget = MemoryBudget::measured_by(100, || 70);
        assert!(budget.reserve(31).is_err());
        // What is reserved is mostly what is there.
        let _reserved = budget.reserve(30).unwrap();
        assert!(budget.reserve(30).is_ok());
    }

    #[test]
    fn this_process_has_memory() {
        let before = resident_bytes();
        let bytes = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(resident_bytes() >= before + (60 << 20));
        drop(bytes);
    }
}
