//! What a server serves from whose processing engine is on the other side of a link.

use std::io;
use std::sync::{Arc, Mutex};

use overside_base::lock;
use serde::{Deserialize, Serialize};

use super::RemoteEngine;
use crate::server::Backing;
use crate::{
    Answer, Metadata, ProcessingEngine, Refusal, Request, ScanPosition, Statistics, Transaction,
};

/// How often counts and sizes are fetched.
const REFRESH_MS: u64 = 1000;

/// How a remote engine does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteStatus {
    /// Requests that were sent.
    pub requests: u64,
    /// Messages that were sent, each by one write.
    pub link_writes: u64,
    /// Bytes of them.
    pub link_written_bytes: u64,
    /// Bytes that were fetched.
    pub link_read_bytes: u64,
    /// Why the engine cannot be reached any more.
    pub failure: Option<String>,
}

/// A remote engine behind a server. What is kept on disk is the other side's business: it answers only
/// what it has kept.
#[derive(Debug)]
pub struct RemoteBacking {
    engine: RemoteEngine,
    status: Arc<Mutex<RemoteStatus>>,
    next_refresh_ms: u64,
}

impl RemoteBacking {
    /// Around an engine. `status` says how it does, now and then.
    #[must_use]
    pub fn new(engine: RemoteEngine, status: Arc<Mutex<RemoteStatus>>) -> Self {
        Self {
            engine,
            status,
            next_refresh_ms: 0,
        }
    }
}

impl ProcessingEngine for RemoteBacking {
    fn execute(
        &mut self,
        batch: &[Request<'_>],
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) {
        self.engine.execute(batch, now_ms, answers);
    }

    fn execute_transaction(
        &mut self,
        transaction: &Transaction<'_>,
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) -> bool {
        (self.engine).execute_transaction(transaction, now_ms, answers)
    }

    fn scan(
        &mut self,
        position: ScanPosition,
        count: usize,
        now_ms: u64,
        keys: &mut dyn FnMut(&[u8], Metadata),
    ) -> ScanPosition {
        self.engine.scan(position, count, now_ms, keys)
    }

    fn expire_some(&mut self, now_ms: u64, buckets: usize) -> usize {
        self.engine.expire_some(now_ms, buckets)
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        self.engine.flush()
    }

    fn statistics(&self) -> Statistics {
        self.engine.statistics()
    }
}

impl Backing for RemoteBacking {
    fn before_replies(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn tick(&mut self, now_ms: u64) -> bool {
        if now_ms >= self.next_refresh_ms {
            self.next_refresh_ms = now_ms + REFRESH_MS;
            self.engine.refresh_statistics();
            let traffic = self.engine.traffic();
            *lock(&self.status) = RemoteStatus {
                requests: self.engine.requests(),
                link_writes: traffic.writes,
                link_written_bytes: traffic.written_bytes,
                link_read_bytes: traffic.read_bytes,
                failure: self.engine.failure().map(ToString::to_string),
            };
        }
        false
    }

    fn save(&mut self, _: bool) -> Result<(), String> {
        Err("state is kept by the host: its own --dir and --sync say how".into())
    }

    fn last_save_s(&self) -> u64 {
        0
    }

    fn info(&self) -> Vec<(String, String)> {
        let status = lock(&self.status).clone();
        let fields = [
            ("loading", "0".to_owned()),
            ("offload_requests", status.requests.to_string()),
            ("offload_link_writes", status.link_writes.to_string()),
            (
                "offload_link_written_bytes",
                status.link_written_bytes.to_string(),
            ),
            (
                "offload_link_read_bytes",
                status.link_read_bytes.to_string(),
            ),
        ];
        fields.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// The host has them.
    fn parameters(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}
