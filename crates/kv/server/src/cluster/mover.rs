//! Moves slots to another server while clients use them.
//!
//! 1. Keys that an earlier attempt left on the target are removed there.
//! 2. All keys are copied, and again those that have changed meanwhile, until few are left. Clients use the source.
//! 3. Commands for the slots are held, a few milliseconds, while what changed last is copied.
//! 4. The directory gets the new owner, which is the moment of the move. Until then the source has all keys, and
//!    from then on the target. A source that is killed begins again with step 1, or has moved the slots.
//! 5. The source sends clients on by `ASK` until the target knows that it is the owner, and then by `MOVED`. It
//!    removes its keys.
//!
//! The mover is a client of both servers. `OVERSIDE.SLOTS` makes its connections those of a server that moves slots:
//! their commands are executed whoever owns a key.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use overside_kv_store::partition::slot_of;

use crate::client::{Connection, Reply, command};

/// Longest time that a server may be silent.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Keys that one command of a search looks at.
const SCAN_COUNT: &[u8] = b"1000";
/// Keys, bytes of commands, and bytes of values that are read at once: the commands fit into buffers of sockets, so
/// that a server that waits for this client to read does not make it wait.
const BATCH_KEYS: usize = 128;
const BATCH_COMMAND_BYTES: usize = 32 << 10;
const BATCH_VALUE_BYTES: u64 = 1 << 20;
/// Fields or members in one command.
const ELEMENTS: usize = 512;
/// Changed keys with which copying goes on while commands are held, and the longest time that they are.
const LAST_KEYS: usize = 64;
const HOLD_MAX: Duration = Duration::from_secs(2);
/// Rounds of copying after which commands are held although many keys change.
const ROUNDS: usize = 8;

/// Reason why slots were not moved.
#[derive(Debug, thiserror::Error)]
pub(super) enum MoveError {
    /// A connection failed.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// A server refused a command.
    #[error("{0}")]
    Refused(String),
    /// A server sent something else than the reply.
    #[error("an unexpected reply")]
    Reply,
    /// Copying what changed last took too long.
    #[error("keys change faster than they can be copied")]
    TooSlow,
}

/// Commands that read a collection and write it.
struct Collection {
    kind: &'static str,
    read: &'static [u8],
    options: &'static [&'static [u8]],
    write: &'static [u8],
    /// Replies for each element.
    parts: usize,
}

const COLLECTIONS: [Collection; 3] = [
    Collection { kind: "hash", read: b"HGETALL", options: &[], write: b"HSET", parts: 2 },
    Collection { kind: "set", read: b"SMEMBERS", options: &[], write: b"SADD", parts: 1 },
    Collection {
        kind: "zset",
        read: b"ZRANGE",
        options: &[b"0", b"-1", b"WITHSCORES"],
        write: b"ZADD",
        parts: 2,
    },
];

/// State of a key, as a server lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyState {
    version: i64,
    expires_at_ms: i64,
    len: i64,
}

/// Move of slots from this server to another one.
pub(super) struct Mover<'m> {
    slots: &'m [u16],
    source: Connection,
    target: Connection,
    /// Keys that the target has, in the state in which they were copied.
    copied: HashMap<Vec<u8>, KeyState>,
}

impl<'m> Mover<'m> {
    /// Connects to source and target. `slots` are in order.
    pub(super) fn connect(
        [source, target]: [&str; 2],
        password: Option<&[u8]>,
        slots: &'m [u16],
    ) -> Result<Self, MoveError> {
        let source = Connection::open(source, None, password, TIMEOUT)?;
        let target = Connection::open(target, None, password, TIMEOUT)?;
        Ok(Self { slots, source, target, copied: HashMap::new() })
    }

    /// Copies all keys. `hold` holds the commands for the slots, and returns `true` when no worker executes any.
    /// Returns `true` if the target has everything and commands are held; `false` if it does not know yet that the
    /// slots move, or if they do not, by `is_wanted`.
    pub(super) fn copy_all(
        &mut self,
        is_wanted: impl Fn() -> bool,
        hold: &mut dyn FnMut() -> bool,
    ) -> Result<bool, MoveError> {
        // Until the target knows, it might remove all its keys (`FLUSHALL`).
        if !all_are(&mut self.target, self.slots, SlotKind::Importing)? {
            return Ok(false);
        }
        remove(&mut self.target, self.slots)?;
        for _ in 0..ROUNDS {
            let changed = self.copy_changes(&is_wanted)?;
            if !is_wanted() {
                // Nobody needs the copies.
                remove(&mut self.target, self.slots)?;
                return Ok(false);
            }
            if changed <= LAST_KEYS {
                break;
            }
        }
        let begin = Instant::now();
        if !hold() {
            return Ok(false);
        }
        self.copy_changes(&is_wanted)?;
        // The target is still the process that has the copies.
        expect(self.target.ask(&[b"PING"])?)?;
        match begin.elapsed() > HOLD_MAX {
            true => Err(MoveError::TooSlow),
            false => Ok(is_wanted()),
        }
    }

    /// Removes the keys of slots that the other server owns, once it knows that. Returns `false` if it does not yet.
    pub(super) fn remove_left(&mut self) -> Result<bool, MoveError> {
        if !all_are(&mut self.target, self.slots, SlotKind::Here)? {
            return Ok(false);
        }
        // Its connection becomes one that is not sent on.
        all_are(&mut self.source, self.slots, SlotKind::Here)?;
        remove(&mut self.source, self.slots)?;
        Ok(true)
    }

    /// Copies the keys that the target does not have, or in another state, and removes there what is gone. Returns
    /// how many there were.
    fn copy_changes(&mut self, is_wanted: &impl Fn() -> bool) -> Result<usize, MoveError> {
        let mut found = HashMap::new();
        scan(&mut self.source, self.slots, &mut |key, state| _ = found.insert(key, state))?;
        let is_gone = |key: &&Vec<u8>| !found.contains_key(*key);
        let gone: Vec<Vec<u8>> = self.copied.keys().filter(is_gone).cloned().collect();
        delete(&mut self.target, &gone)?;
        gone.iter().for_each(|key| _ = self.copied.remove(key));
        let changed: Vec<(Vec<u8>, KeyState)> =
            found.into_iter().filter(|(key, state)| self.copied.get(key) != Some(state)).collect();
        let mut rest = changed.as_slice();
        while !rest.is_empty() && is_wanted() {
            let batch = batch(rest);
            self.copy(batch)?;
            rest = &rest[batch.len()..];
        }
        let count = gone.len() + changed.len();
        self.copied.extend(changed);
        Ok(count)
    }

    /// Copies keys as they are now. If one changes meanwhile, the next search finds it in another state.
    fn copy(&mut self, keys: &[(Vec<u8>, KeyState)]) -> Result<(), MoveError> {
        let mut bytes = Vec::new();
        for (key, _) in keys {
            command(&[b"TYPE", key], &mut bytes);
            command(&[b"PEXPIRETIME", key], &mut bytes);
            command(&[b"GET", key], &mut bytes);
        }
        self.source.send(&bytes)?;
        let mut read = Vec::new();
        for (key, _) in keys {
            let kind = expect(self.source.receive()?)?;
            let expiry = match expect(self.source.receive()?)? {
                Reply::Integer(at_ms @ 0..) => Some(at_ms.to_string()),
                _ => None,
            };
            // An error for a key that is no string.
            read.push((key, kind, expiry, self.source.receive()?));
        }
        let mut writes = Writes::default();
        for (key, kind, expiry, value) in &read {
            let expiry = expiry.as_ref().map(String::as_bytes);
            let is_of = |one: &&Collection| *kind == Reply::Simple(one.kind.into());
            match (COLLECTIONS.iter().find(is_of), value) {
                (Some(collection), _) => {
                    let words = [&[collection.read, key][..], collection.options].concat();
                    let Reply::Array(elements) = expect(self.source.ask(&words)?)? else {
                        return Err(MoveError::Reply);
                    };
                    writes.collection(key, collection, &elements, expiry);
                }
                (_, Reply::Bytes(value)) => match expiry {
                    Some(at_ms) => writes.add(&[b"SET", key, value, b"PXAT", at_ms]),
                    None => writes.add(&[b"SET", key, value]),
                },
                _ => writes.add(&[b"DEL", key]),
            }
        }
        writes.execute(&mut self.target)
    }
}

/// Commands that are sent together.
#[derive(Default)]
struct Writes {
    bytes: Vec<u8>,
    count: usize,
}

impl Writes {
    fn add(&mut self, words: &[&[u8]]) {
        command(words, &mut self.bytes);
        self.count += 1;
    }

    /// Adds what makes a collection of its elements.
    fn collection(
        &mut self,
        key: &[u8],
        collection: &Collection,
        elements: &[Reply],
        expiry: Option<&[u8]>,
    ) {
        self.add(&[b"DEL", key]);
        for part in elements.chunks(ELEMENTS * collection.parts) {
            let mut words = vec![collection.write, key];
            for element in part.chunks(collection.parts) {
                // `ZADD` has the score before its member.
                match element {
                    [member, score] if collection.write == b"ZADD" => {
                        words.extend([bytes_of(score), bytes_of(member)]);
                    }
                    other => words.extend(other.iter().map(bytes_of)),
                }
            }
            self.add(&words);
        }
        if let (Some(at_ms), false) = (expiry, elements.is_empty()) {
            self.add(&[b"PEXPIREAT", key, at_ms]);
        }
    }

    fn execute(self, connection: &mut Connection) -> Result<(), MoveError> {
        connection.send(&self.bytes)?;
        let mut result = Ok(());
        for _ in 0..self.count {
            result = result.and(expect(connection.receive()?).map(|_| ()));
        }
        result
    }
}

fn bytes_of(reply: &Reply) -> &[u8] {
    match reply {
        Reply::Bytes(bytes) => bytes,
        _ => &[],
    }
}

/// The first keys that are read at once; one at least.
fn batch(keys: &[(Vec<u8>, KeyState)]) -> &[(Vec<u8>, KeyState)] {
    let (mut command_bytes, mut value_bytes) = (0, 0);
    let fits = |(key, state): &&(Vec<u8>, KeyState)| {
        command_bytes += 3 * (key.len() + 40);
        value_bytes += state.len.unsigned_abs();
        command_bytes <= BATCH_COMMAND_BYTES && value_bytes <= BATCH_VALUE_BYTES
    };
    let count = keys.iter().take(BATCH_KEYS).take_while(fits).count();
    &keys[..count.max(1)]
}

/// A reply that is no error.
fn expect(reply: Reply) -> Result<Reply, MoveError> {
    match reply {
        Reply::Error(message) => Err(MoveError::Refused(message)),
        reply => Ok(reply),
    }
}

fn delete(connection: &mut Connection, keys: &[Vec<u8>]) -> Result<(), MoveError> {
    for part in keys.chunks(BATCH_KEYS) {
        let mut writes = Writes::default();
        part.iter().for_each(|key| writes.add(&[b"DEL", key]));
        writes.execute(connection)?;
    }
    Ok(())
}

/// Removes all keys of slots.
fn remove(connection: &mut Connection, slots: &[u16]) -> Result<(), MoveError> {
    let mut keys = Vec::new();
    scan(connection, slots, &mut |key, _| keys.push(key))?;
    delete(connection, &keys)
}

/// Place of the number of slots of a kind in the reply to `OVERSIDE.SLOTS`.
#[derive(Clone, Copy)]
enum SlotKind {
    Here = 1,
    Importing = 2,
}

/// Returns `true` if all these slots are of a kind on a server.
fn all_are(connection: &mut Connection, slots: &[u16], kind: SlotKind) -> Result<bool, MoveError> {
    for slot in slots {
        let text = slot.to_string();
        let words: [&[u8]; 5] = [b"OVERSIDE.SLOTS", text.as_bytes(), text.as_bytes(), b"0", b"1"];
        let Reply::Array(parts) = expect(connection.ask(&words)?)? else {
            return Err(MoveError::Reply);
        };
        if parts.get(kind as usize) != Some(&Reply::Integer(1)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Passes on all keys of slots that exist all the time, each once at least.
fn scan(
    connection: &mut Connection,
    slots: &[u16],
    key: &mut dyn FnMut(Vec<u8>, KeyState),
) -> Result<(), MoveError> {
    let (Some(first), Some(last)) = (slots.first(), slots.last()) else {
        return Ok(());
    };
    let (first, last) = (first.to_string(), last.to_string());
    let mut cursor = b"0".to_vec();
    loop {
        let words: [&[u8]; 5] =
            [b"OVERSIDE.SLOTS", first.as_bytes(), last.as_bytes(), &cursor, SCAN_COUNT];
        let Reply::Array(parts) = expect(connection.ask(&words)?)? else {
            return Err(MoveError::Reply);
        };
        let [Reply::Bytes(next), _, _, Reply::Array(found)] = parts.as_slice() else {
            return Err(MoveError::Reply);
        };
        for one in found.as_chunks::<4>().0 {
            let [
                Reply::Bytes(name),
                Reply::Integer(version),
                Reply::Integer(at),
                Reply::Integer(len),
            ] = one
            else {
                return Err(MoveError::Reply);
            };
            if slots.binary_search(&slot_of(name)).is_ok() {
                let state = KeyState { version: *version, expires_at_ms: *at, len: *len };
                key(name.clone(), state);
            }
        }
        if next == b"0" {
            return Ok(());
        }
        cursor.clone_from(next);
    }
}
