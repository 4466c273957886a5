//! Capabilities of a DPDK device, derived from probing it.

use overside_device::{Capabilities, Capability, MemoryKind, Operation};

use crate::engine::Engine;
use crate::shim::Kind;

/// The longest buffer of a job in bytes: mbufs count with 16 bits.
pub(crate) const MAX_BYTES: u64 = u16::MAX as u64;
/// The longest copy of one job in bytes. Copies are not bound to mbufs; a long one takes several
/// descriptors.
const MAX_COPY_BYTES: u64 = 1 << 20;
/// Maximum number of segments, where a device takes chains.
pub(crate) const MAX_SEGMENTS: usize = 16;

pub(crate) fn of(engine: &Engine) -> Capabilities {
    let all = Operation::all().into_iter();
    Capabilities::new(all.filter_map(|operation| one(engine, operation)).collect())
}

fn one(engine: &Engine, operation: Operation) -> Option<Capability> {
    let behavior = engine.behaviors.get(operation)?;
    let longest = match (engine.found.kind, u64::from(engine.limits.source_bytes)) {
        (Kind::Copy, _) => MAX_COPY_BYTES,
        (_, 0) => MAX_BYTES,
        (_, limit) => limit.min(MAX_BYTES),
    };
    Some(Capability {
        operation,
        variants: vec![engine.driver().to_owned()],
        max_source_bytes: longest,
        max_destination_bytes: longest.max(MAX_BYTES),
        max_segments: behavior.segments,
        max_depth: engine.depth,
        // No class of device tells on a descriptor that it is done.
        event: false,
        memory: MemoryKind::Registered,
        missing: Vec::new(),
    })
}
