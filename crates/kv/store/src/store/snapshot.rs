//! Snapshots without a second process: the state of the partition when the snapshot began.
//!
//! 1. A snapshot has a number, the epoch. A chain of the index with that epoch has been taken.
//! 2. Each step walks over the chains, in the order of scans, and takes those that have not been taken.
//! 3. Before a chain is changed, by any operation, expiry or eviction, it is taken first. A chain
//!    that is split passes its epoch on.
//!
//! So each item is taken once, as it was when the snapshot began. Items taken before a change wait
//! in memory for the next step: as much memory as all items, if all are changed before.

use super::Store;
use super::collection::{Collection, Content};
use super::item::Item;
use super::scan::chain_at;
use crate::request::SortedAddOptions;
use crate::snapshots::Snapshots;
use crate::{Expiry, ExpiryCondition, Operation, SetOptions, ValueKind, codec};

/// Maximum number of fields or members of one request, and about the most bytes.
const PIECE_ELEMENTS: usize = 1024;
const PIECE_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct Snapshot {
    epoch: u32,
    /// Position of the walk over the chains; `None` if no snapshot is being taken.
    position: Option<u64>,
    pending: Vec<u8>,
}

impl Snapshot {
    pub(super) fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn cancel(&mut self) {
        self.position = None;
        self.pending = Vec::new();
    }
}

impl Snapshots for Store {
    fn begin_snapshot(&mut self) -> bool {
        self.snapshot.cancel();
        self.snapshot.epoch += 1;
        self.snapshot.position = Some(0);
        true
    }

    /// The items of one chain, and those that writes have taken meanwhile, can be more than
    /// `max_bytes`. The requests come in any order.
    fn snapshot_step(&mut self, out: &mut Vec<u8>, max_bytes: usize) -> bool {
        let Some(mut position) = self.snapshot.position else {
            return true;
        };
        let start = out.len();
        out.append(&mut std::mem::take(&mut self.snapshot.pending));
        while out.len() - start < max_bytes.max(1) {
            let (home, next) = chain_at(&self.index, position);
            self.take_chain(home, out);
            let Some(next) = next else {
                self.snapshot.cancel();
                return true;
            };
            position = next;
        }
        self.snapshot.position = Some(position);
        false
    }

    fn cancel_snapshot(&mut self) {
        self.snapshot.cancel();
    }

    fn keep_expired(&mut self, keeps: bool) {
        self.keeps_expired = keeps;
    }
}

impl Store {
    /// Takes the chain of this hash if necessary. Call it before anything in the chain is changed.
    #[inline(always)]
    pub(super) fn preserve(&mut self, hash: u64) {
        if self.snapshot.position.is_some() {
            let mut pending = std::mem::take(&mut self.snapshot.pending);
            self.take_chain(self.index.home(hash), &mut pending);
            self.snapshot.pending = pending;
        }
    }

    fn take_chain(&mut self, home: usize, out: &mut Vec<u8>) {
        if self.index.epoch(home) == self.snapshot.epoch {
            return;
        }
        self.index.set_epoch(home, self.snapshot.epoch);
        for offset in self.index.chain(home) {
            let item = self.item(offset);
            let collection = item.collection().map(|number| self.collections.get(number));
            requests_of(item, collection, &mut |operation| {
                codec::encode_operation(item.key(), &operation, out);
            });
        }
    }
}

/// Passes on the requests that make an item.
pub(super) fn requests_of(
    item: Item<'_>,
    collection: Option<&Collection>,
    write: &mut dyn FnMut(Operation<'_>),
) {
    let expiry = item.expires_at_ms().map_or(Expiry::Never, Expiry::At);
    match collection.map(|collection| &collection.content) {
        None => {
            return write(Operation::Set {
                value: item.value(),
                options: SetOptions { flags: item.flags(), expiry, ..SetOptions::default() },
            });
        }
        Some(Content::Hash(hash)) => {
            let mut fields = Vec::new();
            let mut bytes = 0;
            for (field, value) in hash {
                fields.push([&**field, &**value]);
                bytes += field.len() + value.len();
                if fields.len() >= PIECE_ELEMENTS || bytes >= PIECE_BYTES {
                    let fields = std::mem::take(&mut fields).into();
                    write(Operation::HashSet { fields });
                    bytes = 0;
                }
            }
            if !fields.is_empty() {
                let fields = fields.into();
                write(Operation::HashSet { fields });
            }
        }
        Some(Content::Sorted(set)) => {
            let mut members = Vec::new();
            let mut bytes = 0;
            let mut write_members = |members: Vec<(f64, &[u8])>| {
                write(match item.kind() {
                    ValueKind::Set => {
                        Operation::SetAdd { members: members.iter().map(|(_, m)| *m).collect() }
                    }
                    _ => Operation::SortedAdd {
                        members: members.into(),
                        options: SortedAddOptions::default(),
                    },
                });
            };
            set.visit(0..set.len(), false, &mut |score, member| {
                members.push((score, member));
                bytes += member.len();
                if members.len() >= PIECE_ELEMENTS || bytes >= PIECE_BYTES {
                    write_members(std::mem::take(&mut members));
                    bytes = 0;
                }
            });
            if !members.is_empty() {
                write_members(members);
            }
        }
    }
    if item.kind() != ValueKind::String && expiry != Expiry::Never {
        let condition = ExpiryCondition::default();
        write(Operation::Expire { expiry, condition });
    }
}
