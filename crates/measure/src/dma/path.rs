//! What the bytes go over, by its name: a link between the two sides, or a device that copies.

use std::sync::Arc;
use std::time::Instant;

use overside_backends::{OpenError, Options};
use overside_device::{Applied, Device, Provenance, Timing};
use overside_link::shm::{self, EngineOptions, ShmOptions};
use overside_link::tcp;
use overside_link::ucx::{self, UcxOptions};
use overside_link::verbs::{ConnectError, Endpoint, LinkConfig, LinkInfo, Side};

use super::shape::{self, Emulated};
use crate::kinds::{DmaOperation, DmaTest};
use crate::measuring::NoSample;
use crate::sample::{Failure, Kind};
use crate::test::Reaping;

/// Links that are not a backend's devices.
pub(crate) const LINKS: [&str; 3] = ["shm", "tcp", "ucx"];

/// Both ends of a link, in this process.
pub(crate) struct Ends {
    pub initiator: Arc<dyn Endpoint>,
    pub peer: Arc<dyn Endpoint>,
    /// The profile by whose times completions are released.
    pub emulated: Option<Box<Emulated>>,
}

/// What a test's bytes go over.
pub(crate) enum Path {
    /// A link.
    Link(Ends),
    /// A device that copies within this machine's memory.
    Device(Arc<dyn Device>),
}

impl Path {
    /// Opens what the test asks for.
    pub(crate) fn open(test: &DmaTest, deadline: Instant) -> Result<Self, NoSample> {
        let name = test.device.as_str();
        if test.variant != "auto" && name != "shm" {
            let message = format!(
                "{name} has no variants to choose from, so none is {:?}",
                test.variant
            );
            return Err(NoSample::Skipped(message));
        }
        if name == "tcp" {
            let ends = tcp::pair(&config(test, Side::Host), &config(test, Side::Dpu));
            let (host, dpu) = ends.map_err(cannot_connect)?;
            return Ok(Self::Link(ends_of(
                test,
                Arc::new(host),
                Arc::new(dpu),
                None,
            )));
        }
        if name == "ucx" {
            let configs = [config(test, Side::Host), config(test, Side::Dpu)];
            let ends = ucx::pair(&configs[0], &configs[1], &UcxOptions::default());
            let (host, dpu) = ends.map_err(cannot_connect)?;
            return Ok(Self::Link(ends_of(
                test,
                Arc::new(host),
                Arc::new(dpu),
                None,
            )));
        }
        if name == "shm" {
            let engine = (test.variant != "caller").then_some(EngineOptions {
                core: test.engine_core,
                shape: None,
            });
            return shared_memory(test, engine, None, deadline);
        }
        if let Some(profile) = overside_backends::profile_of(name) {
            let emulated = shape::of(profile, test)?;
            let engine = EngineOptions {
                core: test.engine_core,
                shape: Some(emulated.shape.clone()),
            };
            return shared_memory(test, Some(engine), Some(Box::new(emulated)), deadline);
        }
        let device = overside_backends::open(name, &Options::default());
        let device = device.map_err(|error| match error {
            OpenError::Unavailable { .. } => NoSample::Skipped(error.to_string()),
            _ => Failure::new(Kind::Job, error.to_string()).into(),
        })?;
        copies(test, &*device)?;
        Ok(Self::Device(device))
    }
}

/// Whether a device can stand for both sides.
fn copies(test: &DmaTest, device: &dyn Device) -> Result<(), NoSample> {
    let name = &device.info().name;
    let skip = |reason: String| Err(NoSample::Skipped(reason));
    let Some(capability) = device.capabilities().get(overside_device::Operation::Copy) else {
        return skip(format!("{name} cannot copy"));
    };
    if test.operation == DmaOperation::Send {
        return skip(format!("{name} copies; it has nobody to send to"));
    }
    if test.inline {
        return skip(format!("{name} takes no payload with the operation"));
    }
    if test.completion == Reaping::Event && !capability.event {
        return skip(format!(
            "{name} signals no completions; use completion=poll"
        ));
    }
    Ok(())
}

fn shared_memory(
    test: &DmaTest,
    engine: Option<EngineOptions>,
    emulated: Option<Box<Emulated>>,
    deadline: Instant,
) -> Result<Path, NoSample> {
    let configs = [config(test, Side::Host), config(test, Side::Dpu)];
    // Only the end that initiates has an engine: nobody else asks for anything.
    let mut options = [ShmOptions::default(), ShmOptions::default()];
    options[initiator(test)].engine = engine;
    let [host, dpu] = shm::pair(
        [&configs[0], &configs[1]],
        [&options[0], &options[1]],
        deadline,
    )
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
    Ends {
        initiator,
        peer,
        emulated,
    }
}

fn config(test: &DmaTest, side: Side) -> LinkConfig {
    LinkConfig {
        queue_pairs: test.threads,
        depth: test.depth,
        max_message_bytes: match test.operation {
            DmaOperation::Send => (test.buffer_size as usize).max(super::ANSWER_BYTES),
            DmaOperation::Read | DmaOperation::Write => super::ANSWER_BYTES,
        },
        event: test.completion == Reaping::Event,
        ..LinkConfig::new(side)
    }
}

/// A link that cannot be as the test wants it is one that cannot do this.
fn cannot_connect(error: ConnectError) -> NoSample {
    match error {
        error @ (ConnectError::Config(_) | ConnectError::Unavailable { .. }) => {
            NoSample::Skipped(error.to_string())
        }
        other => Failure::from(other).into(),
    }
}

impl Ends {
    /// Whether the link does the operation.
    pub(crate) fn can(&self, test: &DmaTest) -> Result<(), NoSample> {
        let name = &test.device;
        let capabilities = self.initiator.capabilities();
        let limits = match test.operation {
            DmaOperation::Read => &capabilities.read,
            DmaOperation::Write => &capabilities.write,
            DmaOperation::Send => &capabilities.send,
        };
        let skip = |reason: String| Err(NoSample::Skipped(reason));
        let operation = test.operation.name();
        let Some(limits) = limits else {
            return skip(format!("{name} cannot {operation}"));
        };
        if test.buffer_size > limits.max_bytes {
            let max = limits.max_bytes;
            return skip(format!(
                "{name} takes at most {max} bytes for one {operation}"
            ));
        }
        let inline = capabilities.max_inline_bytes;
        if test.inline && test.buffer_size > inline {
            return skip(format!(
                "{name} takes payloads of at most {inline} bytes inline"
            ));
        }
        if test.depth > capabilities.max_depth {
            let max = capabilities.max_depth;
            return skip(format!("{name} takes at most {max} operations in flight"));
        }
        if test.completion == Reaping::Event && !capabilities.event {
            return skip(format!(
                "{name} signals no completions; use completion=poll"
            ));
        }
        Ok(())
    }

    /// What a sample says that it is.
    pub(crate) fn info(&self) -> (Provenance, Timing) {
        let LinkInfo {
            provenance, timing, ..
        } = self.initiator.info();
        (*provenance, *timing)
    }

    /// What ran, under the name of what it stands for.
    pub(crate) fn filed(&self, test: &DmaTest, applied: Applied) -> Applied {
        match &self.emulated {
            None => Applied {
                device: test.device.clone(),
                ..applied
            },
            Some(emulated) => Applied {
                device: test.device.clone(),
                library: format!("{}, paced by profile {}", applied.library, emulated.profile),
                ..applied
            },
        }
    }
}
