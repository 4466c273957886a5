//! Entry of the registry of operations: all operations of one verb, and their properties.
//!
//! Devices, placements, boxes, tasks, reports and the model read the entry and know no operation by
//! name, so a new operation only needs a new entry.

use crate::variant::Entry;
use crate::{Config, Operation};

/// All operations of one verb, which differ in a parameter such as the format or the algorithm.
pub struct Family {
    /// Verb that the names of the operations begin with; also the task that measures them.
    pub verb: &'static str,
    /// Description in one line: the work of the task, and how its results are verified.
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
    /// Data set that is measured if a box names none.
    pub data: &'static str,
    /// Libraries that most systems have installed: reports compare the fastest one with these.
    pub references: &'static [&'static str],
    /// Engine of a card that may perform it, by the key of its costs in the model: operations with
    /// the same key share the engine. `None` if the model expects no card to have such an engine.
    pub engine: Option<&'static str>,
    /// Returns an upper bound of the result's length in bytes, given the operation, its patterns and
    /// the length of the uncompressed side.
    pub(crate) result_bytes_max: fn(Operation, &[String], u64) -> u64,
    /// Returns the libraries that perform the operation. `auto` prefers the first one.
    pub(crate) entries: fn(Operation) -> Vec<Entry>,
    /// Returns the memory in bytes that the libraries take for their state.
    pub(crate) memory: fn(&Config, Option<Chosen>, u64) -> Memory,
    /// Compares every library's results with published ones.
    pub(crate) known_answers: fn(Operation) -> Result<(), WrongAnswer>,
}

/// Parameter of a task that selects one operation of a family.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Key in a box: `format`.
    pub name: &'static str,
    /// Description in one line.
    pub doc: &'static str,
    /// Default value.
    pub default: &'static str,
}

/// Relation of the lengths of a job's source and result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// The result is shorter, by a ratio that depends on the data. Data whose result is not shorter
    /// are incompressible.
    Shrinks,
    /// The result is longer, by a ratio that depends on the data.
    Expands,
    /// The result is longer by this number of bytes.
    Grows(u64),
    /// The result is shorter by this number of bytes.
    Strips(u64),
    /// The result describes the source and is too short to count: a number, a digest, a bitmap.
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
    /// The result is compared with the expected bytes: those that the source was made from, or the
    /// source itself.
    Original,
    /// Another implementation computes the same result.
    Reference,
}

/// Library of a codec, and level, that a configuration selects.
#[derive(Clone, Copy)]
pub(crate) struct Chosen {
    pub variant: &'static str,
    /// Compression level; 0 if the library has none.
    pub level: u32,
}

/// Memory in bytes for the state of libraries.
#[derive(Clone, Copy, Default)]
pub(crate) struct Memory {
    /// Memory that all threads share.
    pub shared: u64,
    /// Memory of each thread's kernel.
    pub kernel: u64,
}

/// Difference between a library's result and the published one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variant} gives {found} where {expected} was published for {operation}")]
pub struct WrongAnswer {
    /// Operation with the wrong result.
    pub operation: Operation,
    /// Name of the library in a box.
    pub variant: &'static str,
    /// Result of the library in hexadecimal digits, or its error if it failed.
    pub found: String,
    /// Published result.
    pub expected: String,
}

impl Family {
    /// Returns the operations that boxes can name: all except those that are only steps of others.
    pub fn measured(&self) -> impl Iterator<Item = Operation> {
        let all = (self.operations)().into_iter();
        all.filter(|operation| !operation.is_step())
    }
}
