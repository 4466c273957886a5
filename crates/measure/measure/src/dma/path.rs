//! Paths for the bytes of a test, selected by name: a link between the two sides, or a device that
//! copies.

use std::sync::Arc;
use std::time::Instant;

use overside_backends::{OpenError, Options};
use overside_device::{Device, Timing};
use overside_link::shm::{self, EngineOptions, ShmOptions};
use overside_link::ucx::{self, UcxOptions};
use overside_link::verbs::{ConnectError, Endpoint, Side};
use overside_probe::dma::Link;

use super::parameters::{DmaCompletion, DmaOperation, DmaTest};
use super::shape::{self, Emulated};
use crate::evidence::Evidence;
use overside_probe::{Failure, FailureKind};

/// An end of a link in place of another.
pub(crate) type EndpointWrapper<'a> = &'a dyn Fn(Arc<dyn Endpoint>) -> Arc<dyn Endpoint>;

/// Both ends of a link, in this process.
pub(crate) struct Ends {
    pub initiator: Arc<dyn Endpoint>,
    pub peer: Arc<dyn Endpoint>,
    /// The profile by whose times completions are released.
    pub emulated: Option<Box<Emulated>>,
}

/// Path that a test's bytes take.
pub(crate) enum Path {
    /// A link.
    Link(Ends),
    /// A link, with an agent at its other end: the agent's name.
    Agent(String, Link),
    /// A device that copies within this machine's memory.
    Device(Arc<dyn Device>),
    /// A card's engine in virtual time.
    Virtual(Box<Emulated>),
}

/// The agent's name and the link, if a device's name is of an agent's link.
pub(crate) fn of_agent(name: &str) -> Option<(&str, Link)> {
    let (node, link) = name.split_once('/')?;
    Some((node, Link::named(link)?))
}

/// Returns `true` if the bytes go over a link and not through a device that copies.
pub(crate) fn over_link(test: &DmaTest) -> bool {
    let name = test.device.as_str();
    let linked = of_agent(name).is_some() || Link::named(name).is_some();
    linked || test.timing == Some(Timing::Paced)
}

impl Path {
    /// Opens the path of the test.
    pub(crate) fn open(test: &DmaTest, deadline: Instant) -> Result<Self, Failure> {
        let name = test.device.as_str();
        let agent = of_agent(name);
        let link = agent.map(|(_, link)| link).or_else(|| Link::named(name));
        let fits = match link {
            Some(Link::Shm) => ["engine", "caller"].contains(&test.variant.as_str()),
            Some(Link::Ucx) => test.transport().is_some(),
            None => false,
        };
        if test.variant != "auto" && !fits {
            let message = format!("{name} has no variant {:?}", test.variant);
            return Err(Failure::unsupported(message));
        }
        if let Some((node, link)) = agent {
            return Ok(Self::Agent(node.to_owned(), link));
        }
        let configs = [Side::Host, Side::Dpu].map(|side| test.plan().link_config(side));
        match link {
            Some(Link::Ucx) => {
                let ends = ucx::pair(&configs[0], &configs[1], &UcxOptions::over(test.transport()));
                let (host, dpu) = ends.map_err(cannot_connect)?;
                return Ok(Self::Link(ends_of(test, Arc::new(host), Arc::new(dpu), None)));
            }
            Some(Link::Shm) => {
                let engine = (test.variant != "caller")
                    .then_some(EngineOptions { core: test.engine_core, shape: None });
                return shared_memory(test, engine, None, deadline);
            }
            None => {}
        }
        if let Some(profile) = overside_backends::profile_of(name) {
            let emulated = shape::of(profile, test)?;
            if test.timing != Some(Timing::Paced) {
                return Ok(Self::Virtual(Box::new(emulated)));
            }
            let engine =
                EngineOptions { core: test.engine_core, shape: Some(emulated.shape.clone()) };
            return shared_memory(test, Some(engine), Some(Box::new(emulated)), deadline);
        }
        let device = overside_backends::open(name, &Options::default());
        let device = device.map_err(|error| match error {
            OpenError::Unavailable { .. } => Failure::unsupported(error.to_string()),
            _ => Failure::new(FailureKind::Job, error.to_string()),
        })?;
        copies(test, &*device)?;
        Ok(Self::Device(device))
    }
}

/// Checks that a device can run the test for both sides: that it can copy, and supports the test's
/// operation, payload and completion mode.
fn copies(test: &DmaTest, device: &dyn Device) -> Result<(), Failure> {
    let name = &device.info().name;
    let skip = |reason: String| Err(Failure::unsupported(reason));
    let Some(capability) = device.capabilities().get(overside_device::Operation::Copy) else {
        return skip(format!("{name} cannot copy"));
    };
    if test.operation == DmaOperation::Send {
        return skip(format!("{name} copies; it has nobody to send to"));
    }
    if test.inline {
        return skip(format!("{name} takes no payload with the operation"));
    }
    if test.completion == DmaCompletion::Event && !capability.event {
        return skip(format!("{name} signals no completions; use completion=poll"));
    }
    Ok(())
}

fn shared_memory(
    test: &DmaTest,
    engine: Option<EngineOptions>,
    emulated: Option<Box<Emulated>>,
    deadline: Instant,
) -> Result<Path, Failure> {
    let configs = [Side::Host, Side::Dpu].map(|side| test.plan().link_config(side));
    // Only the initiator's end needs an engine: the other end posts nothing.
    let mut options = [ShmOptions::default(), ShmOptions::default()];
    options[initiator(test)].engine = engine;
    let [host, dpu] = shm::pair([&configs[0], &configs[1]], [&options[0], &options[1]], deadline)
        .map_err(cannot_connect)?;
    let ends = ends_of(test, Arc::new(host), Arc::new(dpu), emulated);
    Ok(Path::Link(ends))
}

/// The place of the initiator in (host, DPU).
fn initiator(test: &DmaTest) -> usize {
    match test.initiator {
        Side::Host => 0,
        Side::Dpu => 1,
    }
}

fn ends_of(
    test: &DmaTest,
    host: Arc<dyn Endpoint>,
    dpu: Arc<dyn Endpoint>,
    emulated: Option<Box<Emulated>>,
) -> Ends {
    let (initiator, peer) = match test.initiator {
        Side::Host => (host, dpu),
        Side::Dpu => (dpu, host),
    };
    Ends { initiator, peer, emulated }
}

fn cannot_connect(error: ConnectError) -> Failure {
    error.into()
}

impl Ends {
    /// Wraps both ends with `through`.
    pub(crate) fn through(self, through: EndpointWrapper<'_>) -> Self {
        Self {
            initiator: through(self.initiator),
            peer: through(self.peer),
            emulated: self.emulated,
        }
    }

    /// Returns the evidence for figures in which both ends took part.
    pub(crate) fn evidence(&self) -> Evidence {
        Evidence::of_link(self.initiator.info()).and(Evidence::of_link(self.peer.info()))
    }
}
