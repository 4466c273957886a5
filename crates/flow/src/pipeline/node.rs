//! What a pipeline wants of a machine that stages can run on.
//!
//! 1. The engine opens a stage on a node once for each stream ([`Node::open`]).
//! 2. It submits numbered batches, no more at a time than the node's window ([`NodeStage::submit`]).
//! 3. The node answers through [`Completions`], from any thread and in any order.
//!
//! What a node does not do, the host does: batches that fail, and all that a lost node had. An answer
//! that comes too late, or twice, is ignored; so each batch counts once.

use std::fmt;
use std::sync::Weak;

use arrow_schema::SchemaRef;

use super::engine::Engine;
use super::stage::{Piece, StageDefinition};

/// A machine that stages can run on.
pub trait Node: Send + Sync {
    /// Opens a stage for batches of a schema. Does not wait for the network: a node that cannot be
    /// reached is reported as lost when that is known.
    ///
    /// # Errors
    /// Why it cannot be used; it is tried again later.
    fn open(
        &self,
        stage: &StageDefinition,
        schema: &SchemaRef,
        completions: Completions,
    ) -> Result<Box<dyn NodeStage>, NodeError>;

    /// Whether times measured on it are those of a machine of its own.
    fn is_real(&self) -> bool {
        true
    }
}

/// A stage that is open on a node. Dropping it closes it; nobody waits for what it has then.
pub trait NodeStage: Send {
    /// Hands a batch over. Does not wait: the engine bounds how many the node has.
    ///
    /// # Errors
    /// The node is lost.
    fn submit(&mut self, number: u64, pieces: Vec<Piece>) -> Result<(), NodeError>;
}

/// Why a node, or a batch on it, failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NodeError(String);

impl NodeError {
    /// In words.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

/// What a node made of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeResult {
    /// What came out.
    pub pieces: Vec<Piece>,
    /// How long the batch waited there until it was begun, in nanoseconds.
    pub queued_ns: u64,
    /// How long it took there, in nanoseconds.
    pub run_ns: u64,
    /// CPU time that it took there, in nanoseconds.
    pub cpu_ns: u64,
    /// CPU time of the host that moving it took beside [`NodeStage::submit`], in nanoseconds.
    pub host_cpu_ns: u64,
}

/// Where a node answers. To be called without holding a lock that [`NodeStage::submit`] takes.
#[derive(Clone)]
pub struct Completions {
    pub(super) engine: Weak<Engine>,
    pub(super) session: SessionId,
}

/// One opening of a stage on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionId {
    pub stream: u64,
    pub stage: usize,
    /// Counts the openings.
    pub opening: u64,
}

impl Completions {
    /// A batch is done, or failed; then the host does it.
    pub fn done(&self, number: u64, result: Result<NodeResult, NodeError>) {
        if let Some(engine) = self.engine.upgrade() {
            engine.answered(self.session, number, result);
        }
    }

    /// The node is lost, with all that it had.
    pub fn lost(&self, reason: NodeError) {
        if let Some(engine) = self.engine.upgrade() {
            engine.lost(self.session, &reason);
        }
    }
}
