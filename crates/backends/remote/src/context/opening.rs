//! What a context is set up with, and what that took.

use std::time::Duration;

use overside_device::threads::Limits;
use overside_device::{Applied, ContextConfig, Lifecycle, MemoryKind};
use overside_link::agent::{Offer, Welcome};

use crate::capabilities::MAX_SEGMENTS;
use crate::{Shared, driver};

/// A new connection leads to the device that was there before.
pub(super) fn check_same(before: &Offer, now: &Welcome) -> Result<(), String> {
    let name = &before.info.name;
    match now.devices.iter().find(|offer| offer.info.name == *name) {
        Some(offer) if offer == before => Ok(()),
        Some(_) => Err("the agent was exchanged for another one: open the device again".into()),
        None => Err(format!("the agent does not offer {name} any more")),
    }
}

pub(super) fn limits(shared: &Shared, config: &ContextConfig) -> Limits {
    Limits {
        device: shared.id,
        memory: MemoryKind::Any,
        depth: config.depth,
        max_source_bytes: config.max_source_bytes,
        max_destination_bytes: config.max_destination_bytes,
        max_segments: MAX_SEGMENTS,
        gather: false,
    }
}

/// What jobs that never reached an engine are filed under.
pub(super) fn nothing_ran(shared: &Shared, config: &ContextConfig) -> Applied {
    let info = &shared.info;
    Applied {
        device: info.name.clone(),
        driver: driver(&shared.offer.info.driver, "unknown"),
        variant: config.operation.variant.clone(),
        library: "no job has run".into(),
        provenance: info.provenance,
    }
}

/// The times of a context: the agent's for what is its own, and what the host waited for besides.
pub(super) fn lifecycle(there: Lifecycle, opening: Duration, connecting: Duration) -> Lifecycle {
    let ns = |time: Duration| time.as_nanos() as u64;
    let memory_ns = there.memory_ns;
    Lifecycle {
        discovery_ns: Some(ns(connecting) + there.discovery_ns.unwrap_or(0)),
        init_ns: Some(ns(opening).saturating_sub(memory_ns.unwrap_or(0))),
        memory_ns,
        end_ns: None,
    }
}
