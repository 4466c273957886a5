//! What a server serves from whose processing engine is on the other side of a link.

use std::io;

use serde::{Deserialize, Serialize};

use super::RemoteEngine;
use crate::server::Backing;

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

/// What is kept on disk is the other side's business: it answers only what it has kept.
impl Backing for RemoteEngine {
    fn before_replies(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn tick(&mut self, now_ms: u64) -> bool {
        if now_ms >= self.next_refresh_ms {
            self.next_refresh_ms = now_ms + REFRESH_MS;
            self.refresh_statistics();
            self.report_status();
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
        let status = self.current_status();
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
