//! End of a queue pair, and the work that was in flight at that time.

use super::ShmQueuePair;
use crate::ring::CorruptCursor;
use crate::shm::engine::Engine;
use crate::shm::session::lost;
use crate::verbs::{LinkError, LinkErrorKind};

impl ShmQueuePair {
    /// Ends the link after an invalid cursor or message of the peer.
    #[cold]
    pub(super) fn broken(&self, _: CorruptCursor) -> LinkError {
        let what = "its cursors or message lengths cannot be";
        self.connection.mark_lost(LinkErrorKind::Protocol(what.into()));
        self.lost()
    }

    pub(super) fn lost(&self) -> LinkError {
        let cause = self.connection.lost().cloned();
        lost(cause.unwrap_or(LinkErrorKind::Closed), self.tags())
    }

    pub(super) fn tags(&self) -> Vec<u64> {
        let engine = self.engine.iter().flat_map(|engine| &engine.tags);
        let receives = self.receives.iter().map(|(tag, _)| tag);
        engine.chain(receives).copied().collect()
    }

    /// Returns the reason why no more messages will arrive, once all arrived ones have been taken; `None`
    /// before that.
    pub(super) fn end(&mut self) -> Option<LinkError> {
        if self.engine_is_dead() {
            let cause = LinkErrorKind::Local("its copy engine died".into());
            self.connection.mark_lost(cause);
            return Some(self.lost());
        }
        let closed = self.incoming.is_closed();
        if !closed && self.connection.lost().is_none() {
            return None;
        }
        // Looked at after the flags, so that nothing sent before is missed.
        match self.incoming.peek() {
            Ok(Some(_)) => None,
            Ok(None) if closed => {
                self.closed = true;
                Some(lost(LinkErrorKind::Closed, self.tags()))
            }
            Ok(None) => Some(self.lost()),
            Err(broken) => Some(self.broken(broken)),
        }
    }

    /// `Err` if the link is known to be lost.
    #[inline]
    pub(super) fn alive(&self) -> Result<(), LinkError> {
        if self.closed {
            return Err(lost(LinkErrorKind::Closed, self.tags()));
        }
        match self.connection.lost() {
            None => Ok(()),
            Some(_) => Err(self.lost()),
        }
    }

    pub(super) fn engine_is_dead(&self) -> bool {
        let engine = self.session.engine.as_ref();
        engine.is_some_and(Engine::is_dead)
    }
}
