//! All targets of a stream, the memory that they share, and a circuit breaker for each device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::OpenError;

use crate::adaptive::{TargetState, TargetStates};
use crate::circuit_breaker::CircuitBreaker;
use crate::lane::Lane;
use crate::memory::{Buffer, Pool};
use crate::policy::TARGETS_MAX;
use crate::report::{EventKind, Log};
use crate::{Error, Policy, Setup, Target};

/// Target whose memory the buffers for sources are made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BufferSource {
    /// Memory of a device that requires its own and will get chunks.
    Device,
    /// Memory of the CPU's target. Chunks that a device gets only to measure it are copied.
    Cpu,
}

/// A target: its lane, unless it is not there or cannot do the operation, and whether it is used.
struct Place {
    lane: Option<Lane>,
    /// The CPU's stays closed.
    breaker: CircuitBreaker,
}

/// The lanes of all targets.
pub(crate) struct Lanes {
    /// Targets with their lanes.
    places: Vec<Place>,
    sources: Arc<Pool>,
    buffer_source: BufferSource,
    /// Destinations given up with their contexts, by target.
    quarantined: Vec<u64>,
    /// Time spent on buffers that are gone.
    memory_before: Duration,
}

impl Lanes {
    /// All targets, as far as the policy has them and the devices can. Opens those that will be
    /// needed for certain, and makes the memory that is dear to make.
    pub(crate) fn open(setup: &Setup, log: &mut Log) -> Result<Self, Error> {
        let lanes = make_lanes(setup, log)?;
        let mut places: Vec<Place> = (lanes.into_iter())
            .map(|lane| {
                let mut breaker = CircuitBreaker::new(setup.retry);
                if lane.is_none() {
                    breaker.give_up();
                }
                Place { lane, breaker }
            })
            .collect();
        let sources = share_memory(setup, &mut places, BufferSource::Device)?;
        let mut all = Self {
            quarantined: vec![0; places.len()],
            places,
            sources,
            buffer_source: BufferSource::Device,
            memory_before: Duration::ZERO,
        };
        all.open_needed(setup, true)?;
        Ok(all)
    }

    /// `at_once`: the devices as well, where the CPU has work meanwhile.
    fn open_needed(&mut self, setup: &Setup, at_once: bool) -> Result<(), Error> {
        if setup.policy != Policy::Adaptive {
            let has_rest = matches!(setup.policy, Policy::Split(_)) && setup.policy.uses_cpu();
            let mut is_registered = false;
            for device in self.places[1..].iter_mut().flat_map(|place| &mut place.lane) {
                if at_once || !has_rest {
                    device.open()?;
                }
                if device.is_registered() {
                    device.destinations.fill()?;
                    is_registered = true;
                }
            }
            if is_registered {
                self.sources.fill()?;
            }
        }
        if setup.policy.uses_cpu()
            && let Some(cpu) = &mut self.places[0].lane
        {
            cpu.open()?;
        }
        Ok(())
    }

    /// Tears contexts and buffers down and sets them up again; the devices of a split when the CPU has
    /// got its work. `uses_device`: devices will get chunks for more than to see how fast they are.
    /// Returns why a device cannot be opened, if the CPU can do its work.
    pub(crate) fn reconfigure(
        &mut self,
        setup: &Setup,
        uses_device: bool,
    ) -> Result<Option<(Target, OpenError)>, Error> {
        self.memory_before = self.memory_spent();
        for (place, quarantined) in self.places.iter_mut().zip(&mut self.quarantined) {
            if let Some(lane) = &mut place.lane {
                *quarantined += lane.reconfigure() as u64;
            }
        }
        self.buffer_source = match uses_device {
            true => BufferSource::Device,
            false => BufferSource::Cpu,
        };
        self.sources = share_memory(setup, &mut self.places, self.buffer_source)?;
        match self.open_needed(setup, false) {
            // As with any other failure of a device, the CPU does its work.
            Err(Error::Open(error)) if setup.policy != Policy::Adaptive && self.has_fallback() => {
                let is_closed =
                    |target: &Target| self.get(*target).is_some_and(|lane| !lane.is_open());
                match self.devices().find(is_closed) {
                    Some(device) => Ok(Some((device, error))),
                    None => Err(Error::Open(error)),
                }
            }
            opened => opened.map(|()| None),
        }
    }

    /// Makes sources of a device's memory from when devices are in use.
    pub(crate) fn follow(&mut self, setup: &Setup, uses_device: bool) {
        if self.buffer_source == BufferSource::Device || !uses_device {
            return;
        }
        self.buffer_source = BufferSource::Device;
        if let Some(device) = self.registered() {
            let sources = source_pool(setup, device);
            self.memory_before += self.sources.spent();
            self.sources = sources;
        }
    }

    /// The first device that takes only its own memory.
    pub(crate) fn registered(&self) -> Option<&Lane> {
        registered(&self.places)
    }

    /// The targets that are devices.
    pub(crate) fn devices(&self) -> impl Iterator<Item = Target> + use<> {
        (0..self.places.len() - 1).map(Target::Device)
    }

    /// Returns the circuit breaker of a target, which decides if the target is used.
    pub(crate) fn breaker(&self, target: Target) -> &CircuitBreaker {
        &self.places[target.index()].breaker
    }

    pub(crate) fn breaker_mut(&mut self, target: Target) -> &mut CircuitBreaker {
        &mut self.places[target.index()].breaker
    }

    pub(crate) fn get(&self, target: Target) -> Option<&Lane> {
        self.places[target.index()].lane.as_ref()
    }

    pub(crate) fn get_mut(&mut self, target: Target) -> Option<&mut Lane> {
        self.places[target.index()].lane.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lane> {
        self.places.iter().flat_map(|place| &place.lane)
    }

    /// The lanes of the targets from a place on.
    pub(crate) fn iter_from(&self, place: usize) -> impl Iterator<Item = &Lane> {
        self.places[place..].iter().flat_map(|place| &place.lane)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.places.iter_mut().flat_map(|place| &mut place.lane)
    }

    /// Returns `true` if there is a CPU lane for the jobs that a device fails at.
    pub(crate) fn has_fallback(&self) -> bool {
        self.get(Target::Cpu).is_some()
    }

    /// Returns the pool that the buffers for sources come from.
    pub(crate) fn sources(&self) -> Arc<Pool> {
        Arc::clone(&self.sources)
    }

    /// A buffer for a source.
    pub(crate) fn buffer(&self) -> Result<Buffer, Error> {
        let region = self.sources.take()?;
        Ok(Buffer::new(region, &self.sources))
    }

    /// Returns the states of all targets, which the adaptive scheduler decides by.
    pub(crate) fn states(&self) -> TargetStates {
        let mut states = [TargetState::NONE; TARGETS_MAX];
        for (index, (state, place)) in states.iter_mut().zip(&self.places).enumerate() {
            if let Some(lane) = &place.lane {
                let is_silent = self.is_silent(Target::at(index));
                *state = lane.state(is_silent, place.breaker.is_open());
            }
        }
        states
    }

    /// Returns `true` if a device has been silent for longer than expected. Always `false` for the
    /// CPU.
    pub(crate) fn is_silent(&self, target: Target) -> bool {
        let is_silent = |lane: &Lane| lane.silent_at().is_some_and(|at| lane.polled >= at);
        target.is_device() && self.get(target).is_some_and(is_silent)
    }

    /// Returns the first time after `now` at which a device will count as silent, if none of its
    /// jobs completes before.
    pub(crate) fn next_silent_at(&self, now: Instant) -> Option<Instant> {
        let devices = self.iter_from(1).filter_map(Lane::silent_at);
        devices.filter(|at| *at > now).min()
    }

    pub(crate) fn name(&self, target: Target) -> &str {
        self.get(target).map_or("the device", Lane::name)
    }

    /// Abandons a device's context with its jobs in flight; the destinations do not come back.
    pub(crate) fn abandon(&mut self, device: Target) {
        if let Some(lane) = self.get_mut(device) {
            let quarantined = lane.quarantined();
            let running = lane.abandon();
            self.quarantined[device.index()] += (quarantined + running) as u64;
        }
    }

    pub(crate) fn close(&mut self) {
        for (place, quarantined) in self.places.iter_mut().zip(&mut self.quarantined) {
            if let Some(lane) = &mut place.lane {
                *quarantined += lane.close() as u64;
            }
        }
    }

    /// Destinations that a target's contexts were given up with.
    pub(crate) fn quarantined_of(&self, target: Target) -> u64 {
        self.quarantined[target.index()]
    }

    /// Destinations that are not used again, of all targets.
    pub(crate) fn quarantined(&self) -> u64 {
        let held = self.iter().map(|lane| lane.quarantined() as u64);
        self.quarantined.iter().sum::<u64>() + held.sum::<u64>()
    }

    /// Time spent on making buffers.
    pub(crate) fn memory_spent(&self) -> Duration {
        let lanes = self.iter().map(Lane::memory_spent).sum::<Duration>();
        self.memory_before + self.sources.spent() + lanes
    }
}

fn make_lanes(setup: &Setup, log: &mut Log) -> Result<Vec<Option<Lane>>, Error> {
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
    let is_lenient = cpu.is_some();
    let mut lanes = vec![cpu];
    if !policy.uses_device() {
        return Ok(lanes);
    }
    if setup.devices.is_empty() {
        return Err(missing(Target::Device(0)));
    }
    for (index, device) in setup.devices.iter().enumerate() {
        let target = Target::Device(index);
        if !policy.uses(target) {
            lanes.push(None);
            continue;
        }
        lanes.push(match Lane::new(&device.device, target, setup, is_lenient) {
            Ok(lane) => Some(lane),
            Err(error) if policy == Policy::Adaptive => {
                let message = format!("{error}; everything runs on the cpu");
                log.event(0, target, EventKind::Unsupported, message);
                None
            }
            Err(error) => return Err(error.into()),
        });
    }
    Ok(lanes)
}

fn registered(places: &[Place]) -> Option<&Lane> {
    let mut devices = places[1..].iter().flat_map(|place| &place.lane);
    devices.find(|lane| lane.is_registered())
}

/// Makes the CPU take its destinations from a device's pool if possible, and makes the pool for sources.
fn share_memory(
    setup: &Setup,
    places: &mut [Place],
    from: BufferSource,
) -> Result<Arc<Pool>, Error> {
    let (cpu, devices) = places.split_at_mut(1);
    let mut devices = devices.iter().flat_map(|place| &place.lane);
    let first = devices.next();
    if let (Some(cpu), Some(device)) = (cpu[0].lane.as_mut(), first)
        && (from == BufferSource::Device || !device.is_registered())
    {
        cpu.share_destinations(device);
    }
    let registered = registered(places).filter(|_| from == BufferSource::Device);
    let mut all = places.iter().flat_map(|place| &place.lane);
    match registered.or_else(|| all.next()) {
        Some(lane) => Ok(source_pool(setup, lane)),
        None => Err(Error::NoTarget { policy: setup.policy, target: Target::Cpu }),
    }
}

/// A pool of sources, of that target's memory.
fn source_pool(setup: &Setup, lane: &Lane) -> Arc<Pool> {
    lane.pool(setup.source_bytes, setup.window() + 1)
}
