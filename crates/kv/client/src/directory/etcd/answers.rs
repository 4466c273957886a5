//! Answers of etcd, as JSON: keys and values are base64, 64-bit numbers are strings, and zero
//! values are left out.

use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// Key in etcd.
    pub key: Vec<u8>,
    /// Value of the key.
    pub value: Vec<u8>,
    /// The lease that it goes with; 0: none.
    pub lease: i64,
    /// Revision of etcd at its last change.
    pub revision: i64,
}

/// Keys as they were at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// Entries sorted by key.
    pub entries: Vec<KeyValue>,
    /// Revision of etcd at that time. It grows with every change of any key.
    pub revision: i64,
}

/// A number that is written as a string.
fn number<'de, D: Deserializer<'de>, N: FromStr>(from: D) -> Result<N, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(|_| D::Error::custom("not a number"))
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(from)?;
    BASE64.decode(text.as_bytes()).map_err(D::Error::custom)
}

#[derive(Deserialize)]
pub(super) struct ErrorAnswer {
    pub error: String,
}

#[derive(Deserialize)]
pub(super) struct StreamError {
    pub error: StreamErrorText,
}

#[derive(Deserialize)]
pub(super) struct StreamErrorText {
    pub message: String,
}

#[derive(Deserialize)]
pub(super) struct Streamed<A> {
    pub result: A,
}

#[derive(Deserialize)]
pub(super) struct Header {
    #[serde(deserialize_with = "number")]
    pub revision: i64,
}

#[derive(Deserialize)]
pub(super) struct RangeAnswer {
    pub header: Header,
    #[serde(default)]
    pub kvs: Vec<KeyValue>,
    #[serde(default)]
    pub more: bool,
}

#[derive(Deserialize)]
pub(super) struct TransactionAnswer {
    #[serde(default)]
    pub succeeded: bool,
}

#[derive(Deserialize)]
pub(super) struct DeleteAnswer {
    #[serde(default, deserialize_with = "number")]
    pub deleted: u64,
}

#[derive(Deserialize)]
pub(super) struct LeaseAnswer {
    #[serde(default, rename = "ID", deserialize_with = "number")]
    pub id: i64,
    #[serde(default, rename = "TTL", deserialize_with = "number")]
    pub ttl: i64,
}

#[derive(Deserialize)]
pub(super) struct WatchAnswer {
    #[serde(default)]
    pub events: Vec<IgnoredAny>,
    #[serde(default)]
    pub canceled: bool,
    #[serde(default, deserialize_with = "number")]
    pub compact_revision: i64,
}

impl<'de> Deserialize<'de> for KeyValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Encoded {
            #[serde(deserialize_with = "bytes")]
            key: Vec<u8>,
            #[serde(default, deserialize_with = "bytes")]
            value: Vec<u8>,
            #[serde(default, deserialize_with = "number")]
            lease: i64,
            #[serde(default, deserialize_with = "number")]
            mod_revision: i64,
        }
        let Encoded { key, value, lease, mod_revision } = Encoded::deserialize(from)?;
        Ok(Self { key, value, lease, revision: mod_revision })
    }
}
