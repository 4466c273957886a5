//! Device that emulates a card from its profile: real results, completions at the profile's times.
//!
//! 1. Time passes on a virtual clock ([`Clock`]) or in real time, which is for demonstrations. In real
//!    time, a completion is *late*, and marked so, if the software was slower than the card's engine.
//! 2. The device supports the operations that its profile has for the card, and refuses others. A library
//!    computes the bytes, which [`overside_device::Applied`] names; the time is the model's.
//! 3. One link in each direction and the engines (one, unless the profile has another number) serve all
//!    contexts of the device, in order of arrival.
//! 4. A completion is never early. It is late if it is more than 2 microseconds and more than 5 % of the
//!    modelled time after its time; so is the first completion after a reconfiguration that took longer
//!    than modelled by that much.
//! 5. A term without a fact counts as zero and is listed in each capability's `missing`. Initializing a
//!    context takes time only if the profile has one. Ending one takes its time in
//!    [`overside_device::Context::reconfigure`], as part of the request, and none in `close`.

mod backend;
mod capabilities;
mod context;
mod engine;
mod replay;
mod virtual_card;

use std::sync::{Arc, Mutex};
use std::time::Instant;

use overside_device::{
    Capabilities, Clock, Context, ContextConfig, Device, DeviceId, DeviceInfo, Lifecycle,
    MemoryError, OpenError, Operation, Provenance, Region, Registration, Timing,
};
use overside_model::{Fifo, Profile, Quantity};

pub use backend::{EmulatedBackend, profile_of};

use context::EmulatedContext;
use replay::Replay;

/// Maximum number of bytes of a replaying device's stored results, over all its contexts. Other
/// results are computed each time.
const REPLAY_BYTES: usize = 1 << 30;

/// Timing mode of an emulated device: when its completions are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Released as soon as the software is done; times are meaningless.
    Functional,
    /// Computed as they come, released at the modelled time.
    Paced,
    /// Computed at the first sight of an input, delivered at the modelled time. Inputs are known
    /// by their length and their XXH3 digest of 128 bits.
    Replay,
}

impl Mode {
    /// Returns the meaning of completion times in this mode.
    pub const fn timing(self) -> Timing {
        match self {
            Self::Functional => Timing::Functional,
            Self::Paced => Timing::Paced,
            Self::Replay => Timing::Replay,
        }
    }
}

/// State shared by the contexts of one device.
struct DeviceState {
    info: DeviceInfo,
    capabilities: Capabilities,
    profile: Profile,
    mode: Mode,
    /// Marks memory as reachable; the card needs nothing else to reach it.
    registration: Registration,
    clock: Clock,
    /// Time zero of the servers.
    epoch: Instant,
    servers: Mutex<Fifo>,
    replay: Replay,
}

impl DeviceState {
    fn timed(&self) -> bool {
        self.mode != Mode::Functional
    }

    /// The typical times of a context's life that the profile knows.
    fn times(&self, operation: Operation) -> Lifecycle {
        let typical = |time: Option<&Quantity>| {
            let time = time.filter(|_| self.timed())?;
            Some(time.interval().typ.round() as u64)
        };
        Lifecycle {
            init_ns: typical(self.profile.context_init(operation)),
            end_ns: typical(self.profile.context_end(operation)),
            ..Lifecycle::default()
        }
    }
}

/// The smallest pages that memory has.
const PAGE: usize = 4096;

/// A card that a profile describes, emulated in this process.
pub struct EmulatedDevice(Arc<DeviceState>);

impl EmulatedDevice {
    /// Makes the device of a profile. It supports the profile's operations that a library here can compute.
    pub fn new(profile: Profile, mode: Mode) -> Self {
        Self::make(profile, mode, Clock::default())
    }

    /// The device of a profile on a virtual clock. Results are computed at the first sight of an
    /// input.
    pub fn on_clock(profile: Profile, clock: Clock) -> Self {
        Self::make(profile, Mode::Replay, clock)
    }

    fn make(profile: Profile, mode: Mode, clock: Clock) -> Self {
        let info = DeviceInfo {
            name: format!("emulated:{}", profile.name),
            driver: format!("emulated {}", env!("CARGO_PKG_VERSION")),
            location: "this host".into(),
            description: format!("{}, {}, {}", profile.card, profile.host_link, profile.mode),
            provenance: Provenance::Emulated,
            timing: match clock.is_virtual() {
                true => Timing::Virtual,
                false => mode.timing(),
            },
        };
        let servers = Mutex::new(Fifo::new(profile.engines()));
        Self(Arc::new(DeviceState {
            info,
            capabilities: capabilities::of(&profile, mode),
            profile,
            mode,
            registration: Registration { device: DeviceId::unique(), handle: Arc::new(()) },
            epoch: clock.now(),
            clock,
            servers,
            replay: Replay::new(REPLAY_BYTES),
        }))
    }
}

impl Device for EmulatedDevice {
    fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError> {
        let mut region = Region::allocate(len, align, self.registration())?;
        // Memory that a card accesses is resident: its pages are allocated here, at the caller's expense.
        for page in region.chunks_mut(PAGE) {
            page[0] = 0;
        }
        Ok(region)
    }

    fn registration(&self) -> Option<Registration> {
        Some(self.0.registration.clone())
    }

    fn context_bytes(&self, config: &ContextConfig) -> u64 {
        overside_ops::memory_bytes(&config.operation, config.max_source_bytes, 1)
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        let state = Arc::clone(&self.0);
        match state.clock.is_virtual() {
            true => virtual_card::open(state, &config),
            false => Ok(Box::new(EmulatedContext::open(state, config)?)),
        }
    }
}
