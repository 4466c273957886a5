//! Adaptive placement chooses how long chunks are, where it may.

use crate::common;

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::time::{Duration, Instant};

use common::foreign;
use common::timed::Timed;
use overside_device::{Clock, Slice};
use overside_placement::{Chunk, DeviceSetup, Executor, Policy, Report, Setup, Submitters};
use proptest::prelude::*;

const KIB: usize = 1 << 10;
/// Length of the block that the stream repeats, in bytes.
const BLOCK_BYTES: usize = 1 << 20;

/// A target's time for a job in addition to its bytes in microseconds, and its MB/s.
type Speed = (u64, f64);

struct World {
    cpu: Speed,
    card: Speed,
    /// The longest chunk that the card takes.
    card_most: usize,
    policy: Policy,
    first: Option<usize>,
    most: usize,
}

impl World {
    /// Runs a stream of `total` bytes in virtual time with the executor's chunk lengths; checks that each comes out
    /// once, in order, unchanged. Returns the lengths of the chunks, and the report.
    fn run(&self, total: usize) -> (Vec<usize>, Report) {
        let clock = Clock::simulated();
        let timed = |name: &str, (job_us, rate): Speed, most: usize| {
            let speed = (Duration::from_micros(job_us), rate * 1e6);
            Timed::device(name, &clock, speed, most as u64)
        };
        let mut executor = Executor::open(Setup {
            cpu: Some(timed("cpu", self.cpu, self.most)),
            devices: vec![DeviceSetup::new(timed("card", self.card, self.card_most))],
            source_bytes: self.most,
            destination_bytes: self.most,
            first_chunk_bytes: self.first,
            clock: clock.clone(),
            ..common::copying(self.policy)
        })
        .unwrap();
        let bytes: Vec<u8> = (0..BLOCK_BYTES as u32).map(|at| (at ^ (at >> 8)) as u8).collect();
        let block = foreign(&bytes);
        let (mut lengths, mut at, mut label) = (Vec::new(), 0, 0);
        let mut pushed: VecDeque<Range<usize>> = VecDeque::new();
        while at < total || executor.in_flight() > 0 {
            while at < total && executor.has_capacity() {
                let begin = at % BLOCK_BYTES;
                // A block ends a chunk.
                let len = executor.chunk_bytes().min(BLOCK_BYTES - begin).min(total - at);
                let slice: Slice = block.slice(begin..begin + len);
                executor.push(Chunk::new(lengths.len() as u64, slice)).unwrap();
                pushed.push_back(begin..begin + len);
                lengths.push(len);
                at += len;
            }
            while let Some(piece) = executor.pull().unwrap() {
                assert_eq!(piece.label, label);
                label += 1;
                let range = pushed.pop_front().unwrap();
                assert!(piece.output() == Some(&bytes[range]), "chunk {label}");
            }
            executor.wait(Duration::from_secs(1)).unwrap();
        }
        assert_eq!(label, lengths.len() as u64);
        let report = executor.close();
        let done: u64 = report.targets().map(|target| target.source_bytes).sum();
        assert_eq!(done, total as u64);
        (lengths, report)
    }
}

/// A card that is fast only at long chunks.
fn card_with_a_price_a_job() -> World {
    World {
        cpu: (0, 100.0),
        card: (200, 400.0),
        card_most: 256 * KIB,
        policy: Policy::Adaptive,
        first: Some(8 * KIB),
        most: 256 * KIB,
    }
}

#[test]
fn a_card_with_a_price_a_job_gets_longer_chunks_and_wins() {
    const TOTAL: usize = 1 << 30;
    let free = card_with_a_price_a_job();
    let (lengths, report) = free.run(TOTAL);
    let (last, rest) = lengths.split_last_chunk::<100>().map(|(rest, last)| (last, rest)).unwrap();
    assert!(rest[0] == 8 * KIB && last.iter().filter(|len| **len == 256 * KIB).count() > 90);
    let resized = report.decisions.iter().filter(|decided| decided.chunk_bytes.is_some());
    let resized: Vec<_> =
        resized.map(|decided| (decided.chunk_bytes.unwrap(), decided.probe)).collect();
    assert_eq!(resized[0], (16 * KIB, true), "{resized:?}");
    assert!(resized.contains(&(256 * KIB, false)), "{resized:?}");
    let fixed = World { first: None, most: 8 * KIB, ..card_with_a_price_a_job() };
    let (_, short) = fixed.run(TOTAL / 8);
    assert!(
        short.elapsed_ns * 8 > 2 * report.elapsed_ns,
        "{} {}",
        short.elapsed_ns,
        report.elapsed_ns
    );
    let [cpu, card] = [report.cpu.as_ref(), report.devices.first()].map(|target| target.unwrap());
    assert!(card.source_bytes > 2 * cpu.source_bytes);
    // The same decisions at the same times, every time.
    let (again, _) = free.run(TOTAL);
    assert_eq!(lengths, again);
}

#[test]
fn chunks_stay_as_they_are_where_nobody_asked_or_nobody_decides() {
    let world = card_with_a_price_a_job;
    let fixed = World { first: None, ..world() };
    let split = World { policy: Policy::split(50.0).unwrap(), ..world() };
    for (world, bytes) in [(fixed, 256 * KIB), (split, 8 * KIB)] {
        let (lengths, report) = world.run(64 << 20);
        assert!(lengths.iter().all(|len| *len == bytes));
        assert!(report.decisions.iter().all(|decided| decided.chunk_bytes.is_none()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn each_chunk_comes_once_and_in_order_whatever_their_lengths(
        cpu in (0..500_u64, 20.0..400.0_f64),
        card in (0..2000_u64, 20.0..2000.0_f64),
        card_most in (10..20_u32).prop_map(|power| 1 << power),
        first in 1..600_000_usize,
        most in 1000..600_000_usize,
        total in 1..100_000_000_usize,
    ) {
        let policy = Policy::Adaptive;
        let (lengths, _) = World { cpu, card, card_most, policy, first: Some(first), most }.run(total);
        prop_assert!(lengths.iter().all(|len| *len <= most));
    }
}

#[test]
fn several_submitters_change_the_length_of_their_chunks_together() {
    let mut submitters = Submitters::open(
        Setup {
            cpu: Some(common::cpu()),
            devices: vec![DeviceSetup::new(common::cpu())],
            source_bytes: 256 * KIB,
            destination_bytes: 256 * KIB,
            first_chunk_bytes: Some(16 * KIB),
            ..common::copying(Policy::Adaptive)
        },
        NonZeroUsize::new(2).unwrap(),
    )
    .unwrap();
    let bytes: Vec<u8> = (0..256 * KIB as u32).map(|at| (at % 251) as u8).collect();
    let block = foreign(&bytes);
    let (mut lengths, mut label) = (Vec::new(), 0);
    let begun = Instant::now();
    // Until another length has been tried; a span lasts a tenth of a second.
    let mut goes_on = true;
    while goes_on || submitters.in_flight() > 0 {
        while goes_on && submitters.has_capacity() {
            let len = submitters.chunk_bytes();
            let chunk = Chunk::new(lengths.len() as u64, block.slice(0..len));
            submitters.push(chunk).unwrap();
            lengths.push(len);
            goes_on = len == 16 * KIB && begun.elapsed() < Duration::from_secs(60);
        }
        while let Some(piece) = submitters.pull().unwrap() {
            assert_eq!(piece.label, label);
            let len = lengths[label as usize];
            assert!(piece.output() == Some(&bytes[..len]), "chunk {label}");
            label += 1;
        }
        submitters.wait(Duration::from_secs(1)).unwrap();
    }
    let total: usize = lengths.iter().sum();
    assert_eq!((lengths[0], lengths.last()), (16 * KIB, Some(&(32 * KIB))));
    let report = submitters.close();
    let done: u64 = report.targets().map(|target| target.source_bytes).sum();
    assert_eq!(done, total as u64);
    let resized = report.decisions.iter().filter_map(|decided| decided.chunk_bytes);
    assert_eq!(resized.collect::<Vec<_>>()[0], 32 * KIB);
}
