//! What a server serves from whose processing engine is on the other side of a link.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::RemoteEngine;
use crate::ProcessingEngine;
use crate::server::{Backing, Bell};

/// How often counts and sizes are fetched.
const REFRESH_MS: u64 = 1000;
/// Why nothing is saved over a lost link.
pub(super) const UNREACHABLE: &str = "the side with the keys cannot be reached";
/// How often who waits for a snapshot looks whether it is there.
const SAVING_LOOK: Duration = Duration::from_millis(5);

impl RemoteEngine {
    /// A field of what the other side said last.
    fn told(&self, name: &str) -> Option<&str> {
        let mut fields = self.told.info.iter();
        fields.find_map(|(field, value)| (field == name).then_some(value.as_str()))
    }

    /// Names and values for `INFO` of what the other side keeps, as it said last.
    pub(crate) fn told_info(&self) -> Vec<(String, String)> {
        self.told.info.clone()
    }

    /// Whether what was begun last by [`RemoteEngine::begin_save`] is written, as of what was told last.
    pub(crate) fn saved(&self) -> Result<bool, String> {
        if self.failure().is_some() {
            return Err(UNREACHABLE.into());
        }
        match (
            self.told("rdb_bgsave_in_progress"),
            self.told("rdb_last_bgsave_status"),
        ) {
            (Some("1"), _) => Ok(false),
            (_, Some("ok")) => Ok(true),
            _ => Err("the side with the keys could not write everything".into()),
        }
    }
}

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

    /// The other side goes on meanwhile, whoever waits here.
    fn save(&mut self, in_background: bool) -> Result<(), String> {
        self.begin_save();
        self.wait(Self::poll_save)?;
        if in_background {
            return Ok(());
        }
        loop {
            std::thread::sleep(SAVING_LOOK);
            self.refresh();
            if self.saved()? {
                return Ok(());
            }
        }
    }

    fn last_save_s(&self) -> u64 {
        self.told.last_save_s
    }

    /// What the other side said last, and what crosses the link.
    fn info(&self) -> Vec<(String, String)> {
        let mut all = self.told.info.clone();
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
