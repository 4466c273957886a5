//! Stores of hosts that an agent keeps on disk: each in its own directory, within one that the
//! agent chooses.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::partitions::RemotePartitions;
use overside_kv_backend::persistence::SyncPolicy;

/// Maximum number of stores that an agent keeps.
const STORES_MAX: usize = 16;

/// Name of the DPU's part of a store, and the rule by which it is kept on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersistenceRequest {
    /// Name of the store, as [`RemotePartitions::id`].
    pub id: String,
    /// `true` if it may be missing, and is made then.
    pub is_new: bool,
    /// Rule by which its log reaches the disk; `None` if there are only snapshots.
    pub log: Option<SyncPolicy>,
}

impl PersistenceRequest {
    /// Returns the directory of the store within `stores`, the agent's directory. Returns an error
    /// if the agent keeps no stores, lacks this one, or has too many.
    pub(super) fn directory(&self, stores: Option<&Path>) -> Result<PathBuf, String> {
        let Some(stores) = stores else {
            return Err(
                "the agent keeps no keys: start it with --kv-dir DIR, or leave --dir away".into()
            );
        };
        // Nothing else ever becomes a part of a path.
        if !RemotePartitions::is_id(&self.id) {
            return Err("an impossible name of a store".into());
        }
        let directory = stores.join(&self.id);
        if directory.is_dir() {
            return Ok(directory);
        }
        let shown = stores.display();
        if !self.is_new {
            return Err(format!(
                "the agent has no store {} in {shown}: give its --kv-dir the directory of before",
                self.id
            ));
        }
        let is_store = |name: &std::ffi::OsStr| name.to_str().is_some_and(RemotePartitions::is_id);
        let stored = std::fs::read_dir(stores).map_or(0, |entries| {
            let names = entries.flatten().map(|entry| entry.file_name());
            names.filter(|name| is_store(name)).count()
        });
        match stored < STORES_MAX {
            true => Ok(directory),
            false => {
                Err(format!("the agent keeps {STORES_MAX} stores already: remove one from {shown}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PersistenceRequest, STORES_MAX};

    #[test]
    fn a_host_names_no_path_and_no_more_stores_than_an_agent_keeps() {
        let stores = tempfile::tempdir().unwrap();
        let keeping = |id: &str, is_new| PersistenceRequest { id: id.into(), is_new, log: None };
        let asked = |keeping: &PersistenceRequest| keeping.directory(Some(stores.path()));
        let id = |number: usize| format!("{number:040x}");
        let refused = keeping(&id(0), true).directory(None).unwrap_err();
        assert!(refused.contains("--kv-dir"), "{refused}");
        for wrong in ["", "..", "a", &"/".repeat(40), &"A".repeat(40)] {
            assert!(asked(&keeping(wrong, true)).is_err(), "{wrong}");
        }
        for number in 0..STORES_MAX {
            let missing = asked(&keeping(&id(number), false)).unwrap_err();
            assert!(missing.contains("no store"), "{missing}");
            let directory = asked(&keeping(&id(number), true)).unwrap();
            assert_eq!(directory, stores.path().join(id(number)));
            std::fs::create_dir(&directory).unwrap();
        }
        assert!(asked(&keeping(&id(STORES_MAX), true)).is_err());
        assert!(asked(&keeping(&id(3), false)).is_ok());
    }
}
