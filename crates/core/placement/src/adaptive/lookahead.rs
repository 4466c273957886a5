//! Finishing together: which target may take the next chunk while both work.
//!
//! List scheduling on uniform machines (Graham, 1969) with one exception: a target may not take a
//! chunk if it would be longer at it than the other one would be at everything.

/// Work that a target still has to do, and its rate.
#[derive(Clone, Copy, Debug)]
pub struct Lookahead {
    /// Bytes that it has taken and not finished.
    bytes: f64,
    /// Rate of the target, in any unit that is the same for both targets.
    rate: f64,
}

impl Lookahead {
    /// Lookahead of `bytes` bytes at `rate`.
    pub fn new(bytes: f64, rate: f64) -> Self {
        Self { bytes, rate }
    }

    /// Returns `true` if the target may take a chunk of `chunk` bytes, which is the next of `waiting` bytes.
    ///
    /// It may not if this chunk would take it longer than the other target needs for everything. So at the
    /// end of a stream both finish within the time of one chunk. One of them may always take the next chunk,
    /// so the stream never stalls.
    pub fn may_take(&self, chunk: f64, other: &Self, waiting: f64) -> bool {
        (self.bytes + chunk) / self.rate <= (other.bytes + waiting) / other.rate
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// A target that works on one chunk after the other and takes ahead up to its depth.
    struct Worker {
        rate: f64,
        depth: usize,
        /// Bytes left of each chunk that it has.
        taken: VecDeque<f64>,
    }

    impl Worker {
        fn ahead(&self) -> Lookahead {
            Lookahead::new(self.taken.iter().sum(), self.rate)
        }

        fn end_s(&self) -> f64 {
            self.taken.front().map_or(f64::INFINITY, |bytes| bytes / self.rate)
        }

        fn work(&mut self, time_s: f64) {
            if let Some(bytes) = self.taken.front_mut() {
                *bytes -= time_s * self.rate;
            }
        }
    }

    /// Simulates a stream on two targets. Returns the time in seconds at which each finished its
    /// last chunk.
    fn finish_s(mut targets: [Worker; 2], chunks: &[f64]) -> [f64; 2] {
        let mut queue: VecDeque<f64> = chunks.iter().copied().collect();
        let (mut now_s, mut finished_s) = (0.0, [0.0; 2]);
        loop {
            let mut took = true;
            while took {
                took = false;
                for target in 0..2 {
                    let Some(chunk) = queue.front().copied() else {
                        break;
                    };
                    let (own, other) = (&targets[target], &targets[1 - target]);
                    let waiting = queue.iter().sum();
                    let has_room = own.taken.len() < own.depth;
                    if has_room && own.ahead().may_take(chunk, &other.ahead(), waiting) {
                        queue.pop_front();
                        targets[target].taken.push_back(chunk);
                        took = true;
                    }
                }
            }
            let next = if targets[0].end_s() <= targets[1].end_s() { 0 } else { 1 };
            let step_s = targets[next].end_s();
            if step_s == f64::INFINITY {
                assert!(queue.is_empty(), "nobody takes what is left");
                return finished_s;
            }
            now_s += step_s;
            targets.iter_mut().for_each(|target| target.work(step_s));
            targets[next].taken.pop_front();
            finished_s[next] = now_s;
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn both_targets_are_done_within_one_chunk(
            ratio in 0.02..50.0_f64,
            depths in (1..16_usize, 1..64_usize),
            chunks in prop::collection::vec(1000.0..65536.0_f64, 20..200),
        ) {
            let worker = |rate, depth| Worker { rate, depth, taken: VecDeque::new() };
            let targets = [worker(1.0, depths.0), worker(ratio, depths.1)];
            let [cpu_s, device_s] = finish_s(targets, &chunks);
            let longest = chunks.iter().copied().fold(0.0, f64::max);
            let one_chunk_s = longest / ratio.min(1.0);
            prop_assert!(
                (cpu_s - device_s).abs() <= one_chunk_s * (1.0 + 1e-9),
                "{cpu_s} and {device_s}, a chunk takes {one_chunk_s}"
            );
        }
    }
}
