//! Counts the time by stage while commands are executed, if the server has a clock for it.

use super::ServerContext;
use crate::stages::Stage;
use overside_kv_store::{Answer, Answers, Request};

/// Ends a stage.
#[inline]
pub(super) fn end(server: &dyn ServerContext, stage: Stage) {
    if let Some(stages) = server.stages() {
        stages.end(stage);
    }
}

/// Ends the execution of batches.
#[inline]
pub(super) fn end_execution(server: &dyn ServerContext) {
    if let Some(stages) = server.stages() {
        stages.end_execution();
    }
}

/// Executes a batch. `respond` makes replies from its answers.
#[inline]
pub(super) fn execute(
    requests: &[Request<'_>],
    now_ms: u64,
    server: &mut dyn ServerContext,
    respond: Answers<'_>,
) {
    let timer = server.stages().and_then(|stages| stages.begin_batch());
    let Some(mut timer) = timer else {
        server.engine().execute(requests, now_ms, respond);
        return;
    };
    let mut timed = |index, answer: Answer<'_>| timer.time(|| respond(index, answer));
    server.engine().execute(requests, now_ms, &mut timed);
    if let Some(stages) = server.stages() {
        stages.end_sampled_batch(&timer);
    }
}
