//! Executes requests, and logs changes.

use super::LoggedEngine;
use crate::persistence::Snapshots;
use crate::persistence::frame::Kind;
use crate::{Answer, Answers, ProcessingEngine, Refusal, Request, Transaction, effect, forward_to};

impl<E: Snapshots> LoggedEngine<E> {
    /// Removes everything, and logs that as `kind`.
    pub(in crate::persistence) fn remove_all(&mut self, kind: Kind) -> Result<(), Refusal> {
        if self.failure.is_some() {
            return Err(Refusal::ReadOnly);
        }
        // What is written already is the state of before, which is right; the rest is not there any
        // more.
        if let Some(snapshot) = self.snapshot.take_if(|snapshot| !snapshot.is_written) {
            snapshot.cancel(&mut self.engine);
            self.changes += self.unsaved_changes;
        }
        self.changes += 1;
        self.has_unanswered = true;
        self.engine.flush()?;
        self.copied.position = None;
        if let Some(log) = &mut self.log {
            log.mark_now(kind);
        }
        Ok(())
    }

    /// Executes reads, and refuses writes.
    fn execute_reads(&mut self, batch: &[Request<'_>], now_ms: u64, answers: Answers<'_>) {
        for (index, request) in batch.iter().enumerate() {
            if request.operation.is_write() {
                answers(index, Answer::Refused(Refusal::ReadOnly));
                continue;
            }
            let one = std::slice::from_ref(request);
            self.engine.execute(one, now_ms, &mut |_, answer| answers(index, answer));
        }
    }
}

impl<E: Snapshots> ProcessingEngine for LoggedEngine<E> {
    forward_to!(engine: scan, expire_some, statistics);

    fn execute(&mut self, batch: &[Request<'_>], now_ms: u64, answers: Answers<'_>) {
        if self.failure.is_some() {
            return self.execute_reads(batch, now_ms, answers);
        }
        let before = self.changes;
        let changes = &mut self.changes;
        let has_unanswered = &mut self.has_unanswered;
        let log = &mut self.log;
        self.engine.execute(batch, now_ms, &mut |index, answer| {
            let request = &batch[index];
            if request.operation.is_write() {
                *changes += 1;
                *has_unanswered = true;
                if let Some(log) = log {
                    effect::record(request, &answer, log.payload(now_ms));
                }
            }
            answers(index, answer);
        });
        if self.changes != before {
            self.copied.position = None;
        }
    }

    fn execute_transaction(
        &mut self,
        transaction: &Transaction<'_>,
        now_ms: u64,
        answers: Answers<'_>,
    ) -> bool {
        let requests = &transaction.requests;
        if self.failure.is_some() && requests.iter().any(|r| r.operation.is_write()) {
            let refused = Answer::Refused(Refusal::ReadOnly);
            (0..requests.len()).for_each(|index| answers(index, refused));
            return true;
        }
        self.has_unanswered = true;
        if requests.iter().any(|request| request.operation.is_write()) {
            self.copied.position = None;
        }
        let changes = &mut self.changes;
        // One frame, so that all of it is there or nothing.
        let mut payload = self.log.as_mut().map(|log| log.payload(now_ms));
        (self.engine).execute_transaction(transaction, now_ms, &mut |index, answer| {
            *changes += 1;
            if let Some(payload) = &mut payload {
                effect::record(&requests[index], &answer, payload);
            }
            answers(index, answer);
        })
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        self.remove_all(Kind::Flush)
    }
}
