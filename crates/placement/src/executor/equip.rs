//! Getting an executor ready: its legs and their memory.

use std::sync::Arc;

use overside_device::OpenError;

use crate::lane::Lane;
use crate::memory::Pool;
use crate::report::{EventKind, Log};
use crate::{Error, Leg, Policy, Setup};

/// Whose memory buffers are to be made of that both legs reach.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// The device's, if it asks for its own: it will get chunks.
    Device,
    /// The CPU's. What the device gets all the same, to see whether it would help by now, is copied.
    Cpu,
}

/// Both legs, as far as the policy has them and the devices can; not open.
pub(super) fn lanes(setup: &Setup, log: &mut Log) -> Result<[Option<Lane>; 2], Error> {
    let policy = setup.policy;
    let cpu = match (&setup.cpu, policy.uses_cpu()) {
        (Some(cpu), true) => Some(Lane::new(cpu, Leg::Cpu, setup, false)?),
        (Some(cpu), false) => match Lane::new(cpu, Leg::Cpu, setup, false) {
            Ok(lane) => Some(lane),
            Err(error) => {
                let message = format!("{error}; what the device fails at is not run again");
                log.event(0, Leg::Cpu, EventKind::Unsupported, message);
                None
            }
        },
        (None, true) => {
            return Err(Error::NoLeg {
                policy,
                leg: Leg::Cpu,
            });
        }
        (None, false) => None,
    };
    let device = if policy.uses_device() {
        device(setup, cpu.is_some(), log)?
    } else {
        None
    };
    Ok([cpu, device])
}

/// Has both legs take their destinations out of one pool if they can, and makes the one that sources
/// come from.
pub(super) fn memory(
    setup: &Setup,
    lanes: &mut [Option<Lane>; 2],
    home: Home,
) -> Result<Arc<Pool>, Error> {
    let [cpu, device] = lanes;
    let device = device.as_ref();
    let registered = device.filter(|device| home == Home::Device && device.is_registered());
    if let (Some(cpu), Some(device)) = (cpu.as_mut(), device)
        && (home == Home::Device || !device.is_registered())
    {
        cpu.share_destinations(device);
    }
    let Some(lane) = registered.or(cpu.as_ref()).or(device) else {
        let (policy, leg) = (setup.policy, Leg::Cpu);
        return Err(Error::NoLeg { policy, leg });
    };
    Ok(sources(setup, lane))
}

/// A pool of sources, of that leg's memory.
pub(super) fn sources(setup: &Setup, lane: &Lane) -> Arc<Pool> {
    lane.pool(setup.source_bytes, setup.window() + 1)
}

fn device(setup: &Setup, fallback: bool, log: &mut Log) -> Result<Option<Lane>, Error> {
    let policy = setup.policy;
    let Some(device) = &setup.device else {
        return Err(Error::NoLeg {
            policy,
            leg: Leg::Device,
        });
    };
    match Lane::new(device, Leg::Device, setup, fallback) {
        Ok(lane) => Ok(Some(lane)),
        Err(error) if policy == Policy::Adaptive => {
            given_up(&error, log);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn given_up(error: &OpenError, log: &mut Log) {
    let message = format!("{error}; everything runs on the cpu");
    log.event(0, Leg::Device, EventKind::Unsupported, message);
}

/// Opens the legs that will be needed for certain, and makes the memory that is dear to make.
pub(super) fn open(
    setup: &Setup,
    lanes: &mut [Option<Lane>; 2],
    sources: &Pool,
) -> Result<(), Error> {
    let [cpu, device] = lanes;
    if setup.policy != Policy::Adaptive
        && let Some(device) = device
    {
        device.open()?;
        if device.is_registered() {
            sources.fill()?;
            device.destinations.fill()?;
        }
    }
    if setup.policy.uses_cpu()
        && let Some(cpu) = cpu
    {
        cpu.open()?;
    }
    Ok(())
}
