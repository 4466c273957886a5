//! etcd's JSON gateway, version 3 (`/v3/`, etcd 3.4 and later), as far as a directory needs it.

mod answers;

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};

use answers::{
    DeleteAnswer, ErrorAnswer, LeaseAnswer, RangeAnswer, StreamError, Streamed, TransactionAnswer,
    WatchAnswer,
};
pub use answers::{KeyRange, KeyValue};

use super::tls::TlsConnector;
use super::{DirectoryError, Location};

/// Longest time that a request may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of keys that are read at once.
pub const KEYS_MAX: u64 = 4096;
/// Longest answer in bytes.
const ANSWER_MAX_BYTES: u64 = 16 << 20;
/// Longest message of an error in bytes.
const MESSAGE_MAX_BYTES: usize = 300;

/// A client of etcd.
#[derive(Debug)]
pub struct Etcd {
    agent: Agent,
    location: Location,
    /// The member that answered last.
    preferred: AtomicUsize,
}

impl Etcd {
    /// Makes a client, which connects with its first request.
    #[must_use]
    pub fn new(location: Location) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            // What a proxy would answer for is no directory.
            .proxy(None)
            // A connection that waited may have ended meanwhile.
            .max_idle_connections(0)
            .user_agent(concat!("overside/", env!("CARGO_PKG_VERSION")))
            .build();
        let agent = match location.tls() {
            None => config.into(),
            Some(tls) => {
                let connector = TcpConnector::default().chain(TlsConnector::new(Arc::clone(tls)));
                Agent::with_parts(config, connector, DefaultResolver::default())
            }
        };
        Self { agent, location, preferred: AtomicUsize::new(0) }
    }

    /// Returns the location of etcd.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// All keys that begin with `prefix`.
    ///
    /// # Errors
    /// [`DirectoryError`]; also if there are more than [`KEYS_MAX`].
    pub fn range(&self, prefix: &str) -> Result<KeyRange, DirectoryError> {
        let question = json!({
            "key": encoded(prefix),
            "range_end": BASE64.encode(end_of(prefix)),
            "limit": (KEYS_MAX).to_string(),
        });
        let (answer, member): (RangeAnswer, _) = self.ask("kv/range", &question)?;
        if answer.more {
            return Err(DirectoryError::Answer {
                member,
                reason: format!("more than {KEYS_MAX} keys begin with {prefix}"),
            });
        }
        Ok(KeyRange { entries: answer.kvs, revision: answer.header.revision })
    }

    /// Writes a key that goes with a lease.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn put(&self, key: &str, value: &[u8], lease: i64) -> Result<(), DirectoryError> {
        let question = json!({
            "key": encoded(key),
            "value": BASE64.encode(value),
            "lease": lease.to_string(),
        });
        self.ask::<Value>("kv/put", &question).map(|_| ())
    }

    /// Writes a key if it was last changed at `revision`; 0 if it must not exist. Returns `true` if it was written.
    ///
    /// # Errors
    /// [`DirectoryError`]; it may have been written unless etcd refused it.
    pub fn put_if(&self, key: &str, value: &[u8], revision: i64) -> Result<bool, DirectoryError> {
        let key = encoded(key);
        let question = json!({
            "compare": [{
                "key": key,
                "target": "MOD",
                "result": "EQUAL",
                "mod_revision": revision.to_string(),
            }],
            "success": [{"request_put": {"key": key, "value": BASE64.encode(value)}}],
        });
        let (answer, _) = self.ask::<TransactionAnswer>("kv/txn", &question)?;
        Ok(answer.succeeded)
    }

    /// Removes a key. Returns `true` if it existed.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn delete(&self, key: &str) -> Result<bool, DirectoryError> {
        let (answer, _) =
            self.ask::<DeleteAnswer>("kv/deleterange", &json!({"key": encoded(key)}))?;
        Ok(answer.deleted > 0)
    }

    /// A new lease: its entries are removed if it is not kept alive for `ttl`.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn grant(&self, ttl: Duration) -> Result<i64, DirectoryError> {
        let question = json!({"TTL": ttl.as_secs().to_string()});
        let (answer, member) = self.ask::<LeaseAnswer>("lease/grant", &question)?;
        match answer.id {
            0 => Err(DirectoryError::Answer { member, reason: "a lease without a number".into() }),
            id => Ok(id),
        }
    }

    /// Keeps a lease alive. Returns `true` if it still exists.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn keep_alive(&self, lease: i64) -> Result<bool, DirectoryError> {
        let question = json!({"ID": lease.to_string()});
        let (answer, _) = self.ask::<Streamed<LeaseAnswer>>("lease/keepalive", &question)?;
        Ok(answer.result.ttl > 0)
    }

    /// Ends a lease, and removes its entries.
    ///
    /// # Errors
    /// [`DirectoryError`]; also if there is no such lease.
    pub fn revoke(&self, lease: i64) -> Result<(), DirectoryError> {
        let question = json!({"ID": lease.to_string()});
        self.ask::<Value>("lease/revoke", &question).map(|_| ())
    }

    /// Seconds until a lease ends; `None`: it has ended.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn remaining_s(&self, lease: i64) -> Result<Option<u64>, DirectoryError> {
        let question = json!({"ID": lease.to_string()});
        let (answer, _) = self.ask::<LeaseAnswer>("lease/timetolive", &question)?;
        Ok(u64::try_from(answer.ttl).ok())
    }

    /// Waits, for at most `most`, until a key that begins with `prefix` changes after `revision`. Returns
    /// `true` if one did, or may have.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn wait_for_change(
        &self,
        prefix: &str,
        revision: i64,
        most: Duration,
    ) -> Result<bool, DirectoryError> {
        let question = json!({"create_request": {
            "key": encoded(prefix),
            "range_end": BASE64.encode(end_of(prefix)),
            "start_revision": (revision + 1).to_string(),
        }});
        let (member, body) = self.send("watch", &question, Some(most))?;
        let limited = body.into_with_config().limit(ANSWER_MAX_BYTES).reader();
        let mut lines = BufReader::new(limited.take(ANSWER_MAX_BYTES));
        let mut line = Vec::new();
        loop {
            line.clear();
            match lines.read_until(b'\n', &mut line) {
                // It ended before its time.
                Ok(0) => return Ok(true),
                Ok(_) => {}
                Err(error) if is_timeout(&error) => return Ok(false),
                Err(error) => {
                    return Err(DirectoryError::Unreachable { member, reason: error.to_string() });
                }
            }
            let answer: Streamed<WatchAnswer> = parse(&member, &line)?;
            let answer = answer.result;
            if !answer.events.is_empty() || answer.canceled || answer.compact_revision > 0 {
                return Ok(true);
            }
        }
    }

    /// Sends a request to etcd and returns the response, with the address that it came from.
    fn ask<A: DeserializeOwned>(
        &self,
        method: &str,
        question: &Value,
    ) -> Result<(A, String), DirectoryError> {
        let (member, body) = self.send(method, question, None)?;
        let mut text = Vec::new();
        let read =
            (body.into_with_config()).limit(ANSWER_MAX_BYTES).reader().read_to_end(&mut text);
        match read {
            Ok(_) => parse(&member, &text).map(|answer| (answer, member)),
            Err(error) => Err(DirectoryError::Answer { member, reason: error.to_string() }),
        }
    }

    /// Sends a request to one member after the other, beginning with the one that answered last, until one
    /// answers.
    fn send(
        &self,
        method: &str,
        question: &Value,
        timeout: Option<Duration>,
    ) -> Result<(String, ureq::Body), DirectoryError> {
        let members = self.location.members();
        let first = self.preferred.load(Ordering::Relaxed);
        let mut failure = None;
        for number in (first..members.len()).chain(0..first.min(members.len())) {
            match self.send_to(&members[number], method, question, timeout) {
                Ok(body) => {
                    self.preferred.store(number, Ordering::Relaxed);
                    return Ok((members[number].clone(), body));
                }
                Err(error @ DirectoryError::Unreachable { .. }) => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(failure.unwrap_or_else(|| DirectoryError::Location("no member".into())))
    }

    fn send_to(
        &self,
        member: &str,
        method: &str,
        question: &Value,
        timeout: Option<Duration>,
    ) -> Result<ureq::Body, DirectoryError> {
        if self.location.is_tls() && self.location.tls().is_none() {
            return Err(DirectoryError::Location("TLS takes keys".into()));
        }
        let unreachable = |error: ureq::Error| DirectoryError::Unreachable {
            member: member.to_owned(),
            reason: error.to_string(),
        };
        // The scheme is the client's: it has made every connection one by TLS, or none.
        let request = self.agent.post(format!("http://{member}/v3/{method}"));
        let request = request.content_type("application/json");
        let request = match timeout {
            None => request,
            Some(most) => (request.config())
                .timeout_global(Some(TIMEOUT + most))
                .timeout_connect(Some(TIMEOUT))
                .timeout_recv_body(Some(most))
                .build(),
        };
        let response = request.send(question.to_string().as_bytes()).map_err(unreachable)?;
        let (status, mut body) = (response.status().as_u16(), response.into_body());
        if status == 200 {
            return Ok(body);
        }
        let text = body.with_config().limit(ANSWER_MAX_BYTES).read_to_vec();
        let said = text.ok().and_then(|text| serde_json::from_slice(&text).ok());
        let message = said.map(|said: ErrorAnswer| shortened(&said.error));
        let member = member.to_owned();
        Err(match (message, status) {
            // etcd without a leader, or a proxy without etcd: another member may do better.
            (reason, 502..=504) => DirectoryError::Unreachable {
                member,
                reason: reason.unwrap_or_else(|| format!("HTTP status {status}")),
            },
            (Some(message), _) => DirectoryError::Refused { member, message },
            (None, _) => DirectoryError::Answer { member, reason: format!("HTTP status {status}") },
        })
    }
}

fn encoded(text: &str) -> String {
    BASE64.encode(text)
}

/// The first key behind those that begin with `prefix`, which is ASCII.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

fn is_timeout(error: &std::io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    error.kind() == std::io::ErrorKind::TimedOut || matches!(cause, Some(ureq::Error::Timeout(_)))
}

fn parse<A: DeserializeOwned>(member: &str, text: &[u8]) -> Result<A, DirectoryError> {
    // What is an error in the middle of a stream comes with status 200.
    let failed = |error: serde_json::Error| match serde_json::from_slice(text) {
        Ok(StreamError { error }) => DirectoryError::Refused {
            member: member.to_owned(),
            message: shortened(&error.message),
        },
        Err(_) => DirectoryError::Answer {
            member: member.to_owned(),
            reason: shortened(&error.to_string()),
        },
    };
    serde_json::from_slice(text).map_err(failed)
}

/// Returns the part of a message that is shown: no control characters, and a limited length.
fn shortened(text: &str) -> String {
    let printable = text.chars().filter(|character| !character.is_control());
    printable.take(MESSAGE_MAX_BYTES).collect()
}
