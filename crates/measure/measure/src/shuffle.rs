//! The order in which a test takes its buffers.

use overside_base::Random;

/// The numbers below `count`, shuffled, so that a sample too short for all does not see only the
/// beginning of the data set.
pub(crate) fn shuffled(count: usize, seed: u64) -> Vec<u32> {
    let mut all: Vec<u32> = (0..count as u32).collect();
    Random::new(seed).shuffle(&mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_every_buffer_once_and_depends_on_the_seed() {
        let mut one = shuffled(1000, 7);
        assert_eq!(one, shuffled(1000, 7));
        assert_ne!(one, shuffled(1000, 8));
        one.sort_unstable();
        assert!(one.iter().copied().eq(0..1000));
        assert_eq!(shuffled(1, 3), [0]);
    }
}
