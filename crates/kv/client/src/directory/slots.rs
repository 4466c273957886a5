//! Owners of the hash slots of a cluster: the entry `PREFIX/slots`.
//!
//! It has no lease: slots belong to a server as its data does, whether it runs or not. The server's endpoints, which
//! have leases, say whether it is there. Every change compares the entry's revision, so that of two servers that
//! want a slot one has it.
//!
//! ```json
//! {"format": 1, "slots": [
//!   {"first": 0, "last": 5460, "owner": "a"},
//!   {"first": 5461, "last": 5461, "owner": "a", "to": "b"}]}
//! ```
//!
//! | `to` | `from` | a slot |
//! |---|---|---|
//! | | | belongs to its owner |
//! | a server | | belongs to its owner, which moves it to that server |
//! | | a server | belongs to its owner; the server that had it has yet to remove its keys |

use std::collections::BTreeMap;
use std::sync::Arc;

use overside_kv_store::partition::SLOTS;
use serde::{Deserialize, Serialize};

use super::entry::is_server_name;
use super::{DirectoryError, Etcd, Location};

const FORMAT: u32 = 1;
/// Longest entry in bytes: a slot each.
const VALUE_MAX_BYTES: usize = 4 << 20;
/// Attempts at a change while others change the entry, too.
const ATTEMPTS: usize = 100;

/// Owner of a slot, and its move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Name of the server that owns the slot.
    pub owner: Arc<str>,
    /// Server that the owner moves it to.
    pub to: Option<Arc<str>>,
    /// Server that had it, until that has removed its keys.
    pub from: Option<Arc<str>>,
}

impl Assignment {
    /// The slot of a server that does not move.
    #[must_use]
    pub fn of(owner: Arc<str>) -> Self {
        Self { owner, to: None, from: None }
    }
}

/// Owners of all slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotTable(BTreeMap<u16, Assignment>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: u32,
    slots: Vec<RangeRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RangeRecord {
    first: u16,
    last: u16,
    owner: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<String>,
}

impl SlotTable {
    /// Returns the key of the entry.
    #[must_use]
    pub fn key(location: &Location) -> String {
        format!("{}/slots", location.prefix())
    }

    /// Returns a slot's assignment; `None` if nobody owns it.
    #[must_use]
    pub fn get(&self, slot: u16) -> Option<&Assignment> {
        self.0.get(&slot)
    }

    /// Assigns a slot.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn set(&mut self, slot: u16, assignment: Assignment) {
        assert!(slot < SLOTS, "a slot");
        self.0.insert(slot, assignment);
    }

    /// Returns the assigned slots in order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Assignment)> {
        self.0.iter().map(|(slot, assignment)| (*slot, assignment))
    }

    /// Returns ranges of adjacent slots with the same assignment: first, last and assignment.
    #[must_use]
    pub fn ranges(&self) -> Vec<(u16, u16, &Assignment)> {
        let mut ranges: Vec<(u16, u16, &Assignment)> = Vec::new();
        for (slot, assignment) in self.iter() {
            match ranges.last_mut() {
                Some((_, last, before)) if *last + 1 == slot && *before == assignment => {
                    *last = slot
                }
                _ => ranges.push((slot, slot, assignment)),
            }
        }
        ranges
    }

    /// Returns the value that is stored in the directory, as JSON.
    ///
    /// # Panics
    /// Never: these fields are all JSON.
    #[must_use]
    pub fn value(&self) -> Vec<u8> {
        let text = |name: &Option<Arc<str>>| name.as_ref().map(|name| name.to_string());
        let slots = self.ranges().into_iter().map(|(first, last, one)| RangeRecord {
            first,
            last,
            owner: one.owner.to_string(),
            to: text(&one.to),
            from: text(&one.from),
        });
        let record = Record { format: FORMAT, slots: slots.collect() };
        serde_json::to_vec(&record).expect("strings and numbers are JSON")
    }

    /// Parses an entry.
    ///
    /// # Errors
    /// [`DirectoryError::Entry`]: it is invalid.
    pub fn parse(location: &Location, value: &[u8]) -> Result<Self, DirectoryError> {
        let wrong = |reason: String| DirectoryError::Entry { key: Self::key(location), reason };
        if value.len() > VALUE_MAX_BYTES {
            return Err(wrong("too long".into()));
        }
        let record: Record =
            serde_json::from_slice(value).map_err(|error| wrong(error.to_string()))?;
        if record.format != FORMAT {
            return Err(wrong("of another version".into()));
        }
        let mut table = Self::default();
        for range in record.slots {
            let RangeRecord { first, last, owner, to, from } = range;
            let names = [Some(&owner), to.as_ref(), from.as_ref()];
            if first > last
                || last >= SLOTS
                || !names.into_iter().flatten().all(|n| is_server_name(n))
            {
                return Err(wrong(format!("impossible slots or names at {first}")));
            }
            let assignment = Assignment {
                owner: owner.into(),
                to: to.map(Into::into),
                from: from.map(Into::into),
            };
            for slot in first..=last {
                if table.0.insert(slot, assignment.clone()).is_some() {
                    return Err(wrong(format!("slot {slot} is there twice")));
                }
            }
        }
        Ok(table)
    }

    /// Reads the table and its revision: 0, and an empty table, if there is none.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn read(etcd: &Etcd) -> Result<(Self, i64), DirectoryError> {
        let key = Self::key(etcd.location());
        let found = etcd.range(&key)?;
        match found.entries.iter().find(|entry| entry.key == key.as_bytes()) {
            None => Ok((Self::default(), 0)),
            Some(entry) => Ok((Self::parse(etcd.location(), &entry.value)?, entry.revision)),
        }
    }

    /// Changes the table: `change` gets it as it is now, again if others were faster. Nothing is written if it
    /// changes nothing. Returns the table afterwards.
    ///
    /// # Errors
    /// That of `change`, or a [`DirectoryError`]; if etcd did not answer, the change may have been made.
    pub fn update<E: From<DirectoryError>>(
        etcd: &Etcd,
        mut change: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<Self, E> {
        let key = Self::key(etcd.location());
        for _ in 0..ATTEMPTS {
            let (before, revision) = Self::read(etcd)?;
            let mut table = before.clone();
            change(&mut table)?;
            if table == before || etcd.put_if(&key, &table.value(), revision)? {
                return Ok(table);
            }
        }
        Err(E::from(DirectoryError::Contention { key }))
    }
}

#[cfg(test)]
mod tests {
    use super::{Assignment, SlotTable};

    #[test]
    fn tables_are_read_as_they_were_written() {
        let location = "etcd://a".parse().unwrap();
        let mut table = SlotTable::default();
        for slot in 0..=5461 {
            let to = (slot == 5461).then(|| "b".into());
            table.set(slot, Assignment { to, ..Assignment::of("a".into()) });
        }
        let text = r#"{"format":1,"slots":[{"first":0,"last":5460,"owner":"a"},{"first":5461,"last":5461,"owner":"a","to":"b"}]}"#;
        assert_eq!(String::from_utf8(table.value()).unwrap(), text);
        assert_eq!(SlotTable::parse(&location, text.as_bytes()), Ok(table));
        assert_eq!(SlotTable::key(&location), "/overside/kv/slots");
    }

    #[test]
    fn garbage_is_no_table() {
        let location = "etcd://a".parse().unwrap();
        let ranges = |ranges: &str| format!(r#"{{"format":1,"slots":[{ranges}]}}"#);
        for text in [
            String::new(),
            "[]".into(),
            r#"{"format":2,"slots":[]}"#.into(),
            r#"{"format":1}"#.into(),
            ranges(r#"{"first":1,"last":0,"owner":"a"}"#),
            ranges(r#"{"first":0,"last":16384,"owner":"a"}"#),
            ranges(r#"{"first":-1,"last":0,"owner":"a"}"#),
            ranges(r#"{"first":0,"last":0,"owner":"a/b"}"#),
            ranges(r#"{"first":0,"last":0,"owner":"a","to":""}"#),
            ranges(r#"{"first":0,"last":0,"owner":"a","more":1}"#),
            ranges(r#"{"first":0,"last":5,"owner":"a"},{"first":5,"last":6,"owner":"b"}"#),
        ] {
            assert!(SlotTable::parse(&location, text.as_bytes()).is_err(), "{text}");
        }
    }
}
