//! Implementation of [`StorageBackend`] for a processing engine on the other side of a link.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::RemoteEngine;
use crate::ProcessingEngine;
use overside_kv_backend::StorageBackend;
use overside_kv_backend::Waker;

/// Time between two fetches of counts and sizes, in milliseconds.
const REFRESH_MS: u64 = 1000;
/// Error text if nothing can be saved because the link is lost.
pub(super) const UNREACHABLE: &str = "the side with the keys cannot be reached";
/// Time between two checks whether a snapshot that a caller waits for is complete.
const SAVING_LOOK: Duration = Duration::from_millis(5);

impl RemoteEngine {
    /// A field of the other side's last report.
    fn told(&self, name: &str) -> Option<&str> {
        let mut fields = self.told.info.iter();
        fields.find_map(|(field, value)| (field == name).then_some(value.as_str()))
    }

    /// Names and values for `INFO` from the other side's last report.
    pub(crate) fn told_info(&self) -> Vec<(String, String)> {
        self.told.info.clone()
    }

    /// Returns `true` if the snapshot that [`RemoteEngine::begin_save`] began last is written,
    /// according to the last report of the other side.
    pub(crate) fn saved(&self) -> Result<bool, String> {
        if self.failure().is_some() {
            return Err(UNREACHABLE.into());
        }
        match (self.told("rdb_bgsave_in_progress"), self.told("rdb_last_bgsave_status")) {
            (Some("1"), _) => Ok(false),
            (_, Some("ok")) => Ok(true),
            _ => Err("the side with the keys could not write everything".into()),
        }
    }
}

/// The other side keeps state on disk, and answers only after that.
impl StorageBackend for RemoteEngine {
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

    /// Saves on the other side, which continues even if this caller does not wait.
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

    /// Returns the last report of the other side, and the counts of the link's traffic.
    fn info(&self) -> Vec<(String, String)> {
        let mut all = self.told.info.clone();
        all.extend(self.counts.info());
        all
    }

    /// The side with the store has them.
    fn parameters(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn waker(&self) -> Option<Arc<Waker>> {
        self.waker.clone()
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}
