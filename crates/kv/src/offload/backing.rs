//! What a server serves from whose processing engine is on the other side of a link.

use std::io;
use std::sync::Arc;

use super::RemoteEngine;
use crate::ProcessingEngine;
use crate::server::{Backing, Bell};

/// How often counts and sizes are fetched.
const REFRESH_MS: u64 = 1000;

/// What is kept on disk is the other side's business: it answers only what it has kept.
impl Backing for RemoteEngine {
    fn before_replies(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn tick(&mut self, now_ms: u64) -> bool {
        if now_ms >= self.next_refresh_ms {
            self.next_refresh_ms = now_ms + REFRESH_MS;
            self.refresh();
        }
        false
    }

    fn save(&mut self, _: bool) -> Result<(), String> {
        Err("state is kept by the side that has the store: its --dir and --sync say how".into())
    }

    fn last_save_s(&self) -> u64 {
        0
    }

    fn info(&self) -> Vec<(String, String)> {
        let mut all = vec![("loading".to_owned(), "0".to_owned())];
        all.extend(self.counts.info());
        all
    }

    /// The side with the store has them.
    fn parameters(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn bell(&self) -> Option<Arc<Bell>> {
        self.bell.clone()
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}
