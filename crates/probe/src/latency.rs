//! Reads at random, each of which tells where the next is.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::MAX_BYTES;

/// A cache line; reads of two of them never share one.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line {
    next: u32,
}

/// Nanoseconds of a dependent read at random from a block of `block_bytes` (at least two cache
/// lines, at most 1 GiB), on one core, for about `budget`; the median of its passes.
///
/// All lines are on one cycle, so no prefetcher can tell the next one and each is read once a
/// turn. Pages are the system's: on large blocks a part of the time is that of translating
/// addresses.
pub fn latency_ns(block_bytes: usize, budget: Duration) -> f64 {
    let lines = (block_bytes.clamp(128, MAX_BYTES)) / size_of::<Line>();
    let block = cycle(lines);
    let steps = (lines * 4).clamp(1 << 14, 1 << 18);
    let mut at = walk(&block, 0, lines.min(1 << 20));
    let mut passes = Vec::new();
    let began = Instant::now();
    while passes.len() < 3 || began.elapsed() < budget && passes.len() < 10_000 {
        let pass = Instant::now();
        at = walk(&block, at, steps);
        passes.push(pass.elapsed().as_nanos() as f64 / steps as f64);
    }
    black_box(at);
    passes.sort_by(f64::total_cmp);
    passes[passes.len() / 2]
}

fn walk(block: &[Line], from: usize, steps: usize) -> usize {
    let mut at = from;
    for _ in 0..steps {
        at = block[at].next as usize;
    }
    black_box(at)
}

/// One cycle through all lines, in random order (Sattolo's shuffle).
fn cycle(lines: usize) -> Vec<Line> {
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..lines).rev() {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(last, (state % last as u64) as usize);
    }
    let mut block = vec![Line { next: 0 }; lines];
    for (at, next) in order.into_iter().enumerate() {
        block[at].next = next;
    }
    block
}

#[cfg(test)]
mod tests {
    use super::{cycle, walk};

    #[test]
    fn every_line_is_read_once_a_turn() {
        for lines in [2, 3, 64, 1000] {
            let block = cycle(lines);
            let mut seen = vec![false; lines];
            let mut at = 0;
            for _ in 0..lines {
                assert!(!std::mem::replace(&mut seen[at], true));
                at = walk(&block, at, 1);
            }
            assert_eq!(at, 0);
        }
    }
}
