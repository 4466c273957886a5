//! Messages that are sent once per context.

use overside_device::{
    Applied, Capability, ContextConfig, DeviceInfo, Lifecycle, OpenError, Operation,
    OperationConfig, Provenance,
};
use overside_ops::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::{MAX_BUFFER_BYTES, MAX_CONTROL_BYTES, MAX_DEPTH, MAX_TEXT_BYTES};
use crate::codec::{self, CodecError, Message, at_most, clean};

/// The longest name of a device or a library in bytes.
const MAX_NAME_BYTES: usize = 256;
/// Maximum number of devices that an agent offers.
const MAX_DEVICES: usize = 256;
/// Maximum number of patterns of an operation, and their greatest length.
const MAX_PATTERNS: usize = 1000;
const MAX_PATTERN_BYTES: usize = 1000;

/// Request from the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Opens a context on a device. The connection has none yet.
    Open {
        /// Name of the device on the agent.
        #[serde(deserialize_with = "codec::text::<_, MAX_NAME_BYTES>")]
        device: String,
        /// Operation and limits that the context is set up for.
        setup: Setup,
    },
    /// Set the context up for something else, when all its jobs are done.
    Reconfigure(Setup),
    /// Close the context, when all its jobs are done.
    Close,
    /// No more jobs will come: the answer to [`Reply::Drain`].
    Leave,
    /// Play one end of a test. There is neither a context nor another probe; [`Request::Close`] ends
    /// it.
    Probe {
        /// Kind of the test.
        #[serde(deserialize_with = "codec::text::<_, MAX_NAME_BYTES>")]
        kind: String,
    },
}

/// Operation and limits that a context is set up for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The operation.
    pub operation: Operation,
    /// Library that runs the operation, or `auto`.
    #[serde(deserialize_with = "codec::text::<_, MAX_NAME_BYTES>")]
    pub variant: String,
    /// Compression level; `None` for the library's default.
    pub level: Option<u32>,
    /// Patterns of a matching operation.
    #[serde(deserialize_with = "patterns")]
    pub patterns: Vec<String>,
    /// Maximum number of jobs in flight.
    pub depth: u64,
    /// The longest source in bytes.
    pub max_source_bytes: u64,
    /// The longest destination in bytes.
    pub max_destination_bytes: u64,
}

fn patterns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Pattern(#[serde(deserialize_with = "codec::text::<_, MAX_PATTERN_BYTES>")] String);

    let all = codec::list::<_, Pattern, MAX_PATTERNS>(deserializer)?;
    Ok(all.into_iter().map(|Pattern(text)| text).collect())
}

impl From<&ContextConfig> for Setup {
    fn from(config: &ContextConfig) -> Self {
        let operation = &config.operation;
        Self {
            operation: operation.operation,
            variant: operation.variant.clone(),
            level: operation.level,
            patterns: operation.patterns.clone(),
            depth: config.depth as u64,
            max_source_bytes: config.max_source_bytes,
            max_destination_bytes: config.max_destination_bytes,
        }
    }
}

impl Setup {
    /// Converts the setup to the configuration that a device is opened with.
    ///
    /// # Errors
    /// [`CodecError::Field`] if a value is larger than the wire format allows.
    pub fn config(self) -> Result<ContextConfig, CodecError> {
        at_most("a context's depth", self.depth, MAX_DEPTH as u64)?;
        at_most("its longest source", self.max_source_bytes, MAX_BUFFER_BYTES as u64)?;
        let longest = self.max_destination_bytes;
        at_most("its longest destination", longest, MAX_BUFFER_BYTES as u64)?;
        Ok(ContextConfig {
            operation: OperationConfig {
                operation: self.operation,
                variant: self.variant,
                level: self.level,
                patterns: self.patterns,
            },
            depth: self.depth as usize,
            max_source_bytes: self.max_source_bytes,
            max_destination_bytes: self.max_destination_bytes,
        })
    }
}

/// Reply from the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// First message to a client: identity of the agent, and its devices.
    Welcome(Welcome),
    /// First message instead, if the agent takes no client, with the reason.
    Busy(String),
    /// The context is open, or set up again.
    Opened(Opened),
    /// The context or probe was refused; a context that was to be set up again keeps its configuration.
    Refused(OpeningError),
    /// Record of the library and device that run the jobs whose answers follow.
    Applied(Applied),
    /// The context is closed.
    Closed(Lifecycle),
    /// The device is lost. No further message follows.
    Lost(String),
    /// The agent is going to end: its jobs will be done, no new ones taken.
    Drain,
    /// The agent plays one end of a test.
    Probing,
}

/// Release and devices of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// The release it is of.
    pub release: String,
    /// Devices that the agent offers.
    #[serde(deserialize_with = "codec::list::<_, _, MAX_DEVICES>")]
    pub devices: Vec<Offer>,
}

/// A device that an agent offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Description of the device, as the agent's machine sees it.
    pub info: DeviceInfo,
    /// Operations that the device supports, with the limits of each.
    pub capabilities: Vec<Capability>,
}

/// An open context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opened {
    /// Times of the context on the agent.
    pub lifecycle: Lifecycle,
}

/// Reason why a context cannot be opened, in a form that can be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpeningError {
    /// The device does not do this operation.
    Unsupported,
    /// More than the device's limit.
    Limit {
        /// Depth, source bytes or destination bytes.
        what: String,
        /// The most it takes.
        limit: u64,
        /// Requested value.
        asked: u64,
    },
    /// No library of that name.
    UnknownVariant(String),
    /// The library has no such level.
    Level {
        /// The library.
        variant: String,
        /// Lowest level of the library.
        min: u32,
        /// Highest level of the library.
        max: u32,
    },
    /// The library has no levels.
    NoLevels(String),
    /// A pattern that does not compile.
    Pattern {
        /// The pattern.
        pattern: String,
        /// Error message of the matching engine.
        reason: String,
    },
    /// The operation has no pattern.
    NoPattern,
    /// Any other error.
    Failed(String),
}

/// A device's error as it is sent.
pub fn plain_error(error: &OpenError) -> OpeningError {
    match error {
        OpenError::Unsupported { .. } => OpeningError::Unsupported,
        OpenError::Limit { what, limit, asked, .. } => {
            OpeningError::Limit { what: (*what).into(), limit: *limit, asked: *asked }
        }
        OpenError::Operation(Error::UnknownVariant { known, .. }) => {
            OpeningError::UnknownVariant(known.clone())
        }
        OpenError::Operation(Error::Level { variant, min, max, .. }) => {
            OpeningError::Level { variant: (*variant).into(), min: *min, max: *max }
        }
        OpenError::Operation(Error::NoLevels { variant }) => {
            OpeningError::NoLevels((*variant).into())
        }
        OpenError::Operation(Error::Pattern { pattern, reason }) => OpeningError::Pattern {
            pattern: clean(pattern, MAX_PATTERN_BYTES),
            reason: clean(reason, MAX_TEXT_BYTES),
        },
        OpenError::Operation(Error::NoPattern) => OpeningError::NoPattern,
        OpenError::Failed { reason, .. } => OpeningError::Failed(clean(reason, MAX_TEXT_BYTES)),
        other => OpeningError::Failed(clean(&other.to_string(), MAX_TEXT_BYTES)),
    }
}

/// The error that the host's device gives for one that was sent.
pub fn typed_error(device: &str, asked: &ContextConfig, error: OpeningError) -> OpenError {
    let operation = asked.operation.operation;
    // Errors name libraries by words of this program's own; a library that this machine does not
    // have is none of them.
    let known = |name: &str| {
        let all = overside_ops::variants(operation);
        (all.iter().find(|one| one.name == name)).map_or("the library there", |one| one.name)
    };
    let words = ["depth", "source bytes", "destination bytes"];
    let device = device.to_owned();
    match error {
        OpeningError::Unsupported => OpenError::Unsupported { device, operation },
        OpeningError::Limit { what, limit, asked } => OpenError::Limit {
            device,
            what: (words.into_iter().find(|word| *word == what)).unwrap_or("that"),
            limit,
            asked,
        },
        OpeningError::UnknownVariant(known) => OpenError::Operation(Error::UnknownVariant {
            operation: operation.to_string(),
            name: asked.operation.variant.clone(),
            known: clean(&known, MAX_TEXT_BYTES),
        }),
        OpeningError::Level { variant, min, max } => OpenError::Operation(Error::Level {
            variant: known(&variant),
            level: asked.operation.level.unwrap_or_default(),
            min,
            max,
        }),
        OpeningError::NoLevels(variant) => {
            OpenError::Operation(Error::NoLevels { variant: known(&variant) })
        }
        OpeningError::Pattern { pattern, reason } => OpenError::Operation(Error::Pattern {
            pattern: clean(&pattern, MAX_PATTERN_BYTES),
            reason: clean(&reason, MAX_TEXT_BYTES),
        }),
        OpeningError::NoPattern => OpenError::Operation(Error::NoPattern),
        OpeningError::Failed(reason) => {
            OpenError::Failed { device, reason: clean(&reason, MAX_TEXT_BYTES) }
        }
    }
}

impl Message for Request {
    const MAX_BYTES: usize = MAX_CONTROL_BYTES;
}

/// Decodes a reply. Texts are shortened and lose control characters, and capabilities are limited to the
/// maximum of the wire format, even if the peer breaks these rules.
impl Message for Reply {
    const MAX_BYTES: usize = MAX_CONTROL_BYTES;

    fn check(&mut self) -> Result<(), CodecError> {
        let tidy = |text: &mut String| *text = clean(text, MAX_TEXT_BYTES);
        match self {
            Self::Welcome(welcome) => {
                tidy(&mut welcome.release);
                welcome.devices.iter_mut().try_for_each(Offer::check)?;
            }
            Self::Busy(text) | Self::Lost(text) => tidy(text),
            Self::Applied(applied) => {
                let texts = [
                    &mut applied.device,
                    &mut applied.driver,
                    &mut applied.variant,
                    &mut applied.library,
                ];
                texts.into_iter().for_each(tidy);
            }
            Self::Opened(_) | Self::Refused(_) | Self::Closed(_) | Self::Drain | Self::Probing => {}
        }
        Ok(())
    }
}

impl Offer {
    fn check(&mut self) -> Result<(), CodecError> {
        let info = &mut self.info;
        let texts = [&mut info.name, &mut info.driver, &mut info.location, &mut info.description];
        for text in texts {
            *text = clean(text, MAX_TEXT_BYTES);
        }
        if info.provenance > Provenance::Emulated {
            let text = "a device runs jobs, so its times are measured or emulated";
            return Err(CodecError::Malformed(text.into()));
        }
        for (index, one) in self.capabilities.iter_mut().enumerate() {
            one.max_source_bytes = one.max_source_bytes.min(MAX_BUFFER_BYTES as u64);
            one.max_destination_bytes = one.max_destination_bytes.min(MAX_BUFFER_BYTES as u64);
            one.max_depth = one.max_depth.min(MAX_DEPTH);
            for text in one.variants.iter_mut().chain(&mut one.missing) {
                *text = clean(text, MAX_NAME_BYTES);
            }
            let usable = one.max_depth > 0 && one.max_segments > 0 && !one.variants.is_empty();
            if !usable || index >= Operation::all().len() {
                let text = "a device cannot do what it says it can";
                return Err(CodecError::Malformed(text.into()));
            }
        }
        Ok(())
    }
}
