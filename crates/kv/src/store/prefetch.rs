//! Asks the processor for memory that is needed soon.

#![allow(unsafe_code)]

/// Fetches the cache line of an element, if there is such an element.
#[inline(always)]
pub(super) fn prefetch<T>(slice: &[T], index: usize) {
    let Some(element) = slice.get(index) else {
        return;
    };
    let at = std::ptr::from_ref(element);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching reads nothing, and no address faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}
