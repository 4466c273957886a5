//! Location of a directory: `etcd://HOST[:PORT][,HOST[:PORT]...][/PREFIX]`, or `etcds://...` by
//! TLS.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rustls::ClientConfig;

use super::DirectoryError;

/// etcd's port for clients.
const PORT: u16 = 2379;
/// Prefix of all keys in etcd if the location has none.
const PREFIX: &str = "/overside/kv";
/// Maximum number of members of etcd.
const MEMBERS_MAX: usize = 16;
/// Longest location, host name and prefix in bytes.
const TEXT_MAX_BYTES: usize = 4096;
const HOST_MAX_BYTES: usize = 253;
const PREFIX_MAX_BYTES: usize = 256;

/// Members of etcd, one of which gets each request, and the prefix of all keys there.
#[derive(Clone, Debug)]
pub struct Location {
    members: Vec<String>,
    prefix: String,
    is_tls: bool,
    tls: Option<Arc<ClientConfig>>,
}

impl Location {
    /// Members as `host:port`; there is one at least.
    #[must_use]
    pub fn members(&self) -> &[String] {
        &self.members
    }

    /// Returns `true` if the directory is reached by TLS, which requires [`Location::with_tls`].
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Sets TLS, with members whose certificates `config` trusts and are for the hosts of this location.
    #[must_use]
    pub fn with_tls(self, config: Arc<ClientConfig>) -> Self {
        let tls = Some(config);
        Self { tls, ..self }
    }

    /// Returns the certificates that it trusts, and the one that it shows; `None` before
    /// [`Location::with_tls`].
    pub(super) fn tls(&self) -> Option<&Arc<ClientConfig>> {
        self.tls.as_ref()
    }

    fn scheme(&self) -> &'static str {
        if self.is_tls { "etcds" } else { "etcd" }
    }

    /// Begins with a slash and does not end with one.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl FromStr for Location {
    type Err = DirectoryError;

    fn from_str(text: &str) -> Result<Self, DirectoryError> {
        let wrong = |what: &str| DirectoryError::Location(what.to_owned());
        let (is_tls, rest) = match text.split_once("://") {
            Some(("etcd", rest)) => (false, rest),
            Some(("etcds", rest)) => (true, rest),
            _ => {
                return Err(wrong("write it as etcd://HOST:2379, or etcds://HOST:2379 with TLS"));
            }
        };
        if text.len() > TEXT_MAX_BYTES {
            return Err(wrong("too long"));
        }
        let (hosts, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let members: Vec<String> = (hosts.split(',').map(member))
            .collect::<Option<_>>()
            .ok_or_else(|| wrong("not a host, or host and port: write it as etcd://HOST:2379"))?;
        if members.len() > MEMBERS_MAX {
            return Err(wrong("more than 16 members of etcd"));
        }
        let path = path.trim_end_matches('/');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
        if path.len() > PREFIX_MAX_BYTES || path.contains("//") || !path.bytes().all(is_plain) {
            return Err(wrong("a prefix has letters, digits, `-`, `_`, `.` and single slashes"));
        }
        let prefix = if path.is_empty() { PREFIX } else { path };
        Ok(Self { members, prefix: prefix.into(), is_tls, tls: None })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, members) = (self.scheme(), self.members.join(","));
        write!(f, "{scheme}://{members}{}", self.prefix)
    }
}

/// A member with its port.
fn member(text: &str) -> Option<String> {
    let (host, port) = split_port(text)?;
    let port = port.unwrap_or(PORT);
    Some(format!("{host}:{port}"))
}

/// Splits a text into host (an IPv6 address with its brackets) and port; `None` if it is neither.
pub(super) fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let end = match text.strip_prefix('[') {
        Some(_) => text.find(']')? + 1,
        None => text.find(':').unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at(end);
    let port = match rest.strip_prefix(':') {
        Some(port) => Some(port.parse().ok().filter(|port| *port != 0)?),
        None if rest.is_empty() => None,
        None => return None,
    };
    is_host(host).then_some((host, port))
}

/// Returns `true` if `text` is a name, an IPv4 address, or an IPv6 address in brackets.
pub fn is_host(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    match inner {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            (1..=HOST_MAX_BYTES).contains(&text.len()) && text.bytes().all(is_plain)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Location;

    #[test]
    fn locations_are_members_and_a_prefix() {
        let parse = |text: &str| text.parse::<Location>().unwrap().to_string();
        for (text, expected) in [
            ("etcd://a", "etcd://a:2379/overside/kv"),
            ("etcd://a:1,b/", "etcd://a:1,b:2379/overside/kv"),
            ("etcd://127.0.0.1:2379/x/y/", "etcd://127.0.0.1:2379/x/y"),
            ("etcd://[::1]:5,[::2]/x", "etcd://[::1]:5,[::2]:2379/x"),
            ("etcds://a", "etcds://a:2379/overside/kv"),
        ] {
            assert_eq!(parse(text), expected);
            assert_eq!(parse(expected), expected);
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let many = format!("etcd://{}", ["a"; 17].join(","));
        let long = format!("etcd://a/{}", "x".repeat(300));
        for text in [
            "",
            "a:2379",
            "http://a",
            "https://a",
            "etcdss://a",
            "etcd://",
            "etcd://a,",
            "etcd://a:0",
            "etcd://a:70000",
            "etcd://a:b",
            "etcd://a b",
            "etcd://u@a",
            "etcd://[::1",
            "etcd://[x]:1",
            "etcd://::1",
            "etcd://a//b",
            "etcd://a/b?c",
            "etcd://a/\u{e9}",
            &many,
            &long,
        ] {
            assert!(text.parse::<Location>().is_err(), "{text}");
        }
    }
}
