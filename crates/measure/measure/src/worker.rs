//! Measures tests one after the other and keeps state that the next one can use again.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_backends::{OpenError, Options, relevant_options};
use overside_base::panic_text;
use overside_device::{Clock, Device, Timing};
use overside_model::Profile;
use overside_ops::Operation;
use overside_placement::{MAX_ADAPTIVE_CHUNK_BYTES, Policy, Target, chunk_bytes, chunk_lengths};

use crate::begin::Begin;
use crate::context_bench::ContextBench;
use crate::data::{Buffers, Cut, NoData};
use crate::evidence::HostClock;
use crate::node::Relay;
use crate::placement_bench::{PlacementBench, Side, target_test};
use crate::plan::plan;
use crate::sample::{Sample, Warning};
use crate::tasks::{AnyTest, Place};
use crate::test::{Data, Input, Sizes, Test, TestError};
use crate::verify::{ReferenceCache, TestBuffers};
use overside_probe::{Failure, FailureKind};

/// Data sets kept ready, and the most bytes that they may take together.
const BUFFERS_KEPT_MAX: usize = 8;
const BUFFER_BYTES_MAX: u64 = 1 << 30;
/// Devices kept open.
const DEVICES_MAX: usize = 16;

/// Function that opens a device by its name.
pub type Opener = Box<dyn Fn(&str, &Options) -> Result<Arc<dyn Device>, OpenError> + Send>;

/// Measures tests. One process, one worker: a round is a fresh process.
pub struct Worker {
    open: Opener,
    devices: VecDeque<((String, Options), Arc<dyn Device>)>,
    kept_buffers: VecDeque<(BuffersKey, TestBuffers)>,
    references: RefCell<ReferenceCache>,
    profiles: HashMap<String, Arc<Profile>>,
    relay: Relay,
    /// Clock of all devices in virtual time.
    virtual_clock: Clock,
    /// The same beside work in real time.
    held_clock: Clock,
}

/// Returns `true` if the test runs in virtual time: all devices are emulated and no other timing is
/// requested, or the CPU does all the work and virtual time is requested. So all placements of a stream
/// on emulated devices and the CPU have one clock.
fn is_virtual(test: &Test) -> bool {
    let is_emulated = |device: &str| overside_backends::profile_of(device).is_some();
    match test.timing {
        None => test.devices().all(is_emulated),
        Some(Timing::Virtual) => {
            test.placement == Some(Policy::Cpu) || test.devices().all(is_emulated)
        }
        Some(_) => false,
    }
}

/// Parameters that determine a test's buffers.
#[derive(Clone, PartialEq, Eq)]
struct BuffersKey {
    data: Data,
    input: Input,
    cut: Cut,
    /// Lengths of the buffers, if there are several; empty otherwise.
    lengths: Vec<usize>,
    buffer_size: u64,
    made_by: Option<Operation>,
}

impl Default for Worker {
    fn default() -> Self {
        Self::new()
    }
}

impl Worker {
    /// A worker that opens devices by their names.
    pub fn new() -> Self {
        Self::with_devices(Box::new(overside_backends::open))
    }

    /// A worker that gets its devices elsewhere, to put something between itself and a device.
    pub fn with_devices(open: Opener) -> Self {
        Self {
            open,
            devices: VecDeque::new(),
            kept_buffers: VecDeque::new(),
            references: RefCell::default(),
            profiles: HashMap::new(),
            relay: Relay::default(),
            virtual_clock: Clock::simulated(),
            held_clock: Clock::beside_real_time(),
        }
    }

    /// Measures a test of any kind that is given as JSON, and answers in JSON. Without the key
    /// `kind` it is a [`Test`], of jobs on a device; the other kinds stand in `tasks`. With the key
    /// `node`, an agent's name, it is measured there; `threads` may be `all`, the cores of the node.
    ///
    /// # Errors
    /// [`TestError`] if it is no test. Whatever goes wrong after that is in the sample.
    pub fn measure_json(&mut self, test: &str) -> Result<String, TestError> {
        let sample = match Place::of(test)? {
            Place::Node(node, test) => self.relay.measure(&node, test),
            Place::Here { test, cores } => {
                let sample = match AnyTest::parse(&test)? {
                    AnyTest::Jobs(test) => self.measure(&test),
                    AnyTest::Other(test) => {
                        self.guarded(test.timeout_s(), |_, deadline| test.take(deadline))
                    }
                };
                Sample { threads: cores, ..sample }
            }
        };
        Ok(sample.to_json())
    }

    /// Takes one sample: verifies every distinct output, warms up, runs jobs under the clock.
    /// Failures are part of the sample; nothing panics, and the sample exceeds the test's time by
    /// at most one operation on one buffer.
    pub fn measure(&mut self, test: &Test) -> Sample {
        let clock = HostClock::of_process([test.device.as_str()].into_iter());
        self.checked(test, clock, || ())
    }

    /// Takes a sample beside other work of this process: every output is verified, then it waits
    /// for `begin`. Not for placements, nor for tests that cannot be begun.
    pub(crate) fn measure_beside(&mut self, test: &mut AnyTest, begin: Begin) -> Sample {
        match test {
            AnyTest::Jobs(test) => self.checked(test, HostClock::Thread, || begin.wait()),
            AnyTest::Other(test) => {
                test.begin_by(begin);
                self.guarded(test.timeout_s(), |_, deadline| test.take(deadline))
            }
        }
    }

    fn checked(&mut self, test: &Test, clock: HostClock, ready: impl FnOnce()) -> Sample {
        if let Err(error) = test.check() {
            return Sample::failed(Failure::new(FailureKind::Internal, error.to_string()));
        }
        self.guarded(test.timeout_s, |worker, deadline| worker.take(test, deadline, clock, ready))
    }

    /// Returns a sample in any case, even if taking it fails or panics.
    pub(crate) fn guarded(
        &mut self,
        timeout_s: f64,
        take: impl FnOnce(&mut Self, Instant) -> Result<Sample, Failure>,
    ) -> Sample {
        let deadline = Instant::now() + Duration::from_secs_f64(timeout_s.clamp(0.0, 86400.0));
        let taken = catch_unwind(AssertUnwindSafe(|| take(self, deadline)));
        match taken {
            Ok(Ok(sample)) => sample.settled(),
            Ok(Err(failure)) => {
                if matches!(failure.kind, FailureKind::Lost | FailureKind::Timeout) {
                    // The next test may find a lost device again, and must not wait behind the
                    // jobs that a test out of time has left in its device's queue.
                    self.devices.clear();
                }
                Sample::without(failure)
            }
            Err(panic) => {
                // Whatever was half done is not used again.
                self.devices.clear();
                self.kept_buffers.clear();
                self.references.take();
                let text = format!("the worker panicked: {}", panic_text(&*panic));
                Sample::failed(Failure::new(FailureKind::Internal, text))
            }
        }
    }

    fn take(
        &mut self,
        test: &Test,
        deadline: Instant,
        cpu_clock: HostClock,
        ready: impl FnOnce(),
    ) -> Result<Sample, Failure> {
        let clock = match cpu_clock {
            _ if !is_virtual(test) => Clock::default(),
            HostClock::Process { .. } => self.virtual_clock.clone(),
            // Beside other work, which goes on in real time.
            HostClock::Thread => self.held_clock.clone(),
        };
        if test.is_cut() {
            let asked = test.buffer_size;
            let longest = self.chunk_bytes(test, &clock, asked as usize)? as u64;
            if longest < asked {
                let test = Test { buffer_size: longest, ..test.clone() };
                let mut sample = self.take_on(&test, deadline, (cpu_clock, clock), ready)?;
                let message = format!(
                    "the data are cut at {longest} bytes, which {} takes at most, not at {asked}",
                    test.device.replace('+', " or ")
                );
                sample.warnings.push(Warning::new("cut", message, ""));
                return Ok(sample);
            }
        }
        self.take_on(test, deadline, (cpu_clock, clock), ready)
    }

    fn take_on(
        &mut self,
        test: &Test,
        deadline: Instant,
        (cpu_clock, clock): (HostClock, Clock),
        ready: impl FnOnce(),
    ) -> Result<Sample, Failure> {
        if let Some(policy) = test.placement {
            let wall = match policy {
                Policy::Cpu if clock.is_virtual() => {
                    let sample = self.place(test, policy, (deadline, Clock::default()))?;
                    sample.metrics.get("throughput").copied()
                }
                _ => None,
            };
            let mut sample = self.place(test, policy, (deadline, clock))?;
            sample.metrics.extend(wall.map(|wall| ("wall_throughput".into(), wall)));
            return Ok(sample);
        }
        let device = self.device(test, &clock)?;
        let plan = plan(test, &*device)?;
        let buffers = self.buffers(test, &[])?;
        let profile = self.profile(&test.device)?;
        let bench =
            ContextBench { test, device, plan, buffers, profile, cpu_clock, clock, deadline };
        bench.measure(&self.references, ready)
    }

    fn place(
        &mut self,
        test: &Test,
        policy: Policy,
        (deadline, clock): (Instant, Clock),
    ) -> Result<Sample, Failure> {
        let lengths = match test.sizes {
            Sizes::Adaptive => self.lengths(test, &clock)?,
            Sizes::Fixed | Sizes::Mixed | Sizes::Own => Vec::new(),
        };
        let mut side = |target: Target| {
            let mut alone = target_test(test, target);
            if let Some(longest) = lengths.last() {
                alone.buffer_size = *longest as u64;
            }
            let device = self.device(&alone, &clock)?;
            let plan = plan(&alone, &*device)?;
            Ok::<_, Failure>(Side { device, plan })
        };
        let cpu = policy.uses_cpu().then(|| side(Target::Cpu)).transpose()?;
        let count = if policy.uses_device() { test.devices().count() } else { 0 };
        let devices: Result<Vec<Side>, Failure> = (0..count
            .min(overside_placement::DEVICES_MAX + 1))
            .map(|device| side(Target::Device(device)))
            .collect();
        let bench = PlacementBench {
            test,
            policy,
            cpu,
            devices: devices?,
            buffers: self.buffers(test, &lengths)?,
            profile: match test.devices().count() {
                1 => self.profile(&test.device)?,
                _ => None,
            },
            clock,
            deadline,
        };
        bench.measure(&self.references)
    }

    /// The lengths that chunks may have, of which the data have four each, or the first has one.
    fn lengths(&mut self, test: &Test, clock: &Clock) -> Result<Vec<usize>, Failure> {
        let first = test.buffer_size as usize;
        let several = Buffers::stream_bytes(&test.data)?.min(test.data.sample_bytes) / 4;
        let most = MAX_ADAPTIVE_CHUNK_BYTES.min(several as usize).max(first);
        let most = self.chunk_bytes(test, clock, most)?;
        Ok(chunk_lengths(first, most).collect())
    }

    /// Returns the longest chunk that all devices of the test take, at most `asked`.
    fn chunk_bytes(&mut self, test: &Test, clock: &Clock, asked: usize) -> Result<usize, Failure> {
        let uses_cpu = test.placement.is_some_and(Policy::uses_cpu);
        let uses_device = test.placement.is_none_or(Policy::uses_device);
        let count = test.devices().count().min(overside_placement::DEVICES_MAX + 1);
        let devices = (0..count).map(Target::Device).filter(|_| uses_device);
        let mut longest = asked;
        for target in uses_cpu.then_some(Target::Cpu).into_iter().chain(devices) {
            let device = self.device(&target_test(test, target), clock)?;
            longest = chunk_bytes(&*device, test.operation, longest).unwrap_or(longest);
        }
        Ok(longest)
    }

    fn device(&mut self, test: &Test, clock: &Clock) -> Result<Arc<dyn Device>, Failure> {
        let options = Options {
            threads: test.threads,
            cores: test.cores.clone(),
            // One that was to be virtual and cannot be here is as near to that as real time comes.
            timing: test.timing.filter(|timing| *timing != Timing::Virtual),
            clock: clock.clone(),
        };
        let key = (test.device.clone(), relevant_options(&options, &test.device));
        if let Some((_, device)) = self.devices.iter().find(|(kept, _)| *kept == key) {
            return Ok(Arc::clone(device));
        }
        let device = (self.open)(&key.0, &key.1).map_err(|error| match error {
            OpenError::Unavailable { .. } => Failure::unsupported(error.to_string()),
            _ => Failure::new(FailureKind::Job, error.to_string()),
        })?;
        self.devices.push_back((key, Arc::clone(&device)));
        while self.devices.len() > DEVICES_MAX {
            self.devices.pop_front();
        }
        Ok(device)
    }

    /// Returns the profile of an emulated device; `None` for other devices.
    fn profile(&mut self, device: &str) -> Result<Option<Arc<Profile>>, Failure> {
        let Some(name) = overside_backends::profile_of(device) else {
            return Ok(None);
        };
        if !self.profiles.contains_key(name) {
            let profile = overside_model::profile(name)
                .map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
            self.profiles.insert(name.into(), Arc::new(profile));
        }
        Ok(self.profiles.get(name).cloned())
    }

    /// Returns the test's buffers; they have the given lengths if there are any.
    fn buffers(&mut self, test: &Test, lengths: &[usize]) -> Result<TestBuffers, Failure> {
        let key = BuffersKey {
            data: test.data.clone(),
            input: test.input,
            cut: match test.sizes {
                Sizes::Mixed => Cut::Mixed(test.seed),
                Sizes::Own => Cut::Own,
                Sizes::Fixed | Sizes::Adaptive => Cut::Fixed,
            },
            lengths: lengths.to_vec(),
            buffer_size: test.buffer_size,
            made_by: None,
        };
        let original = self.kept(key.clone(), || {
            let (data, size) = (&test.data, test.buffer_size);
            let read = match test.input {
                Input::Buffers if !lengths.is_empty() => Buffers::read_lengths(data, lengths),
                Input::Buffers => Buffers::read(data, size, key.cut),
                Input::Files => Buffers::read_files(data, size, key.cut),
            };
            let original = match read {
                Ok(buffers) => Arc::new(buffers),
                Err(NoData::TooShort(reason)) => return Err(Failure::unsupported(reason)),
                Err(NoData::Failed(failure)) => return Err(failure),
            };
            Ok(TestBuffers { source: Arc::clone(&original), original })
        })?;
        let made_by = test.operation.made_by();
        let Some(maker) = made_by else {
            return Ok(original);
        };
        self.kept(BuffersKey { made_by, ..key }, || {
            let source = Arc::new(original.original.made_by(maker)?);
            Ok(TestBuffers { source, original: original.original })
        })
    }

    /// Returns the buffers kept for `key`, or makes them. Drops the least recently used buffers if
    /// too many are kept.
    fn kept(
        &mut self,
        key: BuffersKey,
        make: impl FnOnce() -> Result<TestBuffers, Failure>,
    ) -> Result<TestBuffers, Failure> {
        let place = self.kept_buffers.iter().position(|(kept, _)| *kept == key);
        let buffers = match place.and_then(|place| self.kept_buffers.remove(place)) {
            Some((_, buffers)) => buffers,
            None => make()?,
        };
        self.kept_buffers.push_back((key, buffers.clone()));
        let bytes = |all: &VecDeque<(BuffersKey, TestBuffers)>| -> u64 {
            all.iter().map(|(_, buffers)| buffers.source.memory_bytes()).sum()
        };
        while self.kept_buffers.len() > BUFFERS_KEPT_MAX
            || (self.kept_buffers.len() > 2 && bytes(&self.kept_buffers) > BUFFER_BYTES_MAX)
        {
            self.kept_buffers.pop_front();
            self.references.get_mut().forget_unused();
        }
        Ok(buffers)
    }
}
