//! Queued commands and watched keys of a client, for `EXEC`.

use super::reply::ErrorReply;
use crate::{ARGUMENTS_MAX, COMMAND_MAX_BYTES};
use overside_kv_store::{Answer, KeyHasher, Operation, ProcessingEngine, Request};

/// Commands queued for `EXEC`.
#[derive(Debug, Default)]
pub(crate) struct CommandQueue {
    /// For each command: the number of its arguments, then length and bytes of each.
    bytes: Vec<u8>,
    pub(super) commands: usize,
    arguments: usize,
    pub(super) is_aborted: bool,
}

/// Number of bytes of a number in the queue.
const NUMBER_BYTES: usize = 4;

impl CommandQueue {
    /// Returns the number of bytes of memory that it uses.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Records that a command was refused.
    pub(super) fn abort(&mut self) {
        self.is_aborted = true;
        self.bytes = Vec::new();
    }

    pub(super) fn push(&mut self, arguments: &[&[u8]]) -> Result<(), ErrorReply> {
        if self.is_aborted {
            return Ok(());
        }
        let len: usize = arguments.iter().map(|a| NUMBER_BYTES + a.len()).sum();
        self.arguments += arguments.len();
        if self.bytes.len() + NUMBER_BYTES + len > COMMAND_MAX_BYTES
            || self.arguments > ARGUMENTS_MAX
        {
            self.abort();
            return Err(ErrorReply::new("ERR transaction is too long"));
        }
        self.commands += 1;
        // Commands are shorter than 4 GiB.
        let mut number = |number: usize, bytes: &[u8]| {
            self.bytes.extend_from_slice(&(number as u32).to_le_bytes());
            self.bytes.extend_from_slice(bytes);
        };
        number(arguments.len(), &[]);
        arguments.iter().for_each(|a| number(a.len(), a));
        Ok(())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Vec<&[u8]>> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let arguments = take_number(&mut rest)?;
            (0..arguments)
                .map(|_| {
                    let len = take_number(&mut rest)?;
                    rest.split_off(..len)
                })
                .collect()
        })
    }
}

fn take_number(bytes: &mut &[u8]) -> Option<usize> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*number) as usize)
}

/// Watched keys, which must not change before `EXEC`, with their versions; 0 if missing.
#[derive(Debug, Default)]
pub(crate) struct WatchedKeys {
    pub(super) keys: Vec<(Box<[u8]>, u64)>,
    bytes: usize,
}

impl WatchedKeys {
    const KEYS_MAX: usize = 4 << 10;
    const BYTES_MAX: usize = 16 << 20;

    /// Returns the number of bytes of memory that they use.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.keys.capacity() * size_of::<(Box<[u8]>, u64)>()
    }

    pub(super) fn watch(
        &mut self,
        key: &[u8],
        hash: u64,
        engine: &mut dyn ProcessingEngine,
        now_ms: u64,
    ) -> Result<(), ErrorReply> {
        // If a key is watched twice, its first version counts.
        if self.keys.iter().any(|(watched, _)| **watched == *key) {
            return Ok(());
        }
        self.bytes += key.len();
        if self.keys.len() >= Self::KEYS_MAX || self.bytes > Self::BYTES_MAX {
            return Err(ErrorReply::new("ERR too many watched keys"));
        }
        let mut version = 0;
        let operation = Operation::Watch;
        let request = Request { key, hash, operation };
        engine.execute(&[request], now_ms, &mut |_, answer| {
            if let Answer::Number(number) = answer {
                version = number as u64;
            }
        });
        self.keys.push((key.into(), version));
        Ok(())
    }

    pub(super) fn with_hashes(&self, hasher: &KeyHasher) -> Vec<(&[u8], u64, u64)> {
        let keys = self.keys.iter();
        keys.map(|(key, version)| (&**key, hasher.hash(key), *version)).collect()
    }
}
