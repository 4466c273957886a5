//! An order in which every place comes once and that no prefetcher can predict.

/// The places 0 to `2^bits - 1`, each once, mixed up. A place is computed only from its number, so
/// an order takes no memory, and computing the next does not wait for the last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mixed {
    mask: u64,
    shift: u32,
    first: u64,
}

impl Mixed {
    /// The order for `2^bits` places, `bits` at most 63, that `seed` picks.
    pub(crate) fn new(bits: u32, seed: u64) -> Self {
        Self {
            mask: (1 << bits) - 1,
            shift: bits.div_ceil(2).max(1),
            // Only where it begins: what follows what is the same for all seeds.
            first: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32,
        }
    }

    /// The place that comes as the `number`-th; they repeat after `2^bits`.
    ///
    /// Multiplying by an odd number and folding the upper bits onto the lower ones can both be
    /// undone, so no place comes twice.
    #[inline(always)]
    pub(crate) fn at(&self, number: u64) -> u64 {
        let mut x = number.wrapping_add(self.first) & self.mask;
        x = x.wrapping_mul(0x9FB2_1C65_1E98_DF25) & self.mask;
        x ^= x >> self.shift;
        x = x.wrapping_mul(0xD6E8_FEB8_6659_FD93) & self.mask;
        x ^ (x >> self.shift)
    }
}

#[cfg(test)]
mod tests {
    use super::Mixed;

    #[test]
    fn every_place_comes_once_and_repeats() {
        for bits in [0, 1, 2, 5, 8, 13] {
            for seed in [0, 7, u64::MAX] {
                let order = Mixed::new(bits, seed);
                let mut places: Vec<u64> = (0..1 << bits).map(|number| order.at(number)).collect();
                assert_eq!(places[0], order.at(1 << bits));
                places.sort_unstable();
                assert!(places.into_iter().eq(0..1 << bits), "{bits} bits");
            }
        }
    }

    #[test]
    fn neighbours_are_far_apart_and_at_no_constant_distance() {
        let order = Mixed::new(20, 1);
        let steps: Vec<u64> =
            (0..4096).map(|number| order.at(number).abs_diff(order.at(number + 1))).collect();
        let near = steps.iter().filter(|&&step| step < 64).count();
        assert!(near < 32, "{near} steps stay within eight lines");
        let mut distances = steps;
        distances.sort_unstable();
        distances.dedup();
        assert!(distances.len() > 1024, "{} distances", distances.len());
    }
}
