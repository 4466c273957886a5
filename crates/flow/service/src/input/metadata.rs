//! Metadata of messages, sent with their Arrow data in `app_metadata`. They are JSON objects, so
//! that any client can write and read them.
//!
//! - With a batch: `{"producer": "sensor-7", "sequence": 17}`, and behind a pipeline also `output` and
//!   `partition`.
//! - Back: `{"producer": "sensor-7", "acknowledged": 17}`: this batch and all before it are safe.
//!
//! Metadata without a `producer` or a `sequence` is foreign, and ignored.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use sha2::Digest;

/// Longest metadata in bytes that can be ours.
pub(crate) const METADATA_BYTES_MAX: usize = 4 << 10;
/// Longest name of a producer in bytes.
pub const PRODUCER_BYTES_MAX: usize = 256;

/// Metadata of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchMetadata {
    /// Name of the producer; absent for a stream that has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub producer: Option<String>,
    /// Number of the batch among those of this producer; absent where its position in the stream is its number. Numbers
    /// ascend, and some may be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The output of the pipeline that it came out of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The partition that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
}

/// Metadata of an acknowledgement, sent to a producer or by a subscriber.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcknowledgementMetadata {
    /// Name of the producer whose batches are acknowledged; absent for a stream that has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub producer: Option<String>,
    /// Number of the last batch that is safe, as are all before it.
    pub acknowledged: u64,
}

/// Metadata that begins as ours and cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "app_metadata of a batch is not {{\"producer\": \"NAME\", \"sequence\": N}}: {0}; leave it away to have \
     batches numbered by their position"
)]
pub struct MetadataError(String);

/// The keys by which metadata is known to be ours.
#[derive(Deserialize)]
struct OwnKeys {
    producer: Option<IgnoredAny>,
    sequence: Option<IgnoredAny>,
}

impl BatchMetadata {
    /// Parses the metadata of a batch. `None` if the bytes are no JSON object with a `producer` or a `sequence`,
    /// and so belong to other software.
    ///
    /// # Errors
    /// [`MetadataError`]: it has one of them, and something is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, MetadataError> {
        let is_object = bytes.first() == Some(&b'{');
        let keys = is_object.then(|| serde_json::from_slice::<OwnKeys>(bytes).ok());
        match keys.flatten() {
            Some(keys) if keys.producer.is_some() || keys.sequence.is_some() => {}
            _ => return Ok(None),
        }
        if bytes.len() > METADATA_BYTES_MAX {
            let reason = format!("{} bytes, and {METADATA_BYTES_MAX} are the most", bytes.len());
            return Err(MetadataError(reason));
        }
        let parsed: Self =
            serde_json::from_slice(bytes).map_err(|error| MetadataError(error.to_string()))?;
        let name = parsed.producer.as_deref().unwrap_or("-");
        if name.is_empty() || name.len() > PRODUCER_BYTES_MAX || name.chars().any(char::is_control)
        {
            return Err(MetadataError(format!(
                "a producer's name has 1 to {PRODUCER_BYTES_MAX} bytes and no control characters"
            )));
        }
        // The last number is one that can be followed by another.
        match parsed.sequence < Some(u64::MAX) {
            true => Ok(Some(parsed)),
            false => Err(MetadataError("the sequence number is too large".into())),
        }
    }
}

/// Gives types their JSON, and those after `parsed` a reader of it.
macro_rules! json_messages {
    ($($type:ty),*; parsed $($parsed:ty),*) => {
        $(impl $type {
            /// Writes it as the JSON that is sent.
            #[must_use]
            pub fn to_bytes(&self) -> Vec<u8> {
                // Strings and numbers become JSON always.
                serde_json::to_vec(self).unwrap_or_default()
            }
        })*
        $(impl $parsed {
            /// Parses the metadata of a message; `None` if the bytes are something else.
            #[must_use]
            pub fn parse(bytes: &[u8]) -> Option<Self> {
                let is_short = bytes.len() <= $crate::input::metadata::METADATA_BYTES_MAX;
                is_short.then(|| serde_json::from_slice(bytes).ok())?
            }
        })*
    };
}

pub(crate) use json_messages;

json_messages!(BatchMetadata, AcknowledgementMetadata; parsed AcknowledgementMetadata);

/// Returns a name, or 32 digits derived from it if it is too long.
pub fn bounded_name(name: String) -> String {
    if name.len() <= PRODUCER_BYTES_MAX {
        return name;
    }
    let digest = sha2::Sha256::digest(name.as_bytes());
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
