//! Implementation of [`StorageBackend`] for a worker that has one of several partitions.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Partitioned;
use crate::RemoteEngine;
use overside_kv_backend::Waker;
use overside_kv_backend::idle::{IDLE_YIELD, PAUSE};
use overside_kv_backend::replica::ReplicaHost;
use overside_kv_backend::{PartitionWork, StorageBackend};

impl StorageBackend for Partitioned {
    /// Other workers keep their writes before they answer.
    fn before_replies(&mut self) -> io::Result<()> {
        self.inside.before_replies()
    }

    fn tick(&mut self, now_ms: u64) -> bool {
        self.now_ms = now_ms;
        self.inside.check();
        for peer in self.peers.iter_mut().flatten() {
            if peer.thread.is_none() {
                peer.remote.check();
            }
        }
        self.inside.own.tick(now_ms)
    }

    /// All partitions at the same time.
    fn save(&mut self, in_background: bool) -> Result<(), String> {
        for number in 0..self.peers.len() {
            if self.is_over_link(number) {
                let begin = RemoteEngine::begin_save;
                let begun = self.ask(number, self.now_ms, begin, RemoteEngine::poll_save);
                begun.unwrap_or_else(|| Err("a partition cannot be reached".into()))?;
            }
        }
        let saved = self.ask_all(move |backing| backing.save(in_background));
        saved.into_iter().try_for_each(|(_, saved)| saved)?;
        match in_background {
            true => Ok(()),
            false => self.wait_for_saves(),
        }
    }

    /// Returns the earliest time of all partitions: none has saved before it.
    fn last_save_s(&self) -> u64 {
        let others = self.elsewhere.last_saves_s.iter().copied();
        others.fold(self.inside.own.last_save_s(), u64::min)
    }

    fn info(&self) -> Vec<(String, String)> {
        let mut all = self.inside.own.info();
        for (name, value) in &mut all {
            for info in &self.elsewhere.info {
                if let Some((_, other)) = info.iter().find(|(other, _)| other == name) {
                    *value = together(name, value, other);
                }
            }
        }
        // Every link shows what all of the side have moved.
        let mut peers = self.peers.iter().flatten();
        if let Some(peer) = peers.find(|peer| peer.thread.is_none()) {
            all.extend(peer.remote.counts().info());
        }
        all
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut parameters = self.inside.own.parameters();
        // Each partition has a directory in that of the server.
        for (_, value) in parameters.iter_mut().filter(|(name, _)| *name == "dir") {
            let parent = Path::new(value.as_str()).parent();
            *value = parent.map_or_else(String::new, |path| path.display().to_string());
        }
        parameters
    }

    fn waker(&self) -> Option<Arc<Waker>> {
        Some(Arc::clone(&self.waker))
    }

    fn serve_others(&mut self, now_ms: u64) -> bool {
        let any = self.inside.serve(now_ms) | self.inside.own.serve_others(now_ms);
        self.idle = (self.idle).map(|idle| if any { 0 } else { idle.saturating_add(1) });
        any
    }

    /// Limits sleep if a partition is on the other side of a link, because no waker wakes it for its
    /// messages.
    fn sleep_max(&self) -> Option<Duration> {
        self.idle.map(|idle| match idle {
            0..IDLE_YIELD => Duration::ZERO,
            _ => PAUSE,
        })
    }

    fn partition_work(&self) -> PartitionWork {
        self.work
    }

    fn finish(&mut self) -> io::Result<()> {
        self.inside.own.finish()
    }

    fn replication(&self) -> Option<&dyn ReplicaHost> {
        self.inside.own.replication().map(|_| self as _)
    }

    fn replication_mut(&mut self) -> Option<&mut dyn ReplicaHost> {
        match self.inside.own.replication() {
            Some(_) => Some(self),
            None => None,
        }
    }
}

impl Partitioned {
    /// Waits until the other side of each link has written everything.
    fn wait_for_saves(&mut self) -> Result<(), String> {
        for number in 0..self.peers.len() {
            while self.is_over_link(number) {
                let begin = RemoteEngine::begin_statistics;
                let saved = self.ask(number, self.now_ms, begin, |remote| {
                    remote.poll_statistics().then(|| remote.saved())
                });
                match saved.unwrap_or_else(|| Err("a partition cannot be reached".into()))? {
                    true => break,
                    false => std::thread::sleep(PAUSE),
                }
            }
        }
        Ok(())
    }
}

/// Combines the values that two partitions report under the same name.
fn together(name: &str, one: &str, other: &str) -> String {
    let is_state = name.ends_with("_in_progress") || matches!(name, "loading" | "aof_enabled");
    match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) if is_state => one.max(other).to_string(),
        (Ok(one), Ok(other)) if name.ends_with("_time") => one.min(other).to_string(),
        (Ok(one), Ok(other)) => (one + other).to_string(),
        // Whatever is not well.
        _ if one == "ok" => other.to_owned(),
        _ => one.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::together;

    #[test]
    fn what_is_not_well_in_one_partition_is_said_of_all() {
        assert_eq!(together("aof_last_write_status", "ok", "err"), "err");
        assert_eq!(together("aof_last_write_status", "err", "ok"), "err");
        assert_eq!(together("rdb_changes_since_last_save", "2", "3"), "5");
        assert_eq!(together("rdb_bgsave_in_progress", "0", "1"), "1");
        assert_eq!(together("aof_enabled", "1", "1"), "1");
        assert_eq!(together("rdb_last_save_time", "20", "10"), "10");
    }
}
