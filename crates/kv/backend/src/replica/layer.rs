//! The layer around an engine that has copies, or is one.

use std::io;
use std::sync::Arc;

use overside_kv_protocol::replication::SyncCounts;

use super::ReplicaHost;
use super::group::GroupMember;
use super::primary::ReplicaHandshake;
use super::replica_state::ReplicaState;
use super::source::Source;
use crate::Waker;
use crate::persistence::Replicable;
use crate::persistence::frame::Kind;
use crate::{
    Answer, Answers, KeyHasher, ProcessingEngine, Refusal, Request, Transaction, effect, forward_to,
};
use crate::{StorageBackend, TICK_MS};

/// See the [module](super).
#[derive(Debug)]
pub struct ReplicationLayer<B> {
    pub(super) inner: B,
    pub(super) hasher: KeyHasher,
    pub(super) member: GroupMember,
    pub(super) backlog_bytes: usize,
    /// `None`: it is no replica.
    pub(super) introduction: Option<ReplicaHandshake>,
    /// Identifier of this server's own history, 40 hexadecimal digits.
    pub(super) id: String,
    pub(super) source: Option<Source>,
    pub(super) counts: SyncCounts,
    pub(super) following: Option<ReplicaState>,
    /// `true` if the engine has only a part of the primary's state, because a copy is not complete.
    pub(super) is_partial: bool,
    pub(super) now_ms: u64,
    next_tick_ms: u64,
}

impl<B: Replicable> ReplicationLayer<B> {
    /// A primary, or `member` of one that has several partitions. `hasher` is that of the engine;
    /// `is_partial`: its directory has a part of another server's state.
    #[must_use]
    pub fn new(
        inner: B,
        member: GroupMember,
        hasher: &KeyHasher,
        backlog_bytes: usize,
        is_partial: bool,
    ) -> Self {
        Self {
            inner,
            hasher: hasher.clone(),
            backlog_bytes,
            introduction: Some(ReplicaHandshake::default()),
            id: member.server_id().to_owned(),
            member,
            source: None,
            counts: SyncCounts::default(),
            following: None,
            is_partial,
            now_ms: 0,
            next_tick_ms: 0,
        }
    }

    /// Returns the reason why a replica does not execute these requests; `None` if they are
    /// executed.
    fn refusal(&self, requests: &[Request<'_>]) -> Option<Refusal> {
        let following = self.following.as_ref()?;
        match following.is_loading {
            true => Some(Refusal::Loading),
            false => (requests.iter().any(|request| request.operation.is_write()))
                .then_some(Refusal::ReadOnly),
        }
    }

    /// Appends executed requests to the history.
    pub(super) fn flush_frames(&mut self) {
        self.source.iter_mut().for_each(Source::flush);
    }

    /// Executes received requests. Returns `true` if there were any.
    pub(super) fn execute_received(&mut self) -> bool {
        let executed = self.following.as_mut().is_some_and(|following| {
            following.execute(&mut self.inner, &self.hasher, &mut self.is_partial)
        });
        if executed {
            self.show_loading();
        }
        executed
    }

    /// Shows the other partitions whether this one's copy is complete.
    pub(super) fn show_loading(&self) {
        let following = self.following.as_ref();
        let is_loading = following.is_some_and(|following| following.is_loading);
        self.member.set_loading(is_loading);
    }
}

impl<B: Replicable> ProcessingEngine for ReplicationLayer<B> {
    forward_to!(inner: scan, expire_some, statistics, refresh);

    fn execute(&mut self, batch: &[Request<'_>], now_ms: u64, answers: Answers<'_>) {
        if self.following.is_some() {
            for (index, request) in batch.iter().enumerate() {
                let one = std::slice::from_ref(request);
                match self.refusal(one) {
                    Some(refusal) => answers(index, Answer::Refused(refusal)),
                    None => {
                        (self.inner).execute(one, now_ms, &mut |_, answer| answers(index, answer));
                    }
                }
            }
            return;
        }
        let Some(source) = &mut self.source else {
            return self.inner.execute(batch, now_ms, answers);
        };
        let frames = &mut source.frames;
        self.inner.execute(batch, now_ms, &mut |index, answer| {
            let request = &batch[index];
            if request.operation.is_write() {
                effect::record(request, &answer, frames.payload(now_ms));
            }
            answers(index, answer);
        });
    }

    fn execute_transaction(
        &mut self,
        transaction: &Transaction<'_>,
        now_ms: u64,
        answers: Answers<'_>,
    ) -> bool {
        let requests = &transaction.requests;
        if let Some(refusal) = self.refusal(requests) {
            (0..requests.len()).for_each(|index| answers(index, Answer::Refused(refusal)));
            return true;
        }
        let Some(source) = &mut self.source else {
            return self.inner.execute_transaction(transaction, now_ms, answers);
        };
        // One frame, so that all of it is there or nothing.
        let payload = source.frames.payload(now_ms);
        (self.inner).execute_transaction(transaction, now_ms, &mut |index, answer| {
            effect::record(&requests[index], &answer, payload);
            answers(index, answer);
        })
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        if self.following.is_some() {
            return Err(Refusal::ReadOnly);
        }
        self.inner.flush()?;
        if let Some(source) = &mut self.source {
            if source.end_copy(self.now_ms) {
                // What was not sent yet is not there any more.
                self.inner.cancel_snapshot();
            }
            source.frames.mark_now(Kind::Flush);
        }
        Ok(())
    }
}

impl<B: Replicable> StorageBackend for ReplicationLayer<B> {
    forward_to!(inner: save, last_save_s, info, parameters);

    fn before_replies(&mut self) -> io::Result<()> {
        let kept = self.inner.before_replies();
        // Whatever becomes of the log: the state in memory has it.
        self.flush_frames();
        kept
    }

    fn tick(&mut self, now_ms: u64) -> bool {
        self.now_ms = now_ms;
        if let Some(source) = &mut self.source {
            source.beat(now_ms);
        }
        if now_ms < self.next_tick_ms {
            return false;
        }
        let is_busy = self.inner.tick(now_ms);
        self.next_tick_ms = now_ms + if is_busy { 0 } else { TICK_MS };
        is_busy
    }

    fn waker(&self) -> Option<Arc<Waker>> {
        Some(Arc::clone(self.member.waker()))
    }

    fn serve_others(&mut self, _: u64) -> bool {
        let has_sent = self.source.as_mut().is_some_and(|source| {
            source.send_copy(&mut self.inner, &self.hasher, &self.id, self.now_ms)
        });
        self.execute_received() || has_sent
    }

    /// Ends replication, then the inner engine. Before that, replicas have a limited time to catch
    /// up.
    fn finish(&mut self) -> io::Result<()> {
        if let Some(mut source) = self.source.take() {
            source.drain();
        }
        self.following = None;
        self.inner.cancel_snapshot();
        self.inner.finish()
    }

    fn replication(&self) -> Option<&dyn ReplicaHost> {
        Some(self)
    }

    fn replication_mut(&mut self) -> Option<&mut dyn ReplicaHost> {
        Some(self)
    }
}
