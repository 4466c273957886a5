//! Entry of the registry of operations: all that is done by one verb, and all that others ask about it.
//!
//! Devices, placements, boxes, tasks, reports and the model ask the entry instead of knowing the
//! operations, so that another operation is another entry.

use crate::variant::Entry;
use crate::{Config, Operation};

/// All operations of one verb, which differ in a format, an algorithm or the like.
pub struct Family {
    /// Verb that the names of the operations begin with; also the task that measures them.
    pub verb: &'static str,
    /// One line for people: the work of the task, and how its results are verified.
    pub description: &'static str,
    /// Title of its tests in reports, with the parameter in braces: `Compress to {format}`.
    pub title: &'static str,
    /// Parameter that chooses one of the operations; `None` if there is only one.
    pub parameter: Option<Parameter>,
    /// Makes the list of operations, in a stable order.
    pub operations: fn() -> Vec<Operation>,
    /// Relation of the lengths of a job's source and result.
    pub lengths: Lengths,
    /// Method that verifies a result.
    pub verification: Verification,
    /// `true` if libraries have levels to choose from.
    pub has_levels: bool,
    /// `true` if a job needs patterns.
    pub has_patterns: bool,
    /// Data set that is measured unless a box names one.
    pub data: &'static str,
    /// Libraries that a system has anyway, with which reports compare the fastest.
    pub references: &'static [&'static str],
    /// Engine of a card that may do it, by the key of its costs in the model: operations with one key
    /// share the engine. `None` if the model expects no card to have such an engine.
    pub engine: Option<&'static str>,
    /// Returns an upper bound of the result's length in bytes, given the operation, its patterns and
    /// the length of the uncompressed side.
    pub(crate) result_bytes_max: fn(Operation, &[String], u64) -> u64,
    /// Makes the list of libraries that do it. The first is the one that `auto` prefers.
    pub(crate) entries: fn(Operation) -> Vec<Entry>,
    /// Returns the memory in bytes that the libraries take for their state.
    pub(crate) memory: fn(&Config, Option<Chosen>, u64) -> Memory,
    /// Compares every library's results with those that were published.
    pub(crate) known_answers: fn(Operation) -> Result<(), WrongAnswer>,
}

/// Parameter of a task that chooses one operation of a family.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Key in a box: `format`.
    pub name: &'static str,
    /// One line for people.
    pub doc: &'static str,
    /// Value where the box gives none.
    pub default: &'static str,
}

/// Relation of the lengths of a job's source and result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// The result is shorter, by a ratio that depends on the data. Data that do not shrink are
    /// incompressible.
    Shrinks,
    /// The result is longer, by such a ratio.
    Expands,
    /// The result is longer by so many bytes.
    Grows(u64),
    /// The result is shorter by so many bytes.
    Strips(u64),
    /// The result is an answer about the source, too short to count: a number, a digest, bits.
    Answers,
}

/// Side of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

/// Method that verifies a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// The inverse operation, by another library, restores the source.
    Inverse,
    /// The result is compared with the bytes that it has to be: those of which the source was made,
    /// or the source itself.
    Original,
    /// Another implementation comes to the same result.
    Reference,
}

/// Library of a codec and level that a configuration comes down to.
#[derive(Clone, Copy)]
pub(crate) struct Chosen {
    pub variant: &'static str,
    /// 0 without levels.
    pub level: u32,
}

/// Memory in bytes for the state of libraries.
#[derive(Clone, Copy, Default)]
pub(crate) struct Memory {
    /// Once for all threads.
    pub shared: u64,
    /// For each thread's kernel.
    pub kernel: u64,
}

/// A library that does not give a published result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variant} gives {found} where {expected} was published for {operation}")]
pub struct WrongAnswer {
    /// The operation.
    pub operation: Operation,
    /// The library, by its name in a box.
    pub variant: &'static str,
    /// Result of the library, in hexadecimal digits, or its error if it has none.
    pub found: String,
    /// Result that was published.
    pub expected: String,
}

impl Family {
    /// Returns the operations that boxes can name: all but steps of others.
    pub fn measured(&self) -> impl Iterator<Item = Operation> {
        let all = (self.operations)().into_iter();
        all.filter(|operation| !operation.is_step())
    }
}
