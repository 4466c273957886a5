//! Implementation of [`StorageBackend`] for a worker that has one of several partitions.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Partitioned;
use super::local_partition::LocalPartition;
use crate::{ProcessingEngine, RemoteEngine};
use overside_kv_backend::Waker;
use overside_kv_backend::idle::{IDLE_YIELD, PAUSE};
use overside_kv_backend::replica::ReplicaHost;
use overside_kv_backend::{PartitionWork, StorageBackend};

/// Time between two reports of other threads to a worker that has no partition, in milliseconds.
const REFRESH_MS: u64 = 1000;

impl StorageBackend for Partitioned {
    /// Other threads keep their writes before they answer.
    fn before_replies(&mut self) -> io::Result<()> {
        self.inside.as_mut().map_or(Ok(()), LocalPartition::before_replies)
    }

    fn tick(&mut self, now_ms: u64) -> bool {
        self.now_ms = now_ms;
        self.check();
        match &mut self.inside {
            Some(inside) => inside.own.tick(now_ms),
            None => {
                if now_ms >= self.next_refresh_ms {
                    self.next_refresh_ms = now_ms + REFRESH_MS;
                    self.refresh();
                }
                false
            }
        }
    }

    /// All partitions at the same time.
    fn save(&mut self, in_background: bool) -> Result<(), String> {
        for number in self.asked_by_messages() {
            self.way(number).save(true)?;
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
        let own = self.inside.as_ref().map(|inside| inside.own.last_save_s());
        let all = self.elsewhere.last_saves_s.iter().copied().chain(own);
        all.min().unwrap_or_default()
    }

    fn info(&self) -> Vec<(String, String)> {
        let own = self.inside.as_ref().map(|inside| inside.own.info());
        let mut others = self.elsewhere.info.iter();
        let mut all = own.or_else(|| others.next().cloned()).unwrap_or_default();
        for info in others {
            for (name, value) in info {
                match all.iter_mut().find(|(other, _)| other == name) {
                    Some((_, own)) => *own = together(name, own, value),
                    // Only threads without clients say where their time goes.
                    None => all.push((name.clone(), value.clone())),
                }
            }
        }
        // Every link shows what all of the side have moved.
        let mut peers = self.peers.iter().flatten();
        if let Some(peer) = peers.find(|peer| peer.is_link) {
            all.extend(peer.remote.counts().info());
        }
        all
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let own = self.inside.as_ref().map(|inside| inside.own.parameters());
        let mut parameters = own.unwrap_or_default();
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
        let inside = self.inside.as_mut();
        let own = inside.is_some_and(|inside| inside.own.serve_others(now_ms));
        let any = self.serve(now_ms) | own;
        self.idle = (self.idle).map(|idle| if any { 0 } else { idle.saturating_add(1) });
        any
    }

    /// Limits sleep if requests come over links, because no waker wakes it for those.
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
        self.inside.as_mut().map_or(Ok(()), |inside| inside.own.finish())
    }

    fn replication(&self) -> Option<&dyn ReplicaHost> {
        self.own_replication().map(|_| self as _)
    }

    fn replication_mut(&mut self) -> Option<&mut dyn ReplicaHost> {
        match self.own_replication() {
            Some(_) => Some(self),
            None => None,
        }
    }
}

impl Partitioned {
    /// Waits until each partition that is asked by messages has written everything.
    fn wait_for_saves(&mut self) -> Result<(), String> {
        for number in self.asked_by_messages() {
            loop {
                let mut way = self.way(number);
                way.refresh();
                match way.told(RemoteEngine::saved).unwrap_or(Ok(true))? {
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
