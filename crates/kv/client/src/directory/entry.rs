//! Entries that servers write into a directory: one for each endpoint.
//!
//! Key `PREFIX/endpoints/SERVER/PROTOCOL/ADDRESS`, value a JSON object with the fields of [`Endpoint`] and
//! `"format": 1`. Readers ignore fields that they do not know.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::location::{is_host, split_port};
use super::{DirectoryError, Location};

/// Version of the entries that are written.
const FORMAT: u32 = 1;
/// Longest name of a server, and of anything else, in bytes.
const NAME_MAX_BYTES: usize = 270;
const WORD_MAX_BYTES: usize = 64;
/// Longest value in bytes.
const VALUE_MAX_BYTES: usize = 4096;

/// Endpoint of a server, where clients of one protocol connect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The server's own name: a server that comes back has the same.
    pub server: String,
    /// Another one for every process that serves.
    pub instance: String,
    /// Name of the protocol, as in addresses: `redis`, `rediss` (by TLS), `memcached`. There may be
    /// others.
    pub protocol: String,
    /// `host:port`.
    pub address: String,
    /// The name of its design.
    pub design: String,
    /// The side of the link that clients connect to: `host` or `dpu`.
    pub side: String,
    /// Parts of the keys, one for each core.
    pub partitions: usize,
    /// `store` (refuses writes when it is full) or `cache` (drops values).
    pub semantics: String,
    /// `true` if the server owns hash slots of a cluster, or could.
    #[serde(default, rename = "cluster", skip_serializing_if = "std::ops::Not::not")]
    pub is_in_cluster: bool,
}

#[derive(Serialize, Deserialize)]
struct Record<E> {
    format: u32,
    #[serde(flatten)]
    endpoint: E,
}

impl Endpoint {
    /// Returns the key under which the endpoint is stored in the directory.
    #[must_use]
    pub fn key(&self, location: &Location) -> String {
        let server = server_prefix(location, &self.server);
        format!("{server}{}/{}", self.protocol, self.address)
    }

    /// Returns the value that is stored in the directory, as JSON.
    ///
    /// # Panics
    /// Never: these fields are all JSON.
    #[must_use]
    pub fn value(&self) -> Vec<u8> {
        let record = Record { format: FORMAT, endpoint: self };
        serde_json::to_vec(&record).expect("strings and numbers are JSON")
    }

    /// Parses an entry.
    ///
    /// # Errors
    /// [`DirectoryError::Entry`]: it is invalid.
    pub fn parse(location: &Location, key: &[u8], value: &[u8]) -> Result<Self, DirectoryError> {
        let wrong = |reason: &str| DirectoryError::Entry {
            key: String::from_utf8_lossy(&key[..key.len().min(VALUE_MAX_BYTES)])
                .escape_debug()
                .to_string(),
            reason: reason.to_owned(),
        };
        if value.len() > VALUE_MAX_BYTES {
            return Err(wrong("too long"));
        }
        let record: Record<Self> =
            serde_json::from_slice(value).map_err(|error| wrong(&error.to_string()))?;
        if record.format != FORMAT {
            return Err(wrong("of another version"));
        }
        let endpoint = record.endpoint;
        let has_port = split_port(&endpoint.address).is_some_and(|(_, port)| port.is_some());
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let rest = [
            &endpoint.protocol,
            &endpoint.instance,
            &endpoint.design,
            &endpoint.side,
            &endpoint.semantics,
        ];
        let is_short = |text: &&String| {
            (1..=WORD_MAX_BYTES).contains(&text.len()) && is_plain(text) && !text.contains('/')
        };
        if !has_port || !is_server_name(&endpoint.server) || !rest.iter().all(is_short) {
            return Err(wrong("impossible names or address"));
        }
        match endpoint.key(location).as_bytes() == key {
            true => Ok(endpoint),
            false => Err(wrong("its key belongs to another one")),
        }
    }
}

/// Returns the id by which clients of a cluster know a server: 40 hexadecimal digits, the first of the SHA-256 of
/// its name.
#[must_use]
pub fn node_id(server: &str) -> String {
    let digest = Sha256::digest(server.as_bytes());
    digest.iter().take(20).map(|byte| format!("{byte:02x}")).collect()
}

/// Splits an endpoint's address into host, without brackets, and port; `None` if it has no port.
#[must_use]
pub fn host_and_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = split_port(address)?;
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    Some((inner.unwrap_or(host), port?))
}

/// Returns the prefix of the keys of all endpoints.
#[must_use]
pub fn endpoints_prefix(location: &Location) -> String {
    format!("{}/endpoints/", location.prefix())
}

/// Returns the prefix of the keys of a server's endpoints.
#[must_use]
pub fn server_prefix(location: &Location, server: &str) -> String {
    format!("{}{server}/", endpoints_prefix(location))
}

/// Returns `true` if a server can have this name: letters, digits and `-`, `_`, `.`, or an address.
#[must_use]
pub fn is_server_name(text: &str) -> bool {
    (1..=NAME_MAX_BYTES).contains(&text.len()) && (is_host(text) || split_port(text).is_some())
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, host_and_port, node_id};

    #[test]
    fn nodes_have_ids_and_addresses() {
        // Python: hashlib.sha256(b"a").hexdigest()[:40]
        assert_eq!(node_id("a"), "ca978112ca1bbdcafac231b39a23dc4da786eff8");
        assert_eq!(host_and_port("[::1]:7"), Some(("::1", 7)));
        assert_eq!(host_and_port("db:6379"), Some(("db", 6379)));
        assert_eq!(host_and_port("db"), None);
    }

    fn endpoint() -> Endpoint {
        Endpoint {
            server: "a".into(),
            instance: "0123".into(),
            protocol: "redis".into(),
            address: "10.0.0.1:6379".into(),
            design: "lat".into(),
            side: "dpu".into(),
            partitions: 1,
            semantics: "store".into(),
            is_in_cluster: false,
        }
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let location = "etcd://a/x".parse().unwrap();
        let key = endpoint().key(&location);
        assert_eq!(key, "/x/endpoints/a/redis/10.0.0.1:6379");
        let value = endpoint().value();
        let parsed = Endpoint::parse(&location, key.as_bytes(), &value);
        assert_eq!(parsed, Ok(endpoint()));
        let text = String::from_utf8(value).unwrap();
        let newer = text.replace('}', ",\"more\":[1]}");
        let parsed = Endpoint::parse(&location, key.as_bytes(), newer.as_bytes());
        assert_eq!(parsed, Ok(endpoint()));
    }

    #[test]
    fn garbage_is_no_entry() {
        let location = "etcd://a/x".parse().unwrap();
        let key = endpoint().key(&location);
        let text = String::from_utf8(endpoint().value()).unwrap();
        let long = text.replace("lat", &"l".repeat(5000));
        for (from, to) in [
            ("\"format\":1", "\"format\":2"),
            ("10.0.0.1:6379", "10.0.0.1:6380"),
            ("10.0.0.1:6379", "10.0.0.1"),
            ("\"a\"", "\"b\""),
            ("\"a\"", "\"a/b\""),
            ("\"redis\"", "\"\""),
            ("\"lat\"", "\"l\\nat\""),
            ("\"partitions\":1", "\"partitions\":-1"),
            ("\"side\":\"dpu\",", ""),
            ("}", ""),
            (&text, &long),
            (&text, "[]"),
            (&text, ""),
        ] {
            let value = text.replace(from, to);
            assert_ne!(value, text);
            let parsed = Endpoint::parse(&location, key.as_bytes(), value.as_bytes());
            assert!(parsed.is_err(), "{value}");
        }
    }
}
