//! What a test means on its device, and whether the device can run it: found out before any data is
//! read.

use std::ops::RangeInclusive;

use overside_device::{Capability, Clock, Device, OpenError, Operation, OperationConfig};
use overside_ops::{
    Error as OperationError, Format, HashAlgorithm, MatchKind, match_groups_bytes_max,
};
use overside_probe::{Failure, FailureKind};

use crate::data::bound;
use crate::sample::Warning;
use crate::test::{CompletionMode, Setting, Test};

/// What a test means on its device.
pub(crate) struct Plan {
    pub operation: OperationConfig,
    pub capability: Capability,
    /// Jobs in flight.
    pub depth: usize,
    /// What every result fits into, and the device takes.
    pub destination_bytes: u64,
    /// A job's output buffer at first; it grows up to `destination_bytes`.
    pub output_bytes: u64,
    pub completion: CompletionMode,
    pub warnings: Vec<Warning>,
}

/// The format in which an operation's sources have to be compressed beforehand.
pub(crate) fn compressed_input(operation: Operation) -> Option<Format> {
    match operation {
        Operation::Decompress(format) => Some(format),
        _ => None,
    }
}

/// Finds out whether `device` can run the test, before any data is read.
pub(crate) fn plan(test: &Test, device: &dyn Device) -> Result<Plan, Failure> {
    let name = &device.info().name;
    let skip = |reason: String| Err(Failure::unsupported(reason));
    let Some(capability) = device.capabilities().get(test.operation) else {
        return skip(format!("{name} cannot {}", test.operation));
    };
    if test.variant != "auto" && !capability.variants.contains(&test.variant) {
        return skip(format!(
            "{name} has no variant {:?} of {}; there are: {}",
            test.variant,
            test.operation,
            capability.variants.join(", ")
        ));
    }
    let depth = match test.setting {
        Setting::Static => test.depth,
        Setting::Reconfiguration => 1,
    };
    if depth > capability.max_depth {
        let max = capability.max_depth;
        return skip(format!("{name} takes {max} jobs in flight, not {depth}"));
    }
    let size = test.buffer_size;
    // What a compressed source takes is known only once it is made.
    if compressed_input(test.operation).is_none() && size > capability.max_source_bytes {
        let max = capability.max_source_bytes;
        return skip(format!(
            "{name} takes sources of up to {max} bytes, not {size}"
        ));
    }
    let destination_bytes = match test.operation {
        Operation::Compress(_) => bound(size).min(capability.max_destination_bytes),
        Operation::Decompress(_) | Operation::Copy => size,
        Operation::Match(MatchKind::Bitmap) => size.div_ceil(8),
        Operation::Match(MatchKind::Search | MatchKind::Count) => 0,
        Operation::Match(MatchKind::Groups) => match_groups_bytes_max(&test.patterns, size),
        Operation::Hash(algorithm) => digest_bytes(algorithm),
    };
    if destination_bytes > capability.max_destination_bytes {
        let max = capability.max_destination_bytes;
        return skip(format!(
            "{name} takes destinations of up to {max} bytes, not {destination_bytes}"
        ));
    }
    let mut warnings = Vec::new();
    let mut completion = test.completion;
    if completion == CompletionMode::Event && !capability.event {
        completion = CompletionMode::Poll;
        warnings.push(Warning::new(
            "polled",
            format!("{name} has no events: completions were polled for"),
            "set completion to poll",
        ));
    }
    let operation = OperationConfig {
        operation: test.operation,
        variant: test.variant.clone(),
        level: test
            .level
            .filter(|_| matches!(test.operation, Operation::Compress(_))),
        patterns: match test.operation {
            Operation::Match(_) => test.patterns.clone(),
            _ => Vec::new(),
        },
    };
    Ok(Plan {
        operation,
        capability: capability.clone(),
        depth,
        destination_bytes,
        output_bytes: (test.output_size)
            .map_or(destination_bytes, |bytes| bytes.min(destination_bytes)),
        completion,
        warnings,
    })
}

/// Bytes that a pass in virtual time moves at most: it passes slower than real time where a device
/// is fast, and shows nothing new.
const VIRTUAL_BYTES_MAX: u64 = 2 << 30;
/// Operations of such a pass.
const VIRTUAL_OPERATIONS: RangeInclusive<u64> = 64..=200_000;

/// Operations on buffers of up to so many bytes after which a pass is over.
pub(crate) fn operations_max(clock: &Clock, longest_bytes: u64) -> u64 {
    if !clock.is_virtual() {
        return u64::MAX;
    }
    let (fewest, most) = VIRTUAL_OPERATIONS.into_inner();
    (VIRTUAL_BYTES_MAX / longest_bytes.max(1)).clamp(fewest, most)
}

fn digest_bytes(algorithm: HashAlgorithm) -> u64 {
    algorithm.digest_len() as u64
}

/// Whether a context was asked for what its device cannot do; else something went wrong.
pub(crate) fn is_beyond(error: &OpenError) -> bool {
    matches!(
        error,
        OpenError::Unsupported { .. }
            | OpenError::Limit { .. }
            | OpenError::Operation(
                OperationError::UnknownVariant { .. }
                    | OperationError::Level { .. }
                    | OperationError::NoLevels { .. },
            )
    )
}

/// A context that cannot be opened: what its device cannot do is skipped, what goes wrong has
/// failed.
pub(crate) fn not_opened(error: &OpenError) -> Failure {
    match is_beyond(error) {
        true => Failure::unsupported(error.to_string()),
        false => Failure::new(FailureKind::Job, error.to_string()),
    }
}

/// A source of `longest` bytes, if the device of that name does not take it.
pub(crate) fn too_long(device: &str, plan: &Plan, longest: u64) -> Option<Failure> {
    let max = plan.capability.max_source_bytes;
    (longest > max).then(|| {
        Failure::unsupported(format!(
            "{device} takes sources of up to {max} bytes, not {longest}"
        ))
    })
}
