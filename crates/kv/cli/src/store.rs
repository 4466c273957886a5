//! Options of a server's store: its memory, and its behavior when that is full.

use std::ops::RangeInclusive;

use clap::ArgAction;
use overside_agent::default_memory_bytes;
use overside_command::options::size_within;
use overside_kv::store::{MEMORY_MAX_BYTES, MEMORY_MIN_BYTES, Semantics, StoreOptions};
use overside_kv::{KeyHasher, Store};
use overside_kv_offload::agent::StoreLimits;

use super::limits::one_of;

const MEMORY: RangeInclusive<usize> = MEMORY_MIN_BYTES..=MEMORY_MAX_BYTES;

#[derive(clap::Args)]
#[command(next_help_heading = "Store")]
pub(super) struct StoreArguments {
    /// Memory of the store, its index included [default: half of the machine's, or two thirds of what a
    /// service may have if that is less]
    #[arg(long, value_name = "SIZE", value_parser = size_within(MEMORY))]
    memory: Option<usize>,
    /// Behavior when memory is full: `store` refuses writes, `cache` drops the oldest values
    #[arg(long, default_value = "store",
          value_parser = one_of([("store", Semantics::Store), ("cache", Semantics::Cache)]))]
    semantics: Semantics,
    /// Huge pages for the store: `auto` uses them if the machine has them
    #[arg(long, default_value = "auto", action = ArgAction::Set,
          value_parser = one_of([("auto", true), ("off", false)]))]
    huge_pages: bool,
}

impl StoreArguments {
    /// Returns `true` if the store drops the oldest values when memory is full.
    pub(super) fn is_cache(&self) -> bool {
        self.semantics == Semantics::Cache
    }

    /// Value of `--memory` in bytes; `None` if it is not given.
    pub(super) fn memory_bytes(&self) -> Option<u64> {
        self.memory.map(|bytes| bytes as u64)
    }

    /// Returns the default memory of all partitions on this machine.
    pub(super) fn default_bytes() -> u64 {
        default_memory_bytes().min(MEMORY_MAX_BYTES as u64)
    }

    /// Refuses too little memory for the number of partitions.
    pub(super) fn check(all_bytes: u64, partitions: usize) -> Result<(), String> {
        match all_bytes / partitions as u64 >= MEMORY_MIN_BYTES as u64 {
            true => Ok(()),
            false => Err(format!(
                "--memory is too little for {partitions} cores: each needs {} MiB at least",
                MEMORY_MIN_BYTES >> 20
            )),
        }
    }

    /// Opens partitions of `bytes` bytes each.
    pub(super) fn open(
        &self,
        partitions: usize,
        memory_bytes: usize,
        hasher: &KeyHasher,
    ) -> Result<Vec<Store>, String> {
        let store = |_| {
            let store = Store::new(StoreOptions {
                memory_bytes,
                semantics: self.semantics,
                hasher: hasher.clone(),
                huge_pages: self.huge_pages,
            });
            store.map_err(|error| format!("{error}; --memory SIZE takes less"))
        };
        (0..partitions).map(store).collect()
    }

    /// Limits of the store for the agent, for all partitions together.
    pub(super) fn limits(&self, memory_bytes: u64) -> StoreLimits {
        StoreLimits { memory_bytes, is_cache: self.is_cache(), huge_pages: self.huge_pages }
    }
}
