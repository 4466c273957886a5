//! The last report of the side with the keys.

use super::RemoteEngine;

/// Error text if nothing can be saved because the link is lost.
pub(super) const UNREACHABLE: &str = "the side with the keys cannot be reached";

impl RemoteEngine {
    /// A field of the other side's last report.
    fn told(&self, name: &str) -> Option<&str> {
        let mut fields = self.told.info.iter();
        fields.find_map(|(field, value)| (field == name).then_some(value.as_str()))
    }

    /// Names and values for `INFO` from the other side's last report.
    #[must_use]
    pub fn told_info(&self) -> Vec<(String, String)> {
        self.told.info.clone()
    }

    /// Time of the other side's last snapshot, in seconds since 1970.
    pub(crate) fn last_save_s(&self) -> u64 {
        self.told.last_save_s
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
