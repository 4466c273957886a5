//! Stream of batches through the stages.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use overside_tables::check_schema;
use overside_tables::pack::CodecPool;

use crate::Error;
use crate::run::engine::{Engine, EngineState};
use crate::run::packing::Packing;
use crate::run::report::PipelineReport;
use crate::run::stream_state::{BatchResult, StreamState};
use crate::stage::PartitionedBatch;
use overside_flow_operators::values_bytes;

/// Stream of batches of one schema. Batches are pushed, and their results are pulled in the same order, each
/// once. Several threads may use it. Dropping it drops all of its batches.
pub struct Stream {
    pub(crate) engine: Arc<Engine>,
    pub(crate) pool: Arc<CodecPool>,
    pub(crate) packing: Arc<Packing>,
    /// `true` if callers that wait in [`Stream::push`] or [`Stream::pull`] do the work of the pipeline's
    /// threads meanwhile.
    pub(crate) is_helping: bool,
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) input: SchemaRef,
    pub(crate) output: SchemaRef,
}

/// Longest time that a caller who can help waits before it checks for work again.
const WAIT: Duration = Duration::from_millis(5);

impl Stream {
    /// Returns the schema of the input.
    pub fn input_schema(&self) -> &SchemaRef {
        &self.input
    }

    /// Returns the schema of the results.
    pub fn output_schema(&self) -> &SchemaRef {
        &self.output
    }

    /// Pushes a batch. Waits while the stream holds as much as it may. If the pipeline works on its caller's
    /// thread, it takes more when only pulling would make room.
    ///
    /// # Errors
    /// [`TableError::SchemaChange`](crate::TableError), which leaves the stream unchanged;
    /// [`Error::Spent`] after an error or the end.
    pub fn push(&self, tag: u64, batch: RecordBatch) -> Result<(), Error> {
        self.offer(tag, batch, true).map(|_| ())
    }

    /// Pushes a batch like [`Stream::push`], but returns it instead of waiting for room. Returns `None` if
    /// the batch was taken.
    ///
    /// # Errors
    /// Those of [`Stream::push`].
    pub fn try_push(&self, tag: u64, batch: RecordBatch) -> Result<Option<RecordBatch>, Error> {
        self.offer(tag, batch, false)
    }

    fn offer(
        &self,
        tag: u64,
        batch: RecordBatch,
        may_wait: bool,
    ) -> Result<Option<RecordBatch>, Error> {
        check_schema(&self.input, batch.schema_ref())?;
        let bytes = values_bytes(&batch) as u64;
        // If callers do the work, a caller that waits here cannot pull.
        let would_wait = |stream: &StreamState| {
            let only_pulling_helps = may_wait && self.is_helping && stream.waits_for_pull();
            !(stream.has_room(bytes) || only_pulling_helps)
        };
        let has_room = |stream: &StreamState| stream.is_finished || !would_wait(stream);
        let mut state = self.engine.lock();
        if may_wait {
            state = self.wait_until(state, has_room);
        }
        match state.streams.get_mut(&self.number) {
            Some(stream) if stream.is_finished => Err(Error::Spent),
            Some(stream) if would_wait(stream) => Ok(Some(batch)),
            Some(stream) => {
                stream.push(tag, PartitionedBatch::new(batch));
                self.engine.proceed(state);
                Ok(None)
            }
            None => Err(Error::Spent),
        }
    }

    /// Ends the input: no more batches will be pushed.
    pub fn finish(&self) {
        let mut state = self.engine.lock();
        if let Some(stream) = state.streams.get_mut(&self.number) {
            stream.is_finished = true;
        }
        self.engine.proceed(state);
    }

    /// Waits for the result of the next batch and returns it. `None` when everything has been pulled. After
    /// an error nothing more comes.
    pub fn pull(&self) -> Option<Result<BatchResult, Error>> {
        let state = self.engine.lock();
        let mut pulled = None;
        let is_there = |stream: &StreamState| stream.is_over() || stream.has_output();
        let mut state = self.wait_until(state, is_there);
        if let Some(stream) = state.streams.get_mut(&self.number) {
            pulled = stream.pull();
        }
        self.engine.proceed(state);
        pulled
    }

    /// Returns the result of the next batch without waiting. `None` if it is not there yet, or if
    /// everything has been pulled.
    pub fn try_pull(&self) -> Option<Result<BatchResult, Error>> {
        let mut state = self.engine.lock();
        let pulled = state.streams.get_mut(&self.number)?.pull()?;
        self.engine.proceed(state);
        Some(pulled)
    }

    /// Returns the number of batches that were pushed before the failed one, once [`Stream::pull`] has
    /// returned the error. Results of some of them may be missing; these can be pushed to another stream.
    pub fn failed_batch(&self) -> Option<u64> {
        self.engine.lock().streams.get(&self.number)?.failed
    }

    /// Returns the statistics of this stream so far.
    pub fn report(&self) -> PipelineReport {
        let state = self.engine.lock();
        let totals = state.streams.get(&self.number).map(StreamState::report);
        totals.unwrap_or_default().report(&self.name, self.packing.reports())
    }

    /// Waits for a change of this stream, and works meanwhile if it is helping.
    fn wait_until<'a>(
        &'a self,
        mut state: MutexGuard<'a, EngineState>,
        is_so: impl Fn(&StreamState) -> bool,
    ) -> MutexGuard<'a, EngineState> {
        let mut has_helped = self.is_helping;
        loop {
            if state.streams.get(&self.number).is_none_or(&is_so) {
                return state;
            }
            if has_helped {
                drop(state);
                has_helped = self.pool.help();
                state = self.engine.lock();
            } else if self.is_helping {
                state = self.engine.wait_for(state, WAIT);
                has_helped = true;
            } else {
                state = self.engine.wait(state);
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.engine.remove(self.number);
    }
}
