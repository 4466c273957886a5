//! One stream of batches through the stages.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use overside_base::lock;
use overside_device::Operation;
use overside_placement::Report;

use super::runner::apply;
use super::stage::{Piece, StageFunction};
use crate::Error;
use crate::operators::check_schema;

/// What became of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// What its producer called it.
    pub tag: u64,
    /// What came out; nothing if all its rows were dropped.
    pub pieces: Vec<Piece>,
}

/// A stream of batches of one schema: batches are pushed, and what becomes of them is pulled in the
/// same order, each once. Several threads may use it.
pub struct Stream {
    input: SchemaRef,
    output: SchemaRef,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    functions: Vec<Box<dyn StageFunction>>,
    done: VecDeque<Result<Done, Error>>,
    is_over: bool,
}

impl Stream {
    pub(super) fn new(
        input: SchemaRef,
        output: SchemaRef,
        functions: Vec<Box<dyn StageFunction>>,
    ) -> Self {
        Self {
            input,
            output,
            state: Mutex::new(State {
                functions,
                done: VecDeque::new(),
                is_over: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// The schema of what goes in.
    pub fn input_schema(&self) -> &SchemaRef {
        &self.input
    }

    /// The schema of what comes out.
    pub fn output_schema(&self) -> &SchemaRef {
        &self.output
    }

    /// Takes a batch; waits while the stream holds as much as it may.
    ///
    /// # Errors
    /// [`Error::SchemaChange`], which leaves the stream as it was; [`Error::Spent`] after an error or
    /// the end.
    pub fn push(&self, tag: u64, batch: RecordBatch) -> Result<(), Error> {
        check_schema(&self.input, batch.schema_ref())?;
        let mut state = lock(&self.state);
        if state.is_over {
            return Err(Error::Spent);
        }
        let mut pieces = Ok(vec![Piece::new(batch)]);
        for function in &mut state.functions {
            pieces = pieces.and_then(|pieces| apply(&mut **function, pieces));
        }
        state.is_over = pieces.is_err();
        state
            .done
            .push_back(pieces.map(|pieces| Done { tag, pieces }));
        self.changed.notify_all();
        Ok(())
    }

    /// What ran through executors, on devices for instance, by the index of its stage.
    pub fn reports(&self) -> Vec<(usize, Operation, Report)> {
        let state = lock(&self.state);
        let of_stages = state.functions.iter().enumerate();
        of_stages
            .flat_map(|(stage, function)| {
                let reports = function.reports().into_iter();
                reports.map(move |(operation, report)| (stage, operation, report))
            })
            .collect()
    }

    /// No more batches will come.
    pub fn finish(&self) {
        lock(&self.state).is_over = true;
        self.changed.notify_all();
    }

    /// What became of the next batch; waits for it. `None` when everything has been pulled. After an
    /// error nothing more comes.
    pub fn pull(&self) -> Option<Result<Done, Error>> {
        let mut state = lock(&self.state);
        loop {
            if let Some(done) = state.done.pop_front() {
                return Some(done);
            }
            if state.is_over {
                return None;
            }
            state = (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
