//! State of a replica: its primary, and its position in the primary's history.

use std::time::Instant;

use super::ReceivedFrame;
use super::primary::Primary;
use super::receiver::{Event, Receiver};
use crate::persistence::frame::Kind;
use crate::persistence::{HistoryPosition, ReplayError, Replicable};
use crate::{KeyHasher, Refusal};

/// Longest time for which received frames are executed before clients have a turn, in microseconds.
const EXECUTE_US: u128 = 1000;
/// Buckets that are searched for keys that expired by the primary's clock.
const EXPIRY_BUCKETS: usize = 4096;

/// See the module.
#[derive(Debug)]
pub(super) struct ReplicaState {
    pub primary: Primary,
    pub receiver: Receiver,
    /// Position in the primary's history up to which frames were executed.
    pub position: HistoryPosition,
    /// `true` if it has no complete copy.
    pub is_loading: bool,
}

impl ReplicaState {
    /// Executes received frames, for about a millisecond. Returns `true` if there were any that could be executed.
    pub(super) fn execute<B: Replicable>(
        &mut self,
        inner: &mut B,
        hasher: &KeyHasher,
        is_partial: &mut bool,
    ) -> bool {
        let begin = Instant::now();
        let mut executed = 0;
        while let Some(event) = self.receiver.take() {
            // Here everything is executed as it was by the primary, at its times.
            inner.keep_expired(false);
            match self.execute_event(inner, hasher, is_partial, &event) {
                Ok(()) => executed += 1,
                Err(ReplayError::Refused(Refusal::ReadOnly)) => {
                    // The log cannot be written now; nothing was executed.
                    self.receiver.put_back(event);
                    break;
                }
                Err(error) => {
                    tracing::error!("what the primary sent cannot be executed: {error}");
                    self.is_loading = true;
                    self.receiver.begin_again(&error.to_string());
                    break;
                }
            }
            if begin.elapsed().as_micros() > EXECUTE_US {
                break;
            }
        }
        inner.keep_expired(true);
        if executed == 0 {
            return false;
        }
        // A log that cannot be written refuses the next frame.
        if inner.before_replies().is_ok() {
            let complete = if self.is_loading { 0 } else { self.position.offset };
            self.receiver.acknowledge(complete);
        }
        true
    }

    fn execute_event<B: Replicable>(
        &mut self,
        inner: &mut B,
        hasher: &KeyHasher,
        is_partial: &mut bool,
        event: &Event,
    ) -> Result<(), ReplayError> {
        let frame = match event {
            Event::Full(position) => {
                self.position.clone_from(position);
                self.is_loading = true;
                return Ok(());
            }
            Event::Frame(frame) => frame,
        };
        let (offset, number) = (self.position.offset, self.position.number);
        self.position.offset += frame.history_bytes;
        self.position.number += u64::from(frame.history_bytes > 0);
        let executed = self.execute_frame(inner, hasher, is_partial, frame);
        if executed.is_err() {
            (self.position.offset, self.position.number) = (offset, number);
        }
        executed
    }

    fn execute_frame<B: Replicable>(
        &mut self,
        inner: &mut B,
        hasher: &KeyHasher,
        is_partial: &mut bool,
        frame: &ReceivedFrame,
    ) -> Result<(), ReplayError> {
        let position = (!self.is_loading).then_some(&self.position);
        match frame.kind {
            Kind::CopyBegin => {
                inner.begin_copy().map_err(ReplayError::Refused)?;
                *is_partial = true;
            }
            Kind::CopyEnd => {
                inner.end_copy(&self.position);
                (*is_partial, self.is_loading) = (false, false);
                self.receiver.complete();
            }
            Kind::Flush => {
                inner.flush().map_err(ReplayError::Refused)?;
                inner.replay(&[], frame.now_ms, position, hasher)?;
            }
            Kind::Time => {
                inner.expire_some(frame.now_ms, EXPIRY_BUCKETS);
                inner.replay(&[], frame.now_ms, position, hasher)?;
            }
            _ => inner.replay(&frame.payload, frame.now_ms, position, hasher)?,
        }
        Ok(())
    }
}
