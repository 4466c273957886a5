//! The backend of emulated cards: a device for each profile that has an engine.

use std::sync::Arc;

use overside_config::Error;
use overside_device::backend::{Backend, Described, OpenError, Options};
use overside_device::{Device, Timing};
use overside_model::{Processor, Profile, profiles};

use crate::{EmulatedDevice, Mode};

/// Profiles as devices.
pub struct EmulatedBackend;

/// Prefix of the names of emulated devices; the profile's name follows.
const PREFIX: &str = "emulated:";

/// End of the names of devices that are one of a card's cores: `emulated:bf2-cores:1`.
const ONE_CORE: &str = ":1";

/// Returns the profile in the name of an emulated device; `None` for other devices.
pub fn profile_of(name: &str) -> Option<&str> {
    let name = name.strip_prefix(PREFIX)?;
    Some(name.strip_suffix(ONE_CORE).unwrap_or(name))
}

/// The emulated device of a profile.
fn device_of(profile: &str) -> String {
    format!("{PREFIX}{profile}")
}

/// The profile of a device. If that is one core of a card, its name ends so, and it has no other cores.
fn profile(name: &str) -> Result<Option<Profile>, Error> {
    let mut all = profiles()?.into_iter();
    let found = all.find(|profile| profile_of(name) == Some(&profile.name));
    if !name.ends_with(ONE_CORE) {
        return Ok(found);
    }
    let found = found.filter(|profile| profile.processor == Processor::Cores);
    Ok(found.map(|mut profile| {
        profile.name += ONE_CORE;
        profile.mode = format!("one of the card's cores; {}", profile.mode);
        if let Some(engines) = &mut profile.device.engines {
            (engines.value, engines.low, engines.high) = (Some(1.0), None, None);
        }
        profile
    }))
}

/// The devices of the profiles that can be emulated.
fn names() -> Result<Vec<String>, Error> {
    let can_be = |profile: &Profile| profile.why_not_emulated().is_none();
    let devices = |profile: Profile| {
        let all = device_of(&profile.name);
        let one = (profile.processor == Processor::Cores).then(|| format!("{all}{ONE_CORE}"));
        std::iter::once(all).chain(one)
    };
    Ok(profiles()?.into_iter().filter(can_be).flat_map(devices).collect())
}

impl Backend for EmulatedBackend {
    fn prefix(&self) -> &'static str {
        "emulated"
    }

    fn list(&self) -> Vec<Described> {
        match names() {
            Ok(names) => (names.iter()).map(|name| Described::by_opening(self, name)).collect(),
            Err(error) => vec![Described::unavailable(&self.wildcard(), error.to_string())],
        }
    }

    fn offered(&self) -> Vec<Described> {
        Vec::new()
    }

    fn known_names(&self) -> Vec<String> {
        names().unwrap_or_default()
    }

    fn open(&self, name: &str, options: &Options) -> Result<Arc<dyn Device>, OpenError> {
        let found = profile(name).map_err(|error| OpenError::unavailable(name, error))?;
        let profile = found.ok_or_else(|| OpenError::unknown(name, self.known_names()))?;
        match profile.why_not_emulated() {
            Some(reason) => Err(OpenError::unavailable(name, reason)),
            None if options.clock.is_virtual() => {
                Ok(Arc::new(EmulatedDevice::on_clock(profile, options.clock.clone())))
            }
            None if options.timing == Some(Timing::Virtual) => {
                let reason = "virtual timing needs a virtual clock, and whoever opens it has none";
                Err(OpenError::unavailable(name, reason))
            }
            None => Ok(Arc::new(EmulatedDevice::new(profile, mode(options.timing)))),
        }
    }

    fn misnamed(&self, name: &str) -> Option<OpenError> {
        let profiles = match profiles() {
            Ok(profiles) => profiles,
            Err(error) => return Some(OpenError::unavailable(name, error)),
        };
        let profile = profiles.into_iter().find(|profile| profile.name == name)?;
        Some(match profile.why_not_emulated() {
            Some(reason) => OpenError::unavailable(name, reason),
            None => OpenError::BareCard { name: name.into(), suggestion: device_of(name) },
        })
    }

    fn relevant(&self, options: &Options) -> Options {
        let clock = options.clock.clone();
        let timing = match clock.is_virtual() {
            true => Timing::Virtual,
            false => mode(options.timing).timing(),
        };
        Options { timing: Some(timing), clock, ..Options::default() }
    }
}

fn mode(timing: Option<Timing>) -> Mode {
    match timing {
        Some(Timing::Paced) => Mode::Paced,
        Some(Timing::Functional) => Mode::Functional,
        // An emulated device has no clock of its own.
        None | Some(Timing::Replay | Timing::Real | Timing::Virtual) => Mode::Replay,
    }
}
