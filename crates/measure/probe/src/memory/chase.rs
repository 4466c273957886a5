//! Reads at random, each of which has the position of the next.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::failure::Failure;
use crate::memory::order::Mixed;
use crate::memory::pages::Block;
use crate::memory::passes::{Work, in_parts};
use crate::memory::{LINE_BYTES, Pages};

/// Words of a line.
const LINE_WORDS: usize = LINE_BYTES / 8;
/// Reads of one pass before it is repeated.
const STEPS: usize = 1 << 16;
/// Number of reads between two checks of the time during verification.
const VERIFY_STEPS: usize = 1 << 20;

/// A block whose lines are on one cycle, in an order that no prefetcher can predict, so each is
/// read once a turn.
pub(crate) struct Chase {
    block: Block,
    /// The lines in the order of the cycle: the path that the block should lead through.
    cycle: Vec<u32>,
    /// The word that is read next.
    at: usize,
    /// Position in `cycle` at the last check.
    place: usize,
    /// Reads since the last check.
    walked: u64,
}

impl Chase {
    /// `size_bytes` is a multiple of a line and at least two.
    pub(crate) fn new(size_bytes: usize, pages: Pages, seed: u64) -> Result<Self, Failure> {
        let block = Block::new(size_bytes, pages)?;
        let lines = size_bytes / LINE_BYTES;
        let bits = lines.next_power_of_two().trailing_zeros();
        let (once, again) = (Mixed::new(bits, seed), Mixed::new(bits, !seed));
        let cycle: Vec<u32> = (0..1_u64 << bits)
            .map(|number| again.at(once.at(number)) as u32)
            .filter(|&line| (line as usize) < lines)
            .collect();
        let words = block.words();
        let next = cycle.iter().cycle().skip(1);
        for (&line, &next) in cycle.iter().zip(next) {
            words[line as usize * LINE_WORDS]
                .store(u64::from(next) * LINE_WORDS as u64, Ordering::Relaxed);
        }
        Ok(Self { at: cycle[0] as usize * LINE_WORDS, block, cycle, place: 0, walked: 0 })
    }

    fn is_at(&self, found: usize, place: usize) -> Result<(), Failure> {
        let expected = self.cycle[place] as usize * LINE_WORDS;
        Failure::unless_same(|| "the chain of reads ended at".into(), found, expected)
    }
}

impl Work for Chase {
    fn run(&mut self, repeats: u64) -> (u64, u64) {
        let steps = STEPS as u64 * repeats;
        self.at = walk(self.block.words(), self.at, steps);
        self.walked += steps;
        (steps, steps * size_of::<u64>() as u64)
    }

    fn check(&mut self) -> Result<(), Failure> {
        let lines = self.cycle.len() as u64;
        self.place = ((self.place as u64 + self.walked) % lines) as usize;
        self.walked = 0;
        self.is_at(self.at, self.place)
    }

    /// Goes through all lines once; the sum is of the places in the order in which they came.
    fn verify(&mut self, deadline: Instant) -> Result<(u64, u64), Failure> {
        let words = self.block.words();
        let mut at = self.at;
        let mut sum = 0_u64;
        in_parts(self.cycle.len(), VERIFY_STEPS, deadline, |part| {
            for place in part {
                self.is_at(at, place)?;
                sum = sum.rotate_left(1) ^ at as u64;
                at = words[at].load(Ordering::Relaxed) as usize;
            }
            Ok(())
        })?;
        self.is_at(at, 0)?;
        Ok((sum, self.cycle.len() as u64))
    }

    fn pages(&self) -> &str {
        &self.block.title
    }
}

#[inline(never)]
fn walk(words: &[AtomicU64], from: usize, steps: u64) -> usize {
    let mut at = black_box(from);
    for _ in 0..steps {
        at = words[at].load(Ordering::Relaxed) as usize;
    }
    black_box(at)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    use super::{Chase, LINE_WORDS, STEPS};
    use crate::memory::passes::{LONG, Work};
    use crate::memory::{LINE_BYTES, Pages, is_wrong};

    fn chase(lines: usize) -> Chase {
        Chase::new(lines * LINE_BYTES, Pages::System, 7).unwrap()
    }

    #[test]
    fn every_line_is_read_once_a_turn() {
        for lines in [2, 3, 64, 1000] {
            let chase = chase(lines);
            let words = chase.block.words();
            let mut seen = vec![false; lines];
            let mut at = chase.at;
            for _ in 0..lines {
                assert_eq!(at % LINE_WORDS, 0);
                assert!(!std::mem::replace(&mut seen[at / LINE_WORDS], true));
                at = words[at].load(Ordering::Relaxed) as usize;
            }
            assert_eq!(at, chase.at);
        }
    }

    #[test]
    fn a_walk_is_followed_and_a_short_one_noticed() {
        let mut chase = chase(1000);
        chase.verify(Instant::now() + LONG).unwrap();
        assert_eq!(chase.run(3).0, 3 * STEPS as u64);
        chase.check().unwrap();
        chase.run(1);
        chase.walked -= 1;
        assert!(is_wrong(chase.check()));
    }

    #[test]
    fn a_line_that_leads_elsewhere_is_noticed() {
        let mut chase = chase(100);
        let line = chase.cycle[50] as usize * LINE_WORDS;
        chase.block.words()[line].store(chase.cycle[70] as u64 * 8, Ordering::Relaxed);
        let verified = chase.verify(Instant::now() + LONG);
        assert!(is_wrong(verified));
    }
}
