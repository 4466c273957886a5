//! Fetching memory before it is needed.

// One instruction that the standard library does not offer.
#![allow(unsafe_code)]

/// Starts to fetch what will be written soon. A hint: nothing else changes.
#[inline]
pub(super) fn for_writing<T>(value: &T) {
    const LINE: usize = 64;
    let start = std::ptr::from_ref(value).cast::<i8>();
    for line in (0..size_of::<T>()).step_by(LINE) {
        let at = start.wrapping_add(line);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: prefetching reads nothing, and no address faults.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_ET0 }>(at);
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            std::arch::asm!("prfm pstl1keep, [{}]", in(reg) at, options(nostack, readonly));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = at;
    }
}
