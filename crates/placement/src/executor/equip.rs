//! Getting an executor ready: its legs and their memory.

use std::sync::Arc;

use overside_device::OpenError;

use crate::lane::Lane;
use crate::memory::Pool;
use crate::report::{EventKind, Log};
use crate::{Error, Leg, Policy, Setup};

/// Both legs, as far as the policy has them and the devices can; not open.
pub(super) fn lanes(setup: &Setup, log: &mut Log) -> Result<[Option<Lane>; 2], Error> {
    let policy = setup.policy;
    let mut cpu = match (&setup.cpu, policy.uses_cpu()) {
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
    if let (Some(cpu), Some(device)) = (&mut cpu, &device) {
        cpu.share_destinations(device);
    }
    Ok([cpu, device])
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

/// The pool that sources come from: memory that both legs reach.
pub(super) fn sources(setup: &Setup, lanes: &[Option<Lane>; 2]) -> Result<Arc<Pool>, Error> {
    let [cpu, device] = lanes;
    let lane = match (device, cpu) {
        (Some(device), _) if device.is_registered() => device,
        (_, Some(cpu)) => cpu,
        (Some(device), None) => device,
        (None, None) => {
            let (policy, leg) = (setup.policy, Leg::Cpu);
            return Err(Error::NoLeg { policy, leg });
        }
    };
    Ok(lane.pool(setup.source_bytes, setup.window() + 1))
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
