//! Interface between a pipeline and a machine that runs stages.
//!
//! 1. The engine opens a stage on a node once for each stream ([`Node::open`]).
//! 2. It submits numbered batches, no more at a time than the node's window ([`NodeStage::submit`]).
//! 3. The node answers through [`Completions`], from any thread and in any order.
//!
//! The host processes batches that fail on a node, and all batches of a lost node. An answer that
//! arrives too late, or twice, is ignored; so each batch counts once.

use std::fmt;
use std::sync::{Arc, Weak};

use arrow_schema::SchemaRef;

use crate::definition::stage::StageDefinition;
use crate::stage::PartitionedBatch;

/// Machine that runs stages.
pub trait Node: Send + Sync {
    /// Opens a stage for batches of a schema. Does not wait for the network: a node that cannot be
    /// reached is reported as lost when that is known.
    ///
    /// # Errors
    /// The reason why the node cannot be used; the engine tries again later.
    fn open(
        &self,
        stage: &StageDefinition,
        schema: &SchemaRef,
        completions: Completions,
    ) -> Result<Box<dyn NodeStage>, NodeError>;

    /// Returns `true` if the node is a separate machine, so that times measured on it are real.
    fn is_real(&self) -> bool {
        true
    }
}

/// Stage that is open on a node. Dropping it closes it and abandons its batches.
pub trait NodeStage: Send {
    /// Submits a batch. Does not wait: the engine bounds the number of batches on the node.
    ///
    /// # Errors
    /// The node is lost.
    fn submit(&mut self, number: u64, pieces: Vec<PartitionedBatch>) -> Result<(), NodeError>;
}

/// Reason why a node, or a batch on it, failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NodeError(String);

impl NodeError {
    /// Makes an error from a reason.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

/// Result of a batch on a node, and the time that it took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeResult {
    /// Resulting batches with their partitions.
    pub pieces: Vec<PartitionedBatch>,
    /// Time that the batch waited on the node before work on it began, in nanoseconds.
    pub queued_ns: u64,
    /// Time that the node worked on the batch, in nanoseconds.
    pub run_ns: u64,
    /// CPU time that the work took on the node, in nanoseconds.
    pub cpu_ns: u64,
    /// CPU time of the host that moving it took beside [`NodeStage::submit`], in nanoseconds.
    pub host_cpu_ns: u64,
}

/// Handle through which a node reports results. Call it without holding a lock that
/// [`NodeStage::submit`] takes.
#[derive(Clone)]
pub struct Completions {
    pub(crate) answers: Weak<dyn Answers>,
    pub(crate) session: SessionId,
}

/// Receiver of the answers of a pipeline's nodes.
pub(crate) trait Answers: Send + Sync {
    /// Handles a node's answer.
    fn answered(
        self: Arc<Self>,
        session: SessionId,
        number: u64,
        result: Result<NodeResult, NodeError>,
    );

    /// Handles the loss of a node.
    fn lost(self: Arc<Self>, session: SessionId, reason: &NodeError);
}

/// Identifies one opening of a stage on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionId {
    pub stream: u64,
    pub stage: usize,
    /// Number of the opening.
    pub opening: u64,
}

impl Completions {
    /// Reports the result of a batch, or its failure; then the host processes it.
    pub fn done(&self, number: u64, result: Result<NodeResult, NodeError>) {
        if let Some(answers) = self.answers.upgrade() {
            answers.answered(self.session, number, result);
        }
    }

    /// Reports that the node is lost with all of its batches.
    pub fn lost(&self, reason: NodeError) {
        if let Some(answers) = self.answers.upgrade() {
            answers.lost(self.session, &reason);
        }
    }
}
