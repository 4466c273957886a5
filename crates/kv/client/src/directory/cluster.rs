//! Servers of a cluster: the entry `PREFIX/cluster`, which clients read and no server writes.
//!
//! - `{"format": 1, "members": ["a", "b"]}`: these servers, even if they are not registered. Keys of an
//!   unregistered one cannot be read or written.
//! - `{"format": 1, "expiry_s": 60}`: all registered caches. If one is gone, others take its place, so
//!   it may come back with older values: clients store nothing for longer than this.

use serde::{Deserialize, Serialize};

use super::entry::is_server_name;
use super::{DirectoryError, Etcd, Location};

const FORMAT: u32 = 1;
/// Maximum number of servers of a cluster.
pub const MEMBERS_MAX: usize = 1024;
/// Longest time that a value is stored in a cluster of all registered caches, in seconds.
pub const EXPIRY_MAX_S: u64 = 86_400;

/// Servers that belong to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    /// These servers.
    Fixed(Vec<String>),
    /// All caches that are registered.
    Registered {
        /// Longest time that values are stored, in seconds.
        expiry_s: u64,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    members: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expiry_s: Option<u64>,
}

impl Membership {
    /// The key of a directory's cluster.
    #[must_use]
    pub fn key(location: &Location) -> String {
        format!("{}/cluster", location.prefix())
    }

    /// Reads the membership from a directory; `None` if there is no cluster.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn read(etcd: &Etcd) -> Result<Option<Self>, DirectoryError> {
        let location = etcd.location();
        let key = Self::key(location);
        let found = etcd.range(&key)?;
        let mut entries = found.entries.iter();
        let entry = entries.find(|entry| entry.key == key.as_bytes());
        entry.map(|entry| Self::parse(location, &entry.value)).transpose()
    }

    /// Checks its fields.
    ///
    /// # Errors
    /// Description of the invalid field.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Fixed(members) => {
                if !(1..=MEMBERS_MAX).contains(&members.len()) {
                    return Err(format!("a cluster has from 1 to {MEMBERS_MAX} servers"));
                }
                if let Some(name) = members.iter().find(|name| !is_server_name(name)) {
                    let name = name.escape_debug();
                    return Err(format!("no server is called `{name}`"));
                }
                let is_repeated = |at: &usize| members[..*at].contains(&members[*at]);
                match (1..members.len()).find(is_repeated) {
                    Some(at) => Err(format!("{} is there twice", members[at])),
                    None => Ok(()),
                }
            }
            Self::Registered { expiry_s } => match (1..=EXPIRY_MAX_S).contains(expiry_s) {
                true => Ok(()),
                false => Err(format!("values are stored from 1 to {EXPIRY_MAX_S} s")),
            },
        }
    }

    /// Returns the value that is stored in the directory, as JSON.
    ///
    /// # Panics
    /// Never: these fields are all JSON.
    #[must_use]
    pub fn value(&self) -> Vec<u8> {
        let (members, expiry_s) = match self {
            Self::Fixed(members) => (Some(members.clone()), None),
            Self::Registered { expiry_s } => (None, Some(*expiry_s)),
        };
        let record = Record { format: FORMAT, members, expiry_s };
        serde_json::to_vec(&record).expect("strings and numbers are JSON")
    }

    /// Parses an entry.
    ///
    /// # Errors
    /// [`DirectoryError::Entry`]: it is invalid.
    pub fn parse(location: &Location, value: &[u8]) -> Result<Self, DirectoryError> {
        let wrong = |reason: String| DirectoryError::Entry { key: Self::key(location), reason };
        let record: Record =
            serde_json::from_slice(value).map_err(|error| wrong(error.to_string()))?;
        let membership = match (record.format, record.members, record.expiry_s) {
            (FORMAT, Some(members), None) => Self::Fixed(members),
            (FORMAT, None, Some(expiry_s)) => Self::Registered { expiry_s },
            (FORMAT, ..) => return Err(wrong("it needs members or expiry_s, not both".into())),
            _ => return Err(wrong("of another version".into())),
        };
        membership.check().map_err(wrong)?;
        Ok(membership)
    }
}

#[cfg(test)]
mod tests {
    use super::Membership;

    #[test]
    fn memberships_are_read_as_they_were_written() {
        let location = "etcd://a".parse().unwrap();
        assert_eq!(Membership::key(&location), "/overside/kv/cluster");
        for (membership, text) in [
            (
                Membership::Fixed(vec!["b".into(), "a".into()]),
                r#"{"format":1,"members":["b","a"]}"#,
            ),
            (Membership::Registered { expiry_s: 60 }, r#"{"format":1,"expiry_s":60}"#),
        ] {
            assert_eq!(membership.value(), text.as_bytes());
            assert_eq!(Membership::parse(&location, text.as_bytes()), Ok(membership));
        }
    }

    #[test]
    fn what_clients_might_read_in_two_ways_is_refused() {
        let location = "etcd://a".parse().unwrap();
        for text in [
            "",
            "[]",
            r#"{"format":1}"#,
            r#"{"format":2,"expiry_s":60}"#,
            r#"{"format":1,"expiry_s":60,"members":["a"]}"#,
            r#"{"format":1,"expiry_s":0}"#,
            r#"{"format":1,"expiry_s":90000}"#,
            r#"{"format":1,"members":[]}"#,
            r#"{"format":1,"members":["a","a"]}"#,
            r#"{"format":1,"members":["a/b"]}"#,
            r#"{"format":1,"members":["a"],"weights":[1]}"#,
        ] {
            assert!(Membership::parse(&location, text.as_bytes()).is_err(), "{text}");
        }
    }
}
