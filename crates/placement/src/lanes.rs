//! Where chunks run: both targets, the memory that they share, and whether the device is used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::OpenError;

use crate::adaptive::TargetState;
use crate::circuit_breaker::CircuitBreaker;
use crate::lane::Lane;
use crate::memory::{Buffer, Pool};
use crate::report::{EventKind, Log};
use crate::{Error, Policy, Setup, Target};

/// Whose memory buffers are made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BufferSource {
    /// The device's, if it asks for its own: it will get chunks.
    Device,
    /// The CPU's. What the device gets all the same, to see whether it would help by now, is copied.
    Cpu,
}

/// The lanes of both targets.
pub(crate) struct Lanes {
    lanes: [Option<Lane>; 2],
    pub(crate) breaker: CircuitBreaker,
    sources: Arc<Pool>,
    buffer_source: BufferSource,
    /// Destinations given up with their contexts.
    pub(crate) quarantined: u64,
    /// Time spent on buffers that are gone.
    memory_before: Duration,
}

impl Lanes {
    /// Both targets, as far as the policy has them and the devices can. Opens those that will be
    /// needed for certain, and makes the memory that is dear to make.
    pub(crate) fn open(setup: &Setup, log: &mut Log) -> Result<Self, Error> {
        let mut lanes = make_lanes(setup, log)?;
        let sources = share_memory(setup, &mut lanes, BufferSource::Device)?;
        let mut breaker = CircuitBreaker::new(setup.retry);
        if lanes[Target::Device as usize].is_none() {
            breaker.give_up();
        }
        let mut all = Self {
            lanes,
            breaker,
            sources,
            buffer_source: BufferSource::Device,
            quarantined: 0,
            memory_before: Duration::ZERO,
        };
        all.open_needed(setup, true)?;
        Ok(all)
    }

    /// `at_once`: the device as well, where the CPU has work meanwhile.
    fn open_needed(&mut self, setup: &Setup, at_once: bool) -> Result<(), Error> {
        let [cpu, device] = &mut self.lanes;
        if setup.policy != Policy::Adaptive
            && let Some(device) = device
        {
            let has_rest = matches!(setup.policy, Policy::Split(_)) && setup.policy.uses_cpu();
            if at_once || !has_rest {
                device.open()?;
            }
            if device.is_registered() {
                self.sources.fill()?;
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

    /// Tears contexts and buffers down and sets them up again; the device of a split when the CPU has
    /// got its work. `uses_device`: the device will get
    /// chunks for more than to see how fast it is. Returns why the device cannot be opened, if the
    /// CPU can do its work.
    pub(crate) fn reconfigure(
        &mut self,
        setup: &Setup,
        uses_device: bool,
    ) -> Result<Option<OpenError>, Error> {
        self.memory_before = self.memory_spent();
        for lane in self.lanes.iter_mut().flatten() {
            self.quarantined += lane.reconfigure() as u64;
        }
        self.buffer_source = match uses_device {
            true => BufferSource::Device,
            false => BufferSource::Cpu,
        };
        self.sources = share_memory(setup, &mut self.lanes, self.buffer_source)?;
        match self.open_needed(setup, false) {
            // As with any other failure of the device, the CPU does its work.
            Err(Error::Open(error))
                if setup.policy != Policy::Adaptive
                    && self.get(Target::Cpu).is_some()
                    && self.get(Target::Device).is_some_and(|lane| !lane.is_open()) =>
            {
                Ok(Some(error))
            }
            opened => opened.map(|()| None),
        }
    }

    /// Makes sources of the device's memory from when the device is in use.
    pub(crate) fn follow(&mut self, setup: &Setup, uses_device: bool) {
        if self.buffer_source == BufferSource::Device || !uses_device {
            return;
        }
        self.buffer_source = BufferSource::Device;
        if let Some(device) = self.get(Target::Device).filter(|lane| lane.is_registered()) {
            let sources = source_pool(setup, device);
            self.memory_before += self.sources.spent();
            self.sources = sources;
        }
    }

    pub(crate) fn get(&self, target: Target) -> Option<&Lane> {
        self.lanes[target as usize].as_ref()
    }

    pub(crate) fn get_mut(&mut self, target: Target) -> Option<&mut Lane> {
        self.lanes[target as usize].as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.lanes.iter_mut().flatten()
    }

    /// Whether the CPU can do what the device does not.
    pub(crate) fn has_fallback(&self) -> bool {
        self.get(Target::Cpu).is_some()
    }

    /// A buffer for a source.
    pub(crate) fn buffer(&self) -> Result<Buffer, Error> {
        let region = self.sources.take()?;
        Ok(Buffer::new(region, &self.sources))
    }

    /// What an adaptive scheduler goes by.
    pub(crate) fn states(&self) -> [TargetState; 2] {
        [Target::Cpu, Target::Device].map(|target| {
            self.get(target)
                .map_or_else(TargetState::default, Lane::state)
        })
    }

    /// When the device has been silent for longer than is to be expected.
    pub(crate) fn device_silent_at(&self) -> Option<Instant> {
        self.get(Target::Device).and_then(Lane::silent_at)
    }

    pub(crate) fn device_name(&self) -> &str {
        self.get(Target::Device).map_or("the device", Lane::name)
    }

    /// Gives the device's context up with what it has in flight; the destinations do not come back.
    pub(crate) fn abandon_device(&mut self) {
        if let Some(lane) = self.get_mut(Target::Device) {
            let quarantined = lane.quarantined();
            let running = lane.abandon();
            self.quarantined += (quarantined + running) as u64;
        }
    }

    pub(crate) fn close(&mut self) {
        for lane in self.lanes.iter_mut().flatten() {
            self.quarantined += lane.close() as u64;
        }
    }

    /// Time spent on making buffers.
    pub(crate) fn memory_spent(&self) -> Duration {
        let lanes = self.iter().map(Lane::memory_spent).sum::<Duration>();
        self.memory_before + self.sources.spent() + lanes
    }
}

fn make_lanes(setup: &Setup, log: &mut Log) -> Result<[Option<Lane>; 2], Error> {
    let policy = setup.policy;
    let missing = |target| Error::NoTarget { policy, target };
    let cpu = match (&setup.cpu, policy.uses_cpu()) {
        (Some(cpu), true) => Some(Lane::new(cpu, Target::Cpu, setup, false)?),
        (Some(cpu), false) => match Lane::new(cpu, Target::Cpu, setup, false) {
            Ok(lane) => Some(lane),
            Err(error) => {
                let message = format!("{error}; what the device fails at is not run again");
                log.event(0, Target::Cpu, EventKind::Unsupported, message);
                None
            }
        },
        (None, true) => return Err(missing(Target::Cpu)),
        (None, false) => None,
    };
    if !policy.uses_device() {
        return Ok([cpu, None]);
    }
    let device = (setup.device.as_ref()).ok_or_else(|| missing(Target::Device))?;
    let device = match Lane::new(device, Target::Device, setup, cpu.is_some()) {
        Ok(lane) => Some(lane),
        Err(error) if policy == Policy::Adaptive => {
            let message = format!("{error}; everything runs on the cpu");
            log.event(0, Target::Device, EventKind::Unsupported, message);
            None
        }
        Err(error) => return Err(error.into()),
    };
    Ok([cpu, device])
}

/// Has both targets take their destinations out of one pool if they can, and makes the one that
/// sources come from.
fn share_memory(
    setup: &Setup,
    lanes: &mut [Option<Lane>; 2],
    from: BufferSource,
) -> Result<Arc<Pool>, Error> {
    let [cpu, device] = lanes;
    let device = device.as_ref();
    let registered = device.filter(|device| from == BufferSource::Device && device.is_registered());
    if let (Some(cpu), Some(device)) = (cpu.as_mut(), device)
        && (from == BufferSource::Device || !device.is_registered())
    {
        cpu.share_destinations(device);
    }
    match registered.or(cpu.as_ref()).or(device) {
        Some(lane) => Ok(source_pool(setup, lane)),
        None => Err(Error::NoTarget {
            policy: setup.policy,
            target: Target::Cpu,
        }),
    }
}

/// A pool of sources, of that target's memory.
fn source_pool(setup: &Setup, lane: &Lane) -> Arc<Pool> {
    lane.pool(setup.source_bytes, setup.window() + 1)
}
