//! Tests that another node measures: the host's requests to the agent there, and its answers.
//!
//! ```text
//!   host                                  agent
//!   environment                     ->
//!                                   <-    environment: CPU, memory, kernel, release
//!   lacks: digests and lengths      ->
//!                                   <-    lacks: which of them
//!   file: its digest and length     ->
//!                                   <-    taken
//!   a part of it, a zero before it  ->    ... until all of it is there
//!                                   <-    taken
//!   measure: the test               ->
//!                                   <-    sample
//!
//!   prepare: a test beside traffic  ->    ... verified
//!                                   <-    ready
//!   begin                           ->
//!                                   <-    begun
//!   finish                          ->    ... when it is over
//!                                   <-    sample
//! ```
//!
//! The agent keeps the files ([`DataCache`]), so that each is sent once. It measures in a separate
//! process for each connection ([`serve_tests`]), so a worker that dies is only a failed sample.
//! [`NodeReply::Failed`] may be the answer to any request except an environment.

mod agent;
mod data_cache;
mod digest;
mod environment;
mod relay;
mod turns;
mod worker_process;

use overside_link::agent::{MAX_PROBE_BYTES, MAX_TEXT_BYTES};
use overside_link::codec::{CodecError, Message, at_most, clean};
use overside_probe::Failure;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use agent::{CoreOwner, MeasureProbe};
pub use data_cache::DataCache;
pub use digest::Digest;
use environment::environment;
pub(crate) use relay::Relay;
pub use relay::node_environment;
pub use worker_process::{WORKER_VERB, WorkerCommand, serve_tests};

/// Probe kind under which hosts request measurements from an agent.
pub const KIND: &str = "measure";
/// The node that this machine is.
pub const LOCAL: &str = "local";
/// Maximum number of files of one test that can be sent: as many as one message lists.
pub const SENT_FILES_MAX: usize = 8192;
/// First byte of a message that carries a part of a file; no other message begins with it.
const PART: u8 = 0;
/// The longest part of a file.
const PART_BYTES_MAX: usize = MAX_PROBE_BYTES - 1;

/// A file by its content.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileContent {
    /// Digest of the file's bytes.
    pub digest: Digest,
    /// Length of the file in bytes.
    pub bytes: u64,
}

/// Request from a host to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeRequest {
    /// Requests the description of the agent's machine. Answered by [`NodeReply::Environment`].
    Environment,
    /// Requests which of these files the agent lacks. It keeps the others until the next such
    /// request. Answered by [`NodeReply::Lacks`].
    Lacks(Vec<FileContent>),
    /// This file comes, in parts. [`NodeReply::Taken`], as to each part.
    File(FileContent),
    /// Measure this test, whose files are digests. [`NodeReply::Sample`].
    Measure(Map<String, Value>),
    /// Open and verify this one, and wait. [`NodeReply::Ready`], or a sample without figures.
    Prepare(Map<String, Value>),
    /// Start its clock. [`NodeReply::Begun`], at once.
    Begin,
    /// Sends the result when the test has ended. Answered by [`NodeReply::Sample`].
    Finish,
}

/// Answer of an agent to a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeReply {
    /// Description of the machine, in the format of a run's `nodes/NAME.json`.
    Environment(Map<String, Value>),
    /// Indices of the files that must be sent.
    Lacks(Vec<usize>),
    /// The agent is ready for the file, or has stored the part.
    Taken,
    /// Result of the test: a [`Sample`](crate::Sample).
    Sample(Map<String, Value>),
    /// All outputs are verified.
    Ready,
    /// The clock runs.
    Begun,
    /// The request failed.
    Failed(Failure),
}

impl Message for NodeRequest {
    const MAX_BYTES: usize = MAX_PROBE_BYTES;

    fn check(&mut self) -> Result<(), CodecError> {
        match self {
            Self::Lacks(files) => {
                at_most("the number of files", files.len() as u64, SENT_FILES_MAX as u64)
            }
            _ => Ok(()),
        }
    }
}

impl Message for NodeReply {
    const MAX_BYTES: usize = MAX_PROBE_BYTES;

    fn check(&mut self) -> Result<(), CodecError> {
        match self {
            Self::Failed(failure) => failure.message = clean(&failure.message, MAX_TEXT_BYTES),
            Self::Sample(map) | Self::Environment(map) => clean_texts(map),
            Self::Lacks(places) => {
                at_most("the number of files", places.len() as u64, SENT_FILES_MAX as u64)?;
            }
            Self::Taken | Self::Ready | Self::Begun => {}
        }
        Ok(())
    }
}

/// Cleans texts that people will see, and bounds them. A histogram is for programs, and long.
fn clean_texts(map: &mut Map<String, Value>) {
    for (key, value) in map {
        if key != "histogram" {
            clean_text(value);
        }
    }
}

fn clean_text(value: &mut Value) {
    match value {
        Value::String(text) => *text = clean(text, MAX_TEXT_BYTES),
        Value::Array(items) => items.iter_mut().for_each(clean_text),
        Value::Object(map) => clean_texts(map),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The parts of a test that have files: itself, and the jobs beside it.
fn data_of(test: &mut Map<String, Value>) -> Vec<&mut Vec<Value>> {
    let mut found = Vec::new();
    for (key, part) in test {
        let data = match key.as_str() {
            "data" => Some(part),
            "beside" => part.get_mut("data"),
            _ => None,
        };
        let files = data.and_then(|data| data.get_mut("files"));
        found.extend(files.and_then(Value::as_array_mut));
    }
    found
}
