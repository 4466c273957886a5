//! Clock that is read in a few nanoseconds.
//!
//! A reading is one instruction: the time-stamp counter of x86-64 if it runs at one rate in every
//! state of the core (invariant TSC), or the virtual counter of AArch64. Elsewhere a tick is a
//! nanosecond of the monotonic clock. The length of a tick is computed from both clocks since the
//! start, so there is no calibration in advance.

#![allow(unsafe_code)]

use std::time::Instant;

/// Counter of ticks since its start.
#[derive(Clone, Copy, Debug)]
pub struct TickClock {
    start: Instant,
    start_ticks: u64,
    has_counter: bool,
}

impl TickClock {
    /// Starts a clock at 0.
    #[must_use]
    pub fn start() -> Self {
        let mut clock = Self { start: Instant::now(), start_ticks: 0, has_counter: has_counter() };
        (clock.start, clock.start_ticks) = clock.read_both();
        clock
    }

    /// Returns the number of ticks since the start. May decrease slightly if the counters of two
    /// cores differ.
    #[inline]
    #[must_use]
    pub fn now(&self) -> u64 {
        match self.has_counter {
            true => counter().wrapping_sub(self.start_ticks),
            false => self.start.elapsed().as_nanos() as u64,
        }
    }

    /// Returns the length of a tick in nanoseconds, accurate to a millionth from a tenth of a
    /// second after the start on.
    #[must_use]
    pub fn tick_ns(&self) -> f64 {
        if !self.has_counter {
            return 1.0;
        }
        let (instant, ticks) = self.read_both();
        instant.duration_since(self.start).as_nanos() as f64 / ticks.max(1) as f64
    }

    /// Reads both clocks at the same time: the closest pair of several tries, because a thread may
    /// be interrupted.
    fn read_both(&self) -> (Instant, u64) {
        let read = |_| {
            let before = self.now();
            let instant = Instant::now();
            (self.now().saturating_sub(before), instant, before)
        };
        let tries = (0..8).map(read).min_by_key(|(apart, ..)| *apart);
        tries.map_or((self.start, 0), |(_, instant, ticks)| (instant, ticks))
    }
}

#[cfg(target_arch = "x86_64")]
fn has_counter() -> bool {
    use std::arch::x86_64::__cpuid;
    const POWER: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;
    __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & INVARIANT_TSC != 0
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: reads a register. Linux lets every program do so (prctl(2), PR_SET_TSC).
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
fn has_counter() -> bool {
    true
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: reads a register that Linux opens to every program, because its vDSO does so.
    unsafe {
        std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
    }
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_counter() -> bool {
    false
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::TickClock;

    #[test]
    fn ticks_are_as_long_as_they_say() {
        for has_counter in [true, false] {
            let mut clock = TickClock::start();
            clock.has_counter &= has_counter;
            thread::sleep(Duration::from_millis(10));
            let (first, before) = (clock.now(), Instant::now());
            thread::sleep(Duration::from_millis(50));
            let (least, last) = (before.elapsed(), clock.now());
            let ns = (last - first) as f64 * clock.tick_ns();
            // The other clock's interval lies between the two readings.
            assert!(ns > least.as_nanos() as f64 * 0.99, "{ns} ns, {least:?}");
        }
    }
}
