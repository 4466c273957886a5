//! Hashes, sets and sorted sets, which are stored apart from the items. A set is a sorted set whose scores are 0, so
//! that members of any rank are found.
//!
//! Their memory is counted approximately: the C library's allocation for each string, and the nodes
//! of the trees at two thirds of their capacity.

use std::collections::BTreeMap;

use slab::Slab;

use super::sorted_set::SortedSet;
use crate::{Element, ListBuilder, ValueKind};

pub(super) type Hash = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// Memory of an empty one.
const EMPTY_BYTES: usize = 160;

#[derive(Debug)]
pub(super) enum Content {
    Hash(Hash),
    Sorted(SortedSet),
}

#[derive(Debug)]
pub(super) struct Collection {
    pub(super) content: Content,
    /// Bytes of fields and values, or of members and scores.
    pub(super) payload_bytes: usize,
    /// Memory it takes.
    pub(super) memory_bytes: usize,
}

impl Collection {
    pub(super) fn new(kind: ValueKind, seed: u64) -> Self {
        Self {
            content: match kind {
                ValueKind::SortedSet | ValueKind::Set => Content::Sorted(SortedSet::new(seed)),
                _ => Content::Hash(Hash::new()),
            },
            payload_bytes: 0,
            memory_bytes: EMPTY_BYTES,
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.content {
            Content::Hash(hash) => hash.len(),
            Content::Sorted(sorted) => sorted.len(),
        }
    }

    /// Value of a field.
    pub(super) fn field(&self, field: &[u8]) -> Option<&[u8]> {
        match &self.content {
            Content::Hash(hash) => hash.get(field).map(|value| &**value),
            Content::Sorted(_) => None,
        }
    }

    /// Adds the elements of these ranks, or all, to a list: fields with values, or members with scores. `is_set`: members
    /// without.
    pub(super) fn list(
        &self,
        is_set: bool,
        ranks: Option<&mut dyn Iterator<Item = usize>>,
        list: &mut ListBuilder,
    ) {
        let mut push = |first: &[u8], second: Element<'_>| {
            list.push(Element::Bytes(first));
            if !is_set {
                list.push(second);
            }
            !list.is_too_long()
        };
        match (&self.content, ranks) {
            (Content::Hash(hash), None) => {
                _ = hash.iter().all(|(field, value)| push(field, Element::Bytes(value)));
            }
            (Content::Hash(hash), Some(mut ranks)) => {
                let all: Vec<_> = hash.iter().collect();
                _ = Iterator::all(&mut ranks, |rank| {
                    push(all[rank].0, Element::Bytes(all[rank].1))
                });
            }
            (Content::Sorted(set), None) => {
                set.visit(0..set.len(), false, &mut |score, member| {
                    push(member, Element::Score(score));
                });
            }
            (Content::Sorted(set), Some(mut ranks)) => {
                _ = Iterator::all(&mut ranks, |rank| {
                    let mut goes_on = false;
                    set.visit(rank..rank + 1, false, &mut |score, member| {
                        goes_on = push(member, Element::Score(score));
                    });
                    goes_on
                });
            }
        }
    }

    /// Sets a field. Returns `true` if it is new.
    pub(super) fn set_field(&mut self, field: &[u8], value: &[u8]) -> bool {
        let Content::Hash(hash) = &mut self.content else {
            return false;
        };
        self.payload_bytes += value.len();
        self.memory_bytes += allocated(value.len());
        if let Some(old) = hash.get_mut(field) {
            self.payload_bytes -= old.len();
            self.memory_bytes -= allocated(old.len());
            *old = value.into();
            return false;
        }
        hash.insert(field.into(), value.into());
        self.payload_bytes += field.len();
        self.memory_bytes += field_bytes(field.len(), value.len()) - allocated(value.len());
        true
    }

    /// Removes a field. Returns `true` if it existed.
    pub(super) fn remove_field(&mut self, field: &[u8]) -> bool {
        let Content::Hash(hash) = &mut self.content else {
            return false;
        };
        let Some(value) = hash.remove(field) else {
            return false;
        };
        self.payload_bytes -= field.len() + value.len();
        self.memory_bytes -= field_bytes(field.len(), value.len());
        true
    }

    /// Adds a member or changes its score. Returns `true` if it is new.
    pub(super) fn set_score(&mut self, member: &[u8], score: f64) -> bool {
        let Content::Sorted(sorted) = &mut self.content else {
            return false;
        };
        let node_bytes = sorted.node_bytes();
        let is_new = sorted.insert(member, score);
        if is_new {
            self.payload_bytes += member.len() + size_of::<f64>();
            self.memory_bytes += member_bytes(member.len()) + sorted.node_bytes() - node_bytes;
        }
        is_new
    }

    /// Bytes by which memory may grow with `added` new members, in addition to that of each.
    pub(super) fn growth_bytes(&self, added: usize) -> usize {
        match &self.content {
            Content::Sorted(sorted) => sorted.growth_bytes(added),
            Content::Hash(_) => 0,
        }
    }

    /// Removes a member. Returns `true` if it existed.
    pub(super) fn remove_member(&mut self, member: &[u8]) -> bool {
        let Content::Sorted(sorted) = &mut self.content else {
            return false;
        };
        let node_bytes = sorted.node_bytes();
        let was_there = sorted.remove(member);
        if was_there {
            self.payload_bytes -= member.len() + size_of::<f64>();
            self.memory_bytes -= member_bytes(member.len()) + node_bytes - sorted.node_bytes();
        }
        was_there
    }
}

/// Memory of a field and its value.
pub(super) fn field_bytes(field: usize, value: usize) -> usize {
    48 + allocated(field) + allocated(value)
}

/// Memory of a member and its score, without its node.
pub(super) fn member_bytes(member: usize) -> usize {
    56 + allocated(member + 16)
}

fn allocated(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        bytes => (bytes + 8).next_multiple_of(16).max(32),
    }
}

/// All hashes, sets and sorted sets of a partition.
#[derive(Debug, Default)]
pub(super) struct Collections {
    all: Slab<Collection>,
    bytes: usize,
}

impl Collections {
    /// Memory they take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn add(&mut self, collection: Collection) -> u32 {
        self.bytes += collection.memory_bytes;
        u32::try_from(self.all.insert(collection)).expect("items are fewer")
    }

    pub(super) fn remove(&mut self, number: u32) -> Collection {
        let collection = self.all.remove(number as usize);
        self.bytes -= collection.memory_bytes;
        collection
    }

    pub(super) fn get(&self, number: u32) -> &Collection {
        &self.all[number as usize]
    }

    /// Changes one; returns by how many bytes its payload grew, too.
    pub(super) fn change<T>(
        &mut self,
        number: u32,
        change: impl FnOnce(&mut Collection) -> T,
    ) -> (T, i64) {
        let collection = &mut self.all[number as usize];
        let (payload, memory) = (collection.payload_bytes, collection.memory_bytes);
        let result = change(collection);
        self.bytes = self.bytes - memory + collection.memory_bytes;
        (result, collection.payload_bytes as i64 - payload as i64)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
