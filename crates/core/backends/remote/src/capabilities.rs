//! Capabilities of an agent's device, as this machine sees them.

use overside_device::{Capabilities, Capability, MemoryKind};
use overside_link::agent::Offer;

/// Maximum number of segments of a source. They are sent one after the other, so this is no limit of the
/// agent's device.
pub(crate) const MAX_SEGMENTS: usize = 1024;

/// Converts the capabilities that the agent probed. Three things differ on this side: buffers are
/// no longer than a frame of the connection carries (the offer already includes that limit), they
/// may be in any memory, and an event descriptor becomes readable whether or not the device there
/// has one.
pub(crate) fn of(offer: &Offer) -> Capabilities {
    let all = offer.capabilities.iter().map(|there| Capability {
        max_segments: MAX_SEGMENTS,
        event: true,
        memory: MemoryKind::Any,
        ..there.clone()
    });
    Capabilities::new(all.collect())
}
