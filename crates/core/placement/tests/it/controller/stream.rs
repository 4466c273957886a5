//! A stream without barriers: both targets take chunks from one queue behind a bounded window of ordered
//! results, epochs end in the middle of chunks, and probes wait their turn.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use overside_placement::controller::{Controller, Decision, Epoch, Settings, SideSample, Work};

use super::world::{MB, Random, Truth};

const CHUNK_BYTES: u64 = 1 << 20;
/// Chunks pushed and not yet taken out, in order.
const WINDOW_CHUNKS: u64 = 16;
/// Chunks on a target, with the one that it works on.
const DEPTH: usize = 2;
const EPOCH_S: f64 = 0.02;
const EPOCH_CHUNKS: u64 = 8;
/// Longest time that a probe waits for the chunk that it is about.
const PROBE_S: f64 = 0.5;

const CPU: usize = 0;
const DEVICE: usize = 1;

/// Rule that decides on the device's fraction.
enum Rule {
    Adaptive(Box<Controller>),
    /// 0, 1, or both targets as fast as they can.
    Static(f64),
}

/// A chunk being worked on.
#[derive(Clone, Copy)]
struct Service {
    chunk: u64,
    begin_s: f64,
    end_s: f64,
}

#[derive(Default)]
struct SimulatedTarget {
    queue: VecDeque<u64>,
    service: Option<Service>,
    /// Number of bytes since the epoch began.
    bytes: u64,
    busy_s: f64,
    /// Seconds of work on the current chunk that were already reported to the controller.
    told_s: f64,
}

impl SimulatedTarget {
    fn room(&self) -> bool {
        self.queue.len() + usize::from(self.service.is_some()) < DEPTH
    }

    /// Returns the target's work in the epoch: the chunks that ended and their time or, if none
    /// ended, the time spent on the current one.
    fn share(&mut self, now_s: f64) -> SideSample {
        let bytes = std::mem::take(&mut self.bytes);
        let mut busy_s = std::mem::take(&mut self.busy_s);
        if let (0, Some(service)) = (bytes, self.service) {
            busy_s = now_s - service.begin_s - self.told_s;
            self.told_s += busy_s;
        }
        SideSample { bytes, busy: Duration::from_secs_f64(busy_s) }
    }
}

struct Running {
    decision: Decision,
    begin_s: f64,
    ended: [u64; 2],
    /// Chunks given to the device and to both, while a probe keeps to its fraction.
    given: [u64; 2],
    /// The device did not finish a chunk by its deadline.
    given_up: bool,
}

struct Stream<'a, F> {
    rule: Rule,
    truth: &'a F,
    seed: u64,
    targets: [SimulatedTarget; 2],
    now_s: f64,
    next: u64,
    chunks: Range<u64>,
    ended: Vec<bool>,
    oldest: u64,
    epoch: Option<Running>,
    probes: u32,
}

impl<F: Fn(u64) -> Truth> Stream<'_, F> {
    /// Seconds for all chunks.
    fn run(&mut self) -> f64 {
        while self.oldest < self.chunks.end {
            self.fill();
            self.advance();
            self.end_epoch();
        }
        self.now_s
    }

    fn fill(&mut self) {
        loop {
            for target in [CPU, DEVICE] {
                self.serve(target);
            }
            let window_end = self.chunks.end.min(self.oldest + WINDOW_CHUNKS);
            if self.next >= window_end {
                return;
            }
            self.begin_epoch();
            let Some(target) = [DEVICE, CPU]
                .into_iter()
                .find(|target| self.targets[*target].room() && self.may_take(*target))
            else {
                return;
            };
            self.targets[target].queue.push_back(self.next);
            if let Some(epoch) = &mut self.epoch {
                epoch.given[target] += 1;
            }
            self.next += 1;
        }
    }

    fn may_take(&self, target: usize) -> bool {
        let (fraction, probe, given) = match (&self.rule, &self.epoch) {
            (Rule::Static(fraction), _) => (*fraction, false, [0; 2]),
            (_, Some(epoch)) => (epoch.decision.fraction, epoch.decision.probe, epoch.given),
            (_, None) => return false,
        };
        if fraction <= 0.0 || fraction >= 1.0 {
            return (target == DEVICE) == (fraction >= 1.0);
        }
        if probe {
            // The fraction of one epoch's chunks; if the epoch takes longer, because the target does, it
            // gets no more of it.
            if given[CPU] + given[DEVICE] >= EPOCH_CHUNKS {
                return (target == DEVICE) == (fraction >= 0.5);
            }
            let wanted = fraction * (given[CPU] + given[DEVICE] + 1) as f64;
            return (target == DEVICE) == (wanted >= given[DEVICE] as f64 + 0.5);
        }
        true
    }

    fn serve(&mut self, target: usize) {
        if self.targets[target].service.is_some() {
            return;
        }
        let Some(chunk) = self.targets[target].queue.pop_front() else {
            return;
        };
        let truth = (self.truth)(chunk);
        let rates = if target == CPU { truth.cpu } else { truth.device };
        let together = self.targets[1 - target].service.is_some();
        let rate = if together { rates.together } else { rates.alone };
        let mut random = Random::new(
            self.seed ^ (chunk * 2 + target as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15),
        );
        let service_s = CHUNK_BYTES as f64 / (rate * random.factor());
        let dead_s = truth.dead_s.filter(|_| target == DEVICE);
        self.targets[target].service = Some(Service {
            chunk,
            begin_s: self.now_s,
            end_s: self.now_s + dead_s.unwrap_or(service_s),
        });
        self.targets[target].told_s = 0.0;
    }

    /// Advances to the next end of a chunk. A chunk that is given up and run again by the CPU is preferred.
    fn advance(&mut self) {
        let end_s = |target: usize| self.targets[target].service.map_or(f64::MAX, |it| it.end_s);
        let target = if end_s(CPU) <= end_s(DEVICE) { CPU } else { DEVICE };
        let Some(service) = self.targets[target].service.take() else {
            panic!("chunks are left and nobody works");
        };
        self.now_s = service.end_s;
        if target == DEVICE && (self.truth)(service.chunk).dead_s.is_some() {
            self.targets[CPU].queue.push_front(service.chunk);
            if let Some(epoch) = &mut self.epoch {
                epoch.given_up = true;
            }
            return;
        }
        let finished = &mut self.targets[target];
        finished.bytes += CHUNK_BYTES;
        finished.busy_s += service.end_s - service.begin_s - finished.told_s;
        if let Some(epoch) = &mut self.epoch {
            epoch.ended[target] += 1;
        }
        self.ended[(service.chunk - self.chunks.start) as usize] = true;
        while self.oldest < self.chunks.end
            && self.ended[(self.oldest - self.chunks.start) as usize]
        {
            self.oldest += 1;
        }
    }

    fn begin_epoch(&mut self) {
        if let (Rule::Adaptive(controller), None) = (&mut self.rule, &self.epoch) {
            let work = Work { bytes: EPOCH_CHUNKS * CHUNK_BYTES, chunk_bytes: CHUNK_BYTES };
            let decision = controller.decide(Duration::from_secs_f64(self.now_s), work);
            self.probes += u32::from(decision.probe);
            self.epoch = Some(Running {
                decision,
                begin_s: self.now_s,
                ended: [0; 2],
                given: [0; 2],
                given_up: false,
            });
        }
    }

    fn end_epoch(&mut self) {
        let Some(epoch) = &self.epoch else { return };
        let elapsed_s = self.now_s - epoch.begin_s;
        let probed = match epoch.decision.fraction {
            fraction if !epoch.decision.probe || fraction <= 0.0 || fraction >= 1.0 => 1,
            fraction if fraction < 0.5 => epoch.ended[DEVICE],
            _ => epoch.ended[CPU],
        };
        let chunks: u64 = epoch.ended.iter().sum();
        let long = elapsed_s >= EPOCH_S && chunks >= EPOCH_CHUNKS;
        if !long || (probed == 0 && !epoch.given_up && elapsed_s < PROBE_S) {
            return;
        }
        let fraction = epoch.decision.fraction;
        self.epoch = None;
        let [cpu, device] = [CPU, DEVICE].map(|target| self.targets[target].share(self.now_s));
        if let Rule::Adaptive(controller) = &mut self.rule {
            controller.observe(
                Duration::from_secs_f64(self.now_s),
                Epoch {
                    fraction,
                    cpu,
                    device,
                    overhead: Duration::ZERO,
                    elapsed: Duration::from_secs_f64(elapsed_s),
                    chunk_bytes: CHUNK_BYTES,
                },
            );
        }
    }
}

fn seconds(rule: Rule, seed: u64, chunks: Range<u64>, truth: &impl Fn(u64) -> Truth) -> (f64, u32) {
    let mut stream = Stream {
        rule,
        truth,
        seed,
        targets: Default::default(),
        now_s: 0.0,
        next: chunks.start,
        ended: vec![false; (chunks.end - chunks.start) as usize],
        oldest: chunks.start,
        chunks,
        epoch: None,
        probes: 0,
    };
    (stream.run(), stream.probes)
}

fn adaptive() -> Rule {
    Rule::Adaptive(Box::new(Controller::new(Settings::default())))
}

/// Compares with the best of cpu, device and both in each phase of the stream. `ends`: the chunks that
/// the phases end before.
fn check(name: &str, ends: &[u64], truth: impl Fn(u64) -> Truth) {
    let begins = std::iter::once(0).chain(ends.iter().copied());
    let phases: Vec<Range<u64>> = begins.zip(ends).map(|(begin, end)| begin..*end).collect();
    let whole = 0..ends[ends.len() - 1];
    for seed in [1, 20_261, 987_654_321] {
        let (adaptive_s, probes) = seconds(adaptive(), seed, whole.clone(), &truth);
        let best_of = |phase: &Range<u64>| {
            [0.0, 0.5, 1.0]
                .map(|fraction| seconds(Rule::Static(fraction), seed, phase.clone(), &truth).0)
                .into_iter()
                .fold(f64::MAX, f64::min)
        };
        let best_s: f64 = phases.iter().map(best_of).sum();
        let excess = adaptive_s / best_s - 1.0;
        println!(
            "stream: {name:24} seed {seed:9}: {:+.2} % over the best placement of each phase ({probes} probes)",
            100.0 * excess
        );
        assert!(excess <= 0.03, "{name}: {excess}");
    }
}

#[test]
fn steady_targets_are_both_used() {
    check("steady", &[40_000], |_| Truth::new(400.0 * MB, 700.0 * MB));
}

#[test]
fn drift_is_followed() {
    check("device slows 3.75 times", &[30_000, 50_000], |chunk| {
        let slow = if chunk < 30_000 { 1.0 } else { 3.75 };
        Truth::new(400.0 * MB, 1500.0 * MB / slow)
    });
    check("cpu slows 5 times", &[20_000, 40_000], |chunk| {
        let slow = if chunk < 20_000 { 1.0 } else { 5.0 };
        Truth::new(400.0 * MB / slow, 500.0 * MB)
    });
}

#[test]
fn corners_are_kept_to() {
    check("deflate-like", &[40_000], |_| {
        Truth::under_contention(30.0 * MB, 15.0 * MB, 900.0 * MB, 860.0 * MB)
    });
    check("device better alone", &[40_000], |_| {
        Truth::under_contention(500.0 * MB, 250.0 * MB, 900.0 * MB, 480.0 * MB)
    });
    check("cpu better alone", &[40_000], |_| {
        Truth::under_contention(900.0 * MB, 300.0 * MB, 500.0 * MB, 450.0 * MB)
    });
    check("device of no use", &[40_000], |_| Truth::new(900.0 * MB, 10.0 * MB));
}

#[test]
fn a_device_may_stop_and_go_on() {
    check("dead for a while", &[20_000, 40_000, 60_000], |chunk| {
        let mut truth = Truth::new(400.0 * MB, 700.0 * MB);
        truth.dead_s = (20_000..40_000).contains(&chunk).then_some(0.06);
        truth
    });
}

/// A stream that ends before the first epoch does never waits for a device.
#[test]
fn a_short_stream_stays_on_the_cpu() {
    let truth = |_| Truth::new(400.0 * MB, 1.0 * MB);
    let (adaptive_s, probes) = seconds(adaptive(), 1, 0..8, &truth);
    let (cpu_s, _) = seconds(Rule::Static(0.0), 1, 0..8, &truth);
    assert_eq!((adaptive_s, probes), (cpu_s, 0));
}
