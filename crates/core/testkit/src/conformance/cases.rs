//! A job for a device, and the required answer.

use std::sync::OnceLock;

use overside_ops::{
    Config, Direction, Lengths, Operation, Output, Verification, prepare, variants,
};

use crate::data::text;
use overside_device::{Capability, Completion, Device, Job, Outcome, Region, Slice, Source};

/// Length of the uncompressed side where the device takes that much.
const LEN: usize = 20_000;
/// The patterns that matching is tried with.
const PATTERNS: [&str; 2] = ["needle", "on (.+) at"];

pub(super) struct Case<'a> {
    pub(super) device: &'a dyn Device,
    /// The input in memory that the device reaches, once it is there.
    source: OnceLock<Slice>,
    pub(super) config: Config,
    /// Bytes of the job's source.
    pub(super) input: Vec<u8>,
    /// A destination that is large enough.
    pub(super) capacity: usize,
    /// The uncompressed side.
    plain: Vec<u8>,
}

/// A case for each capability, by the variant that `auto` takes.
pub(super) fn all(device: &dyn Device) -> Vec<Case<'_>> {
    device
        .capabilities()
        .iter()
        .map(|capability| Case::new(device, capability, "auto", LEN))
        .collect()
}

/// A case for any capability.
pub(super) fn any(device: &dyn Device) -> Case<'_> {
    all(device).into_iter().next().expect("the device can do something")
}

impl<'a> Case<'a> {
    /// Text of up to `len` bytes for `capability`.
    pub(super) fn new(
        device: &'a dyn Device,
        capability: &Capability,
        variant: &str,
        len: usize,
    ) -> Self {
        let max_source = bounded(capability.max_source_bytes);
        let max_destination = bounded(capability.max_destination_bytes);
        let plain = text(7, len.min(max_source).min(max_destination / 2));
        Self::of(device, capability.operation, variant, plain)
    }

    /// The case of given bytes on the uncompressed side.
    pub(super) fn of(
        device: &'a dyn Device,
        operation: Operation,
        variant: &str,
        plain: Vec<u8>,
    ) -> Self {
        let mut config = Config { variant: variant.into(), ..Config::new(operation) };
        if operation.family().has_patterns {
            config.patterns = PATTERNS.map(str::to_owned).to_vec();
        }
        let most = |operation: Operation| {
            let bytes = operation.result_bytes_max(&config.patterns, plain.len() as u64);
            // Engines that store nothing make more of what does not shrink.
            bytes as usize + plain.len() / 8
        };
        let input = match operation.made_by() {
            Some(maker) => run(Config::new(maker), &plain, most(maker)).0,
            None => plain.clone(),
        };
        let capacity = match operation.lengths() {
            Lengths::Shrinks => most(operation),
            _ => {
                let own = Config { variant: "auto".into(), ..config.clone() };
                run(own, &input, most(operation)).0.len()
            }
        };
        Self { device, source: OnceLock::new(), config, input, capacity, plain }
    }

    pub(super) fn capability(&self) -> &'a Capability {
        self.device.capabilities().get(self.config.operation).expect("cases come from capabilities")
    }

    /// The input in memory that the device reaches.
    pub(super) fn source(&self) -> &Slice {
        self.source.get_or_init(|| slice(self.device, &self.input))
    }

    /// A job on its input, with a destination that is large enough.
    pub(super) fn job(&self, tag: u64) -> Job {
        self.job_of(tag, self.source())
    }

    /// A job on the input elsewhere.
    pub(super) fn job_of(&self, tag: u64, source: &Slice) -> Job {
        let destination = self.device.alloc(self.capacity, 1);
        Job {
            tag,
            source: Source::One(source.clone()),
            destination: destination.expect("memory for a destination"),
            deadline: None,
        }
    }

    /// Returns the length of the shortest output that a test can request less than.
    pub(super) fn shortest_output(&self) -> usize {
        match self.config.operation.lengths() {
            Lengths::Shrinks => 20,
            _ => self.capacity,
        }
    }

    /// Panics unless the completion's answer is right, by a library other than the one that gave
    /// it where there is one.
    pub(super) fn verify(&self, completion: &Completion) {
        let operation = self.config.operation;
        let Ok(Outcome::Done(output)) = completion.result else {
            panic!("{operation} of {} bytes: {:?}", self.input.len(), completion.result);
        };
        let destination = completion.destination.as_ref().expect("a job that is done");
        assert_eq!(destination.len(), self.capacity, "{operation}: the destination comes back");
        assert_eq!(completion.source.len(), self.input.len(), "{operation}: so does the source");
        assert!(output.written <= destination.len(), "{operation}: {output:?}");
        let bytes = &read(self.device, destination)[..output.written];
        match operation.family().verification {
            Verification::Inverse => {
                assert!(
                    bytes.len() < self.input.len() || operation.lengths() != Lengths::Shrinks,
                    "{operation}: made it smaller"
                );
                let inverse = operation.inverse().expect("it has one");
                let back = other(Config::new(inverse), &completion.applied.variant);
                let back = run(back, bytes, self.plain.len());
                assert!(back.0 == self.plain, "{operation}: the bytes come back");
            }
            Verification::Original => {
                assert!(bytes == self.plain, "{operation}: the right bytes");
            }
            Verification::Reference => {
                let reference = other(self.config.clone(), &completion.applied.variant);
                let (expected, made) = run(reference, &self.input, self.capacity);
                assert_eq!(output, made, "{operation}");
                assert!(bytes == expected, "{operation}: the right bytes");
            }
        }
    }
}

/// Bytes in memory that the device reaches.
pub(super) fn slice(device: &dyn Device, bytes: &[u8]) -> Slice {
    let mut region = device.alloc(bytes.len(), 64).expect("memory for a source");
    device.write(&mut region, 0, bytes).expect("its own memory");
    region.share()
}

/// The bytes of the device's memory.
pub(super) fn read(device: &dyn Device, region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; region.len()];
    device.read(region, 0, &mut bytes).expect("its own memory");
    bytes
}

/// Runs an operation on `input` with a library on the CPU. Returns the bytes of the output and the
/// library's [`Output`].
fn run(config: Config, input: &[u8], capacity: usize) -> (Vec<u8>, Output) {
    let operation = config.operation;
    let mut out = vec![0; capacity];
    let output = prepare(&config)
        .and_then(|prepared| prepared.kernel())
        .and_then(|mut kernel| kernel.run(&[input], &mut out))
        .unwrap_or_else(|error| panic!("the reference for {operation}: {error}"));
    out.truncate(output.written);
    (out, output)
}

/// The configuration for another library than `applied`, if there is one.
fn other(config: Config, applied: &str) -> Config {
    let all = variants(config.operation);
    let name = all.iter().map(|variant| variant.name).find(|name| *name != applied);
    Config { variant: name.unwrap_or("auto").into(), ..config }
}

fn bounded(bytes: u64) -> usize {
    bytes.min(1 << 30) as usize
}

/// Returns `true` if the uncompressed side of the operation is its destination, as for
/// decompression. Throughput then counts the destination's bytes.
pub(super) fn expands(operation: Operation) -> bool {
    operation.uncompressed_side() == Direction::Destination
}
