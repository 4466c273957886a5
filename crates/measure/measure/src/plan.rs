//! Configuration of a test for its device, with the check that the device can run it. Both come
//! before any data is read.

use std::ops::RangeInclusive;

use overside_device::{Capability, Clock, Device, OpenError, OperationConfig};
use overside_ops::{Error as OperationError, Lengths};
use overside_probe::{Failure, FailureKind};

use crate::sample::Warning;
use crate::test::{CompletionMode, Setting, Test};

/// Configuration of a test for its device.
pub(crate) struct Plan {
    pub operation: OperationConfig,
    pub capability: Capability,
    /// Jobs in flight.
    pub depth: usize,
    /// Length of a destination in bytes; every result fits into it, and the device accepts it.
    pub destination_bytes: u64,
    /// A job's output buffer at first; it grows up to `destination_bytes`.
    pub output_bytes: u64,
    pub completion: CompletionMode,
    pub warnings: Vec<Warning>,
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
    // The length of a source that has to be made is known only once it is.
    if test.operation.made_by().is_none() && size > capability.max_source_bytes {
        let max = capability.max_source_bytes;
        return skip(format!("{name} takes sources of up to {max} bytes, not {size}"));
    }
    let longest = test.operation.result_bytes_max(&test.patterns, size);
    let destination_bytes = match test.operation.lengths() {
        Lengths::Shrinks => longest.min(capability.max_destination_bytes),
        _ => longest,
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
    let family = test.operation.family();
    let operation = OperationConfig {
        operation: test.operation,
        variant: test.variant.clone(),
        level: test.level.filter(|_| family.has_levels),
        patterns: match family.has_patterns {
            true => test.patterns.clone(),
            false => Vec::new(),
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

/// Returns the number of operations on buffers of up to `longest_bytes` after which a pass ends.
pub(crate) fn operations_max(clock: &Clock, longest_bytes: u64) -> u64 {
    if !clock.is_virtual() || clock.is_held_back() {
        return u64::MAX;
    }
    let (fewest, most) = VIRTUAL_OPERATIONS.into_inner();
    (VIRTUAL_BYTES_MAX / longest_bytes.max(1)).clamp(fewest, most)
}

/// Returns `true` if a context was requested that the device does not support. Any other error
/// means that something went wrong.
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

/// Error of a context that cannot be opened: unsupported operations are skipped, others have
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
        Failure::unsupported(format!("{device} takes sources of up to {max} bytes, not {longest}"))
    })
}
