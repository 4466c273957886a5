//! Capabilities of an emulated card: the operations of its profile that a library here can compute.

use overside_device::{Capabilities, Capability, MemoryKind, Operation};
use overside_model::Profile;

use crate::Mode;

/// Jobs in flight that the emulation itself takes; published queues are no deeper.
const MAX_DEPTH: usize = 4096;

/// One capability for each operation of the profile that at least one library can compute.
pub(crate) fn of(profile: &Profile, mode: Mode) -> Capabilities {
    let all = Operation::all().into_iter();
    Capabilities::new(all.filter_map(|operation| one(profile, mode, operation)).collect())
}

fn one(profile: &Profile, mode: Mode, operation: Operation) -> Option<Capability> {
    let entry = profile.operation(operation)?;
    let variants: Vec<String> = (overside_ops::usable_variants(operation).into_iter())
        .map(|(variant, _)| variant.name.to_owned())
        .collect();
    if variants.is_empty() {
        return None;
    }
    let depth = profile.device.queue_depth.as_ref();
    let depth = depth.map_or(MAX_DEPTH, |depth| depth.interval().typ as usize);
    let timed = mode != Mode::Functional;
    Some(Capability {
        operation,
        variants,
        max_source_bytes: entry.max_source_bytes(),
        max_destination_bytes: entry.max_destination_bytes(),
        // Nothing is published about chains of buffers.
        max_segments: 1,
        max_depth: depth.clamp(1, MAX_DEPTH),
        event: true,
        memory: MemoryKind::Registered,
        missing: if timed { profile.missing(operation) } else { Vec::new() },
    })
}
