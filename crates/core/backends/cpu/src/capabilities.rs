//! Capabilities of the libraries on this machine.

use std::collections::HashMap;
use std::sync::Mutex;

use overside_base::lock;
use overside_device::{Capabilities, Capability, MemoryKind};
use overside_ops::{Operation, usable_variants};

/// The longest source and destination in bytes: the smallest limit of any library, LZ4's
/// `LZ4_MAX_INPUT_SIZE`.
const MAX_BYTES: u64 = 0x7E00_0000;
/// Maximum number of jobs in flight. Each takes a slot of a few hundred bytes for as long as the context
/// is open.
const MAX_DEPTH: usize = 4096;

/// Returns the capabilities for the given operations. Each operation is probed once per process;
/// the result is cached.
pub(crate) fn probed(operations: impl IntoIterator<Item = Operation>) -> Capabilities {
    static PROBED: Mutex<Option<HashMap<Operation, Option<Capability>>>> = Mutex::new(None);
    // Whatever is in there was put there as a whole.
    let mut probed = lock(&PROBED);
    let known = probed.get_or_insert_default();
    let one = |operation| (known.entry(operation)).or_insert_with(|| capability(operation)).clone();
    Capabilities::new(operations.into_iter().filter_map(one).collect())
}

/// Returns the capability for an operation, or `None` if no library on this machine can run it.
fn capability(operation: Operation) -> Option<Capability> {
    let usable = usable_variants(operation);
    Some(Capability {
        operation,
        max_segments: usable.iter().map(|(_, segments)| *segments).min()?,
        variants: usable.into_iter().map(|(variant, _)| variant.name.to_owned()).collect(),
        max_source_bytes: MAX_BYTES,
        max_destination_bytes: MAX_BYTES,
        max_depth: MAX_DEPTH,
        event: true,
        memory: MemoryKind::Any,
        missing: Vec::new(),
    })
}
