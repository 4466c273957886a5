//! A bucket of the index: eight tags of 16 bits, which one instruction compares, and their items.

#![allow(unsafe_code)]

use super::mapping::Zeroed;

pub(super) const SLOTS: usize = 8;

/// One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    pub(super) tags: Tags,
    pub(super) offsets: [u32; SLOTS],
    /// The next bucket of the chain, counted from 1; 0: none.
    pub(super) next: u32,
    /// Number of the snapshot that has this chain's entries. Only in the first of a chain, as is
    /// the field below.
    pub(super) epoch: u32,
    /// Nonzero if an item of the chain may have an expiry.
    pub(super) has_expiry: u32,
    pub(super) unused: u32,
}

// SAFETY: it consists of numbers.
unsafe impl Zeroed for Bucket {}

/// Tags of a bucket; 0 is a slot that is free.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub(super) struct Tags(pub(super) [u16; SLOTS]);

impl Tags {
    /// Mask of the tags equal to `tag`, the first in the lowest bit.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn equal(&self, tag: u16) -> u32 {
        use std::arch::x86_64::{
            _mm_cmpeq_epi16, _mm_load_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16,
        };
        // SAFETY: SSE2 belongs to the architecture; the load is of 16 aligned bytes of `self`.
        unsafe {
            let tags = _mm_load_si128(self.0.as_ptr().cast());
            let equal = _mm_cmpeq_epi16(tags, _mm_set1_epi16(tag as i16));
            _mm_movemask_epi8(_mm_packs_epi16(equal, equal)) as u32 & 0xff
        }
    }

    /// Mask of the tags equal to `tag`, the first in the lowest bit.
    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    pub(super) fn equal(&self, tag: u16) -> u32 {
        use std::arch::aarch64::{vaddvq_u16, vandq_u16, vceqq_u16, vdupq_n_u16, vld1q_u16};
        const BITS: [u16; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
        // SAFETY: NEON belongs to the architecture; both loads are of 16 bytes that are there.
        unsafe {
            let equal = vceqq_u16(vld1q_u16(self.0.as_ptr()), vdupq_n_u16(tag));
            u32::from(vaddvq_u16(vandq_u16(equal, vld1q_u16(BITS.as_ptr()))))
        }
    }

    /// Mask of the tags equal to `tag`, the first in the lowest bit.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    #[inline(always)]
    pub(super) fn equal(&self, tag: u16) -> u32 {
        self.equal_portable(tag)
    }

    #[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    fn equal_portable(&self, tag: u16) -> u32 {
        let tags = self.0.iter().enumerate();
        tags.fold(0, |bits, (lane, other)| bits | u32::from(*other == tag) << lane)
    }
}

#[cfg(test)]
mod tests {
    use super::Tags;

    #[test]
    fn comparing_at_once_finds_what_comparing_one_by_one_finds() {
        let tags = Tags([0, 0x8000, 0xffff, 1, 0x8000, 0x7fff, 0, 0x00ff]);
        assert_eq!(tags.equal(0x8000), 0b1_0010);
        for tag in [0, 1, 0xff, 0x7fff, 0x8000, 0xffff, 0xff00] {
            assert_eq!(tags.equal(tag), tags.equal_portable(tag), "{tag:#x}");
        }
    }
}
