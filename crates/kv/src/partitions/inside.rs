//! A worker's own partition, and the others whom it answers from it.

use std::io;
use std::sync::Arc;

use super::mailbox::Mailbox;
use crate::offload::Responder;
use crate::server::Backing;
use crate::{
    Answer, Metadata, ProcessingEngine, Refusal, Request, ScanPosition, Statistics, Transaction,
};

/// A worker's own partition.
pub(super) struct Inside {
    pub own: Own,
    responders: Vec<Responder>,
    mailbox: Arc<Mailbox>,
}

impl Inside {
    pub fn new(
        backing: Box<dyn Backing + Send>,
        responders: Vec<Responder>,
        mailbox: Arc<Mailbox>,
    ) -> Self {
        let own = Own {
            backing,
            failure: None,
        };
        Self {
            own,
            responders,
            mailbox,
        }
    }

    /// Answers what the others have asked; whether there was something.
    pub fn serve(&mut self, now_ms: u64) -> bool {
        let own = &mut self.own;
        let mut any = false;
        self.responders.retain_mut(|responder| {
            let polled = responder.poll(own, now_ms);
            any |= matches!(polled, Ok(true));
            is_there(polled)
        });
        if self.mailbox.has_some() {
            any = true;
            for letter in self.mailbox.take() {
                letter(own);
            }
        }
        any
    }

    /// Finds out who has ended.
    pub fn check(&mut self) {
        self.responders
            .retain_mut(|responder| is_there(responder.check()));
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.mailbox.close();
    }
}

fn is_there<T>(result: Result<T, crate::offload::OffloadError>) -> bool {
    if let Err(error) = &result {
        tracing::error!("another worker is not answered any more: {error}");
    }
    result.is_ok()
}

/// The backing of a partition, for its own worker and for those who answer others from it.
pub(super) struct Own {
    backing: Box<dyn Backing + Send>,
    /// Writes could not be kept when others were answered: also those whose replies to this worker's
    /// clients wait.
    failure: Option<io::Error>,
}

impl Own {
    /// As [`Backing::before_replies`], for the replies of this worker's clients.
    pub fn before_own_replies(&mut self) -> io::Result<()> {
        let kept = self.backing.before_replies();
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => kept,
        }
    }
}

impl ProcessingEngine for Own {
    fn execute(
        &mut self,
        batch: &[Request<'_>],
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) {
        self.backing.execute(batch, now_ms, answers);
    }

    fn execute_transaction(
        &mut self,
        transaction: &Transaction<'_>,
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) -> bool {
        (self.backing).execute_transaction(transaction, now_ms, answers)
    }

    fn scan(
        &mut self,
        position: ScanPosition,
        count: usize,
        now_ms: u64,
        keys: &mut dyn FnMut(&[u8], Metadata),
    ) -> Result<ScanPosition, Refusal> {
        self.backing.scan(position, count, now_ms, keys)
    }

    fn expire_some(&mut self, now_ms: u64, buckets: usize) -> usize {
        self.backing.expire_some(now_ms, buckets)
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        self.backing.flush()
    }

    fn statistics(&self) -> Statistics {
        self.backing.statistics()
    }
}

impl Backing for Own {
    fn before_replies(&mut self) -> io::Result<()> {
        let kept = self.backing.before_replies();
        if let Err(error) = &kept {
            let message = error.to_string();
            self.failure = Some(io::Error::new(error.kind(), message));
        }
        kept
    }

    fn tick(&mut self, now_ms: u64) -> bool {
        self.backing.tick(now_ms)
    }

    fn save(&mut self, in_background: bool) -> Result<(), String> {
        self.backing.save(in_background)
    }

    fn last_save_s(&self) -> u64 {
        self.backing.last_save_s()
    }

    fn info(&self) -> Vec<(String, String)> {
        self.backing.info()
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        self.backing.parameters()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.backing.finish()
    }
}
