//! An item: a key, its value and its metadata, in one piece of memory.
//!
//! ```text
//!   header (8) | version (8) | expiry (8, if any) | flags (4, if not 0) | key | value
//! ```
//!
//! The header has the lengths of key (17 bits) and value (27 bits), the kind, and which optional
//! fields there are. The value of a hash or a sorted set is the number of its collection.

use crate::ValueKind;

/// Items are placed at multiples of this, and take multiples of it.
pub(super) const UNIT: usize = 16;

const KEY_BITS: u32 = 17;
const VALUE_BITS: u32 = 27;
const KIND_AT: u32 = KEY_BITS + VALUE_BITS;
const HAS_FLAGS: u64 = 1 << (KIND_AT + 2);
const HAS_EXPIRY: u64 = 1 << (KIND_AT + 3);
const DEAD: u64 = 1 << (KIND_AT + 4);
const FIXED: usize = 16;

/// Content of an item that is to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewItem<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    pub(super) kind: ValueKind,
    pub(super) flags: u32,
    pub(super) expires_at_ms: Option<u64>,
}

impl NewItem<'_> {
    #[inline(always)]
    fn header(&self) -> Header {
        let kind = match self.kind {
            ValueKind::String => 0,
            ValueKind::Hash => 1,
            ValueKind::SortedSet => 2,
            ValueKind::Set => 3,
        };
        let mut header = self.key.len() as u64 | (self.value.len() as u64) << KEY_BITS;
        header |= kind << KIND_AT;
        if self.flags != 0 {
            header |= HAS_FLAGS;
        }
        if self.expires_at_ms.is_some() {
            header |= HAS_EXPIRY;
        }
        Header(header)
    }

    /// Memory it takes, a multiple of [`UNIT`].
    #[inline]
    pub(super) fn size(&self) -> usize {
        self.header().size()
    }

    /// Writes it to the front of `memory`, which is large enough.
    #[inline]
    pub(super) fn write(&self, version: u64, memory: &mut [u8]) {
        let header = self.header();
        memory[..8].copy_from_slice(&header.0.to_le_bytes());
        memory[8..16].copy_from_slice(&version.to_le_bytes());
        if let Some(at) = self.expires_at_ms {
            memory[FIXED..FIXED + 8].copy_from_slice(&at.to_le_bytes());
        }
        let key_at = header.key_at();
        if self.flags != 0 {
            memory[key_at - 4..key_at].copy_from_slice(&self.flags.to_le_bytes());
        }
        let value_at = key_at + self.key.len();
        copy(&mut memory[key_at..value_at], self.key);
        copy(&mut memory[value_at..value_at + self.value.len()], self.value);
    }
}

/// Maximum number of keys and values that are many have eight bytes: no call for those.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    match (<&mut [u8; 8]>::try_from(&mut *to), <&[u8; 8]>::try_from(from)) {
        (Ok(to), Ok(from)) => *to = *from,
        _ => to.copy_from_slice(from),
    }
}

#[inline(always)]
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    match (<&[u8; 8]>::try_from(a), <&[u8; 8]>::try_from(b)) {
        (Ok(a), Ok(b)) => u64::from_le_bytes(*a) == u64::from_le_bytes(*b),
        _ => a == b,
    }
}

#[derive(Clone, Copy, Debug)]
struct Header(u64);

impl Header {
    #[inline(always)]
    fn key_len(self) -> usize {
        (self.0 & ((1 << KEY_BITS) - 1)) as usize
    }

    #[inline(always)]
    fn value_len(self) -> usize {
        (self.0 >> KEY_BITS & ((1 << VALUE_BITS) - 1)) as usize
    }

    fn with_value_len(self, len: usize) -> Self {
        let mask = ((1 << VALUE_BITS) - 1) << KEY_BITS;
        Self(self.0 & !mask | (len as u64) << KEY_BITS)
    }

    #[inline(always)]
    fn key_at(self) -> usize {
        FIXED + (self.0 & HAS_EXPIRY != 0) as usize * 8 + (self.0 & HAS_FLAGS != 0) as usize * 4
    }

    #[inline(always)]
    fn size(self) -> usize {
        (self.key_at() + self.key_len() + self.value_len()).next_multiple_of(UNIT)
    }
}

/// An item that was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    header: Header,
    memory: &'a [u8],
}

impl<'a> Item<'a> {
    /// The item at `offset`, in units.
    #[inline(always)]
    pub(super) fn at(memory: &'a [u8], offset: u32) -> Self {
        let memory = &memory[offset as usize * UNIT..];
        Self { header: Header(word(memory, 0)), memory }
    }

    #[inline(always)]
    pub(super) fn key(&self) -> &'a [u8] {
        let at = self.header.key_at();
        &self.memory[at..at + self.header.key_len()]
    }

    #[inline(always)]
    pub(super) fn has_key(&self, key: &[u8]) -> bool {
        self.header.key_len() == key.len() && is_equal(self.key(), key)
    }

    #[inline(always)]
    pub(super) fn value(&self) -> &'a [u8] {
        let at = self.header.key_at() + self.header.key_len();
        &self.memory[at..at + self.header.value_len()]
    }

    #[inline(always)]
    pub(super) fn version(&self) -> u64 {
        word(self.memory, 8)
    }

    #[inline(always)]
    pub(super) fn expires_at_ms(&self) -> Option<u64> {
        (self.header.0 & HAS_EXPIRY != 0).then(|| word(self.memory, FIXED))
    }

    #[inline(always)]
    pub(super) fn flags(&self) -> u32 {
        if self.header.0 & HAS_FLAGS == 0 {
            return 0;
        }
        let at = self.header.key_at();
        let bytes = self.memory[at - 4..at].try_into();
        u32::from_le_bytes(bytes.expect("four bytes"))
    }

    #[inline(always)]
    pub(super) fn kind(&self) -> ValueKind {
        match self.header.0 >> KIND_AT & 3 {
            0 => ValueKind::String,
            1 => ValueKind::Hash,
            2 => ValueKind::SortedSet,
            _ => ValueKind::Set,
        }
    }

    /// Number of the collection of a hash, a set or a sorted set.
    pub(super) fn collection(&self) -> Option<u32> {
        match self.kind() {
            ValueKind::String => None,
            _ => self.value().try_into().ok().map(u32::from_le_bytes),
        }
    }

    /// Memory it takes.
    #[inline(always)]
    pub(super) fn size(&self) -> usize {
        self.header.size()
    }

    /// Memory it would take with a value of another length.
    pub(super) fn size_with_value(&self, len: usize) -> usize {
        self.header.with_value_len(len).size()
    }

    /// Returns `true` if `new` has the same parts with the same lengths.
    #[inline(always)]
    pub(super) fn has_layout_of(&self, new: &NewItem<'_>) -> bool {
        self.header.0 == new.header().0
    }

    /// Returns `true` if the item was replaced or removed.
    pub(super) fn is_dead(&self) -> bool {
        self.header.0 & DEAD != 0
    }
}

/// Marks an item as replaced or removed, for scans of the memory.
pub(super) fn mark_dead(memory: &mut [u8], offset: u32) {
    let at = offset as usize * UNIT;
    let header = word(memory, at) | DEAD;
    memory[at..at + 8].copy_from_slice(&header.to_le_bytes());
}

#[inline(always)]
fn word(memory: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(memory[at..at + 8].try_into().expect("eight bytes"))
}

/// Changes version and expiry of an item. It must have had an expiry if and only if the new one is set.
pub(super) fn patch(memory: &mut [u8], offset: u32, version: u64, expires_at_ms: Option<u64>) {
    let memory = &mut memory[offset as usize * UNIT..];
    memory[8..16].copy_from_slice(&version.to_le_bytes());
    if let Some(at) = expires_at_ms {
        memory[FIXED..FIXED + 8].copy_from_slice(&at.to_le_bytes());
    }
}

/// Writes part of a value that may become longer, with zeros in between; the memory is large enough.
pub(super) fn write_part(memory: &mut [u8], offset: u32, version: u64, at: usize, part: &[u8]) {
    let memory = &mut memory[offset as usize * UNIT..];
    let header = Header(word(memory, 0));
    let (len, end) = (header.value_len(), at + part.len());
    let value_at = header.key_at() + header.key_len();
    let value = &mut memory[value_at..value_at + len.max(end)];
    if at > len {
        value[len..at].fill(0);
    }
    value[at..end].copy_from_slice(part);
    let header = header.with_value_len(len.max(end));
    memory[..8].copy_from_slice(&header.0.to_le_bytes());
    memory[8..16].copy_from_slice(&version.to_le_bytes());
}
