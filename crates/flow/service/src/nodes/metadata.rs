//! Messages between the two ends of a stage on a node: the command, and metadata of batches.

use serde::{Deserialize, Serialize};

/// Longest command in bytes.
const COMMAND_BYTES_MAX: usize = 2 << 20;

/// The command of a stage.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageCommand {
    /// Definition of the stage, as TOML.
    pub stage: String,
}

/// Metadata of a message with a piece of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceMetadata {
    /// The batch.
    pub number: u64,
    /// The partition of the piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// `true` for the last message of the batch.
    #[serde(default)]
    pub last: bool,
    /// Reason why the batch cannot be processed; absent if it was processed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Time that the batch waited on the node before work on it began, in nanoseconds.
    #[serde(default)]
    pub queued_ns: u64,
    /// Time that the node worked on the batch, in nanoseconds.
    #[serde(default)]
    pub run_ns: u64,
    /// CPU time that it took here, in nanoseconds.
    #[serde(default)]
    pub cpu_ns: u64,
}

crate::input::metadata::json_messages!(PieceMetadata; parsed PieceMetadata);

/// The stage that a command has; `None` if it is another one.
#[must_use]
pub fn parse_command(command: &[u8]) -> Option<String> {
    let is_short = command.len() <= COMMAND_BYTES_MAX;
    let parsed = is_short.then(|| serde_json::from_slice::<StageCommand>(command).ok());
    parsed.flatten().map(|command| command.stage)
}
