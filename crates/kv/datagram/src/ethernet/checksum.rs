//! The checksum of the Internet (RFC 1071).

/// A one's complement sum in the making.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum(u64);

impl Sum {
    /// Adds bytes. Only the last part of several may have an odd length.
    #[must_use]
    pub(super) fn add(self, bytes: &[u8]) -> Self {
        let mut sum = u128::from(self.0);
        let (wide, rest) = bytes.as_chunks::<8>();
        for eight in wide {
            sum += u128::from(u64::from_be_bytes(*eight));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        sum += u128::from(u64::from_be_bytes(last));
        // Carries are added at the end, as often as there are some.
        while sum >> 64 != 0 {
            sum = (sum & u128::from(u64::MAX)) + (sum >> 64);
        }
        Self(sum as u64)
    }

    /// Adds a number of 16 bits.
    #[must_use]
    pub(super) fn add_u16(self, number: u16) -> Self {
        self.add(&number.to_be_bytes())
    }

    /// The sum in 16 bits. Not complemented.
    #[must_use]
    pub(super) fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// The checksum, which makes the sum of all words all ones.
    #[must_use]
    pub(super) fn checksum(self) -> u16 {
        !self.folded()
    }
}

/// Returns the sum of the pseudo header, which UDP adds for its checksum.
#[must_use]
pub(super) fn pseudo_header(source: [u8; 4], destination: [u8; 4], udp_len: u16) -> Sum {
    const UDP: u16 = 17;
    Sum::default().add(&source).add(&destination).add_u16(UDP).add_u16(udp_len)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::Sum;

    proptest! {
        #[test]
        fn sums_are_those_of_words_of_16_bits(bytes in vec(any::<u8>(), 0..200), at in 0_usize..100) {
            let mut expected: u32 = 0;
            for pair in bytes.chunks(2) {
                expected += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
                expected = (expected & 0xffff) + (expected >> 16);
            }
            prop_assert_eq!(u32::from(Sum::default().add(&bytes).folded()), expected);
            let at = (at * 2).min(bytes.len() & !1);
            let parts = Sum::default().add(&bytes[..at]).add(&bytes[at..]);
            prop_assert_eq!(u32::from(parts.folded()), expected);
        }
    }

    #[test]
    fn a_header_with_its_checksum_has_a_sum_of_ones() {
        // The example of RFC 1071, section 3.
        let sum = Sum::default().add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.folded(), 0xddf2);
        assert_eq!(sum.add_u16(sum.checksum()).folded(), 0xffff);
    }
}
