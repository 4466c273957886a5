//! A worker's own partition, and the others whom it answers from it.

use std::io;
use std::sync::Arc;

use super::mailbox::Mailbox;
use crate::offload::Responder;
use crate::server::Backing;

/// A worker's own partition.
pub(super) struct Inside {
    pub own: Box<dyn Backing + Send>,
    responders: Vec<Responder>,
    mailbox: Arc<Mailbox>,
    /// Writes could not be kept when others were answered: also those whose replies to this worker's
    /// clients wait.
    failure: Option<io::Error>,
}

impl Inside {
    pub fn new(
        own: Box<dyn Backing + Send>,
        responders: Vec<Responder>,
        mailbox: Arc<Mailbox>,
    ) -> Self {
        Self {
            own,
            responders,
            mailbox,
            failure: None,
        }
    }

    /// Answers what the others have asked; whether there was something.
    pub fn serve(&mut self, now_ms: u64) -> bool {
        let own = &mut *self.own;
        let failure = &mut self.failure;
        let mut any = false;
        self.responders.retain_mut(|responder| {
            let polled = responder.poll(own, now_ms);
            any |= matches!(polled, Ok(true));
            if let Some(error) = responder.take_failure() {
                *failure = Some(error);
            }
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

    /// As [`Backing::before_replies`], for the replies of this worker's clients.
    pub fn before_replies(&mut self) -> io::Result<()> {
        let kept = self.own.before_replies();
        self.failure.take().map_or(kept, Err)
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
