//! A processing engine of obvious code, to compare others with: no limit of memory, no performance.

mod collections;
mod numbers;

use std::collections::{BTreeMap, BTreeSet};

use self::numbers::{fixed_point, fixed_point_text, signed, unsigned};

use overside_kv::request::{CounterChange, SortedAddOptions};
use overside_kv::{
    Answer, Answers, Condition, Element, Expiry, ExpiryCondition, KEY_MAX_BYTES, ListBuilder,
    Metadata, Operation, ProcessingEngine, Refusal, Request, ScanPosition, SetOptions, Statistics,
    Transaction, VALUE_MAX_BYTES, Value, ValueKind, codec,
};

/// Value of a key, by its kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    String(Vec<u8>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Sorted(BTreeMap<Vec<u8>, f64>),
    Set(BTreeSet<Vec<u8>>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub content: Content,
    pub flags: u32,
    pub version: u64,
    pub expires_at_ms: Option<u64>,
}

/// The engine. Expired keys are removed before anything else is done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Oracle {
    pub items: BTreeMap<Vec<u8>, Item>,
    version: u64,
    /// Version of the last value of each key that was ever stored, also of keys that were removed.
    last_versions: BTreeMap<Vec<u8>, u64>,
    counts: Statistics,
}

impl Oracle {
    /// Removes expired keys.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        let before = self.items.len();
        self.items.retain(|_, item| item.expires_at_ms.is_none_or(|at| at > now_ms));
        self.counts.expirations += (before - self.items.len()) as u64;
    }

    /// Returns the version that a transaction compares for a watched key. For a missing key it
    /// follows from the version of its last value.
    fn watched_version(&self, key: &[u8]) -> u64 {
        let missing = || 1 << 62 | self.last_versions.get(key).copied().unwrap_or(0);
        self.items.get(key).map_or_else(missing, |item| item.version)
    }

    fn is_unchanged(&self, key: &[u8], expected: u64) -> bool {
        match expected {
            0 => !self.items.contains_key(key),
            version => self.watched_version(key) == version,
        }
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Stores an item with a new version; one that has expired already is removed.
    fn put(
        &mut self,
        key: &[u8],
        content: Content,
        flags: u32,
        expires: Option<u64>,
        now: u64,
    ) -> u64 {
        let version = self.next_version();
        self.last_versions.insert(key.to_vec(), version);
        let item = Item { content, flags, version, expires_at_ms: expires };
        match expires.is_some_and(|at| at <= now) {
            true => self.items.remove(key),
            false => self.items.insert(key.to_vec(), item),
        };
        version
    }

    /// Stores the new content of an item; its flags and expiry stay.
    fn update(&mut self, key: &[u8], content: Content) -> u64 {
        let old = self.items.get(key);
        let (flags, expires) = old.map_or((0, None), |old| (old.flags, old.expires_at_ms));
        self.put(key, content, flags, expires, 0)
    }

    fn string(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
        match self.items.get(key).map(|item| &item.content) {
            None => Ok(None),
            Some(Content::String(string)) => Ok(Some(string.clone())),
            Some(_) => Err(Refusal::WrongKind),
        }
    }

    fn one(&mut self, request: &Request<'_>, now: u64, answer: &mut dyn FnMut(Answer<'_>)) {
        self.expire(now);
        let is_read = match &request.operation {
            // As in Redis, watching does not count as a read.
            Operation::Watch => false,
            Operation::GetAndExpire(_) | Operation::GetAndDelete => true,
            operation => !operation.is_write(),
        };
        if is_read && request.key.len() <= KEY_MAX_BYTES {
            match self.items.contains_key(request.key) {
                true => self.counts.hits += 1,
                false => self.counts.misses += 1,
            }
        }
        if let Err(refusal) = self.perform(request, now, answer) {
            answer(Answer::Refused(refusal));
        }
    }

    fn perform(
        &mut self,
        request: &Request<'_>,
        now: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let key = request.key;
        if key.len() > KEY_MAX_BYTES {
            return Err(Refusal::TooLarge);
        }
        match &request.operation {
            Operation::Get => self.get(key, answer),
            Operation::GetAndExpire(expiry) => {
                self.string(key)?;
                let is_past = matches!(expiry, Expiry::At(at) if *at <= now);
                if *expiry != Expiry::Keep && !is_past && self.items.contains_key(key) {
                    self.set_expiry(key, *expiry);
                }
                self.get(key, answer)?;
                if is_past {
                    self.items.remove(key);
                }
                Ok(())
            }
            Operation::GetAndDelete => {
                self.get(key, answer)?;
                self.items.remove(key);
                Ok(())
            }
            Operation::GetRange { start, end } => self.get_range(key, *start, *end, answer),
            Operation::Length => {
                let len = self.string(key)?.map_or(0, |string| string.len());
                answer(Answer::Number(len as i64));
                Ok(())
            }
            Operation::Set { value, options } => self.set(key, value, *options, now, answer),
            Operation::Append { value, front, create } => {
                self.append(key, value, *front, *create, answer)
            }
            Operation::SetRange { offset, value } => self.set_range(key, *offset, value, answer),
            Operation::Increment { delta } => {
                let sum = match self.string(key)? {
                    None => *delta,
                    Some(text) => {
                        let number = signed(&text).ok_or(Refusal::NotAnInteger)?;
                        number.checked_add(*delta).ok_or(Refusal::Overflow)?
                    }
                };
                self.update(key, Content::String(sum.to_string().into_bytes()));
                answer(Answer::Number(sum));
                Ok(())
            }
            Operation::IncrementFloat { delta } => {
                let old = self.string(key)?.unwrap_or_else(|| b"0".to_vec());
                let sum = fixed_point(&old)? + fixed_point(delta)?;
                self.update(key, Content::String(fixed_point_text(sum).into_bytes()));
                self.get(key, answer)
            }
            Operation::Count(change) => self.count(key, *change, now, answer),
            Operation::Delete { version } => {
                let old = self.items.get(key).map(|item| item.version);
                answer(match (old, version) {
                    (None, _) => Answer::Missing,
                    (Some(old), Some(version)) if old != *version => Answer::VersionDiffers,
                    _ => {
                        self.items.remove(key);
                        Answer::Done
                    }
                });
                Ok(())
            }
            Operation::Watch => {
                answer(Answer::Number(self.watched_version(key) as i64));
                Ok(())
            }
            Operation::Inspect => {
                answer(match self.items.get(key) {
                    None => Answer::Missing,
                    Some(item) => Answer::Metadata(metadata(item)),
                });
                Ok(())
            }
            Operation::Dump => {
                let mut list = ListBuilder::default();
                let item = self.items.get(key);
                let encoded = item.map(|item| recreate(key, item)).into_iter().flatten();
                encoded.for_each(|bytes| list.push(Element::Bytes(&bytes)));
                answer(Answer::List(list.list()));
                Ok(())
            }
            Operation::Expire { expiry, condition } => {
                answer(self.expire_key(key, *expiry, *condition, now));
                Ok(())
            }
            _ => self.perform_on_collection(request, answer),
        }
    }

    fn get(&self, key: &[u8], answer: &mut dyn FnMut(Answer<'_>)) -> Result<(), Refusal> {
        match self.string(key)? {
            None => answer(Answer::Missing),
            Some(data) => answer(Answer::Value(value(&self.items[key], &data))),
        }
        Ok(())
    }

    fn get_range(
        &self,
        key: &[u8],
        start: i64,
        end: i64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let Some(data) = self.string(key)? else {
            answer(Answer::Value(Value::default()));
            return Ok(());
        };
        let (start, end) = inclusive(start, end, data.len());
        answer(Answer::Value(value(&self.items[key], &data[start..end])));
        Ok(())
    }

    fn set(
        &mut self,
        key: &[u8],
        new: &[u8],
        options: SetOptions,
        now: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let SetOptions { flags, expiry, return_old, condition } = options;
        if new.len() > VALUE_MAX_BYTES {
            return Err(Refusal::TooLarge);
        }
        if return_old {
            self.get(key, answer)?;
        }
        let old = self.items.get(key);
        let otherwise = match (condition, old) {
            (Condition::IfAbsent, Some(_)) | (Condition::IfPresent, None) => {
                Some(Answer::NotStored)
            }
            (Condition::IfVersion(_), None) => Some(Answer::Missing),
            (Condition::IfVersion(version), Some(old)) if old.version != version => {
                Some(Answer::VersionDiffers)
            }
            _ => None,
        };
        let expires = expires(expiry, old.and_then(|old| old.expires_at_ms));
        let result = otherwise.unwrap_or_else(|| Answer::Stored {
            version: self.put(key, Content::String(new.to_vec()), flags, expires, now),
        });
        if !return_old {
            answer(result);
        }
        Ok(())
    }

    fn append(
        &mut self,
        key: &[u8],
        value: &[u8],
        front: bool,
        create: bool,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let old = self.string(key)?;
        if old.is_none() && !create {
            answer(Answer::Missing);
            return Ok(());
        }
        let old = old.unwrap_or_default();
        let new = match front {
            true => [value, &old].concat(),
            false => [&old, value].concat(),
        };
        if new.len() > VALUE_MAX_BYTES {
            return Err(Refusal::TooLarge);
        }
        answer(Answer::Number(new.len() as i64));
        self.update(key, Content::String(new));
        Ok(())
    }

    fn set_range(
        &mut self,
        key: &[u8],
        offset: u64,
        value: &[u8],
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let mut string = self.string(key)?.unwrap_or_default();
        if !value.is_empty() {
            let end = offset.saturating_add(value.len() as u64);
            if end > VALUE_MAX_BYTES as u64 {
                return Err(Refusal::TooLarge);
            }
            let (offset, end) = (offset as usize, end as usize);
            string.resize(string.len().max(end), 0);
            string[offset..end].copy_from_slice(value);
            self.update(key, Content::String(string.clone()));
        }
        answer(Answer::Number(string.len() as i64));
        Ok(())
    }

    fn count(
        &mut self,
        key: &[u8],
        change: CounterChange,
        now: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let old = self.items.get(key);
        let (flags, old_expires) = old.map_or((0, None), |old| (old.flags, old.expires_at_ms));
        let (value, expires) = match (self.string(key)?, change.initial) {
            (None, None) => {
                answer(Answer::Missing);
                return Ok(());
            }
            (None, Some((first, first_expiry))) => (first, expires(first_expiry, None)),
            (Some(text), _) => {
                let number = unsigned(&text).ok_or(Refusal::NotAnInteger)?;
                let number = match change.down {
                    true => number.saturating_sub(change.delta),
                    false => number.wrapping_add(change.delta),
                };
                (number, expires(change.expiry, old_expires))
            }
        };
        let content = Content::String(value.to_string().into_bytes());
        let version = self.put(key, content, flags, expires, now);
        answer(Answer::Counter { value, version });
        Ok(())
    }

    fn set_expiry(&mut self, key: &[u8], expiry: Expiry) {
        let version = self.next_version();
        let item = self.items.get_mut(key).expect("it is there");
        item.expires_at_ms = expires(expiry, item.expires_at_ms);
        item.version = version;
    }

    fn expire_key(
        &mut self,
        key: &[u8],
        expiry: Expiry,
        condition: ExpiryCondition,
        now: u64,
    ) -> Answer<'static> {
        let Some(item) = self.items.get(key) else {
            return Answer::Missing;
        };
        let old = item.expires_at_ms;
        let new = expires(expiry, old).unwrap_or(u64::MAX);
        let is_refused = (condition.if_never && old.is_some())
            || (condition.if_some && old.is_none())
            || (condition.if_later && new <= old.unwrap_or(u64::MAX))
            || (condition.if_earlier && new >= old.unwrap_or(u64::MAX));
        if is_refused {
            return Answer::NotStored;
        }
        match expiry {
            Expiry::Keep => {}
            Expiry::At(at) if at <= now => drop(self.items.remove(key)),
            _ => self.set_expiry(key, expiry),
        }
        Answer::Done
    }
}

impl ProcessingEngine for Oracle {
    fn execute(&mut self, batch: &[Request<'_>], now_ms: u64, answers: Answers<'_>) {
        for (index, request) in batch.iter().enumerate() {
            self.one(request, now_ms, &mut |answer| answers(index, answer));
        }
    }

    fn execute_transaction(
        &mut self,
        transaction: &Transaction<'_>,
        now_ms: u64,
        answers: Answers<'_>,
    ) -> bool {
        self.expire(now_ms);
        let mut watched = transaction.watched.iter();
        let is_unchanged = watched.all(|(key, _, expected)| self.is_unchanged(key, *expected));
        if is_unchanged {
            self.execute(&transaction.requests, now_ms, answers);
        }
        is_unchanged
    }

    /// Positions are ranks: good enough while nothing is removed.
    fn scan(
        &mut self,
        position: ScanPosition,
        count: usize,
        now_ms: u64,
        keys: &mut dyn FnMut(&[u8], Metadata),
    ) -> Result<ScanPosition, Refusal> {
        self.expire(now_ms);
        let (from, to) = (position.0 as usize, position.0 as usize + count.max(1));
        for (key, item) in self.items.iter().skip(from).take(to - from) {
            keys(key, metadata(item));
        }
        match to < self.items.len() {
            true => Ok(ScanPosition(to as u64)),
            false => Ok(ScanPosition(0)),
        }
    }

    fn expire_some(&mut self, now_ms: u64, _: usize) -> usize {
        let before = self.items.len();
        self.expire(now_ms);
        before - self.items.len()
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        self.items.clear();
        Ok(())
    }

    fn statistics(&self) -> Statistics {
        let expiring = self.items.values().filter(|i| i.expires_at_ms.is_some());
        let payload = self.items.iter().map(|(key, item)| {
            let content = match &item.content {
                Content::String(string) => string.len(),
                Content::Hash(hash) => hash.iter().map(|(f, v)| f.len() + v.len()).sum(),
                Content::Sorted(sorted) => sorted.keys().map(|member| member.len() + 8).sum(),
                Content::Set(set) => set.iter().map(|member| member.len() + 8).sum(),
            };
            (key.len() + content) as u64
        });
        Statistics {
            items: self.items.len() as u64,
            items_with_expiry: expiring.count() as u64,
            payload_bytes: payload.sum(),
            memory_limit_bytes: u64::MAX,
            ..self.counts
        }
    }
}

fn value<'a>(item: &Item, data: &'a [u8]) -> Value<'a> {
    Value { data, flags: item.flags, version: item.version, expires_at_ms: item.expires_at_ms }
}

fn metadata(item: &Item) -> Metadata {
    let (kind, len) = match &item.content {
        Content::String(string) => (ValueKind::String, string.len()),
        Content::Hash(hash) => (ValueKind::Hash, hash.len()),
        Content::Sorted(sorted) => (ValueKind::SortedSet, sorted.len()),
        Content::Set(set) => (ValueKind::Set, set.len()),
    };
    Metadata {
        kind,
        flags: item.flags,
        version: item.version,
        expires_at_ms: item.expires_at_ms,
        len: len as u64,
        memory_bytes: 0,
    }
}

/// Returns the requests that make an item, each encoded.
pub(crate) fn recreate(key: &[u8], item: &Item) -> [Vec<u8>; 2] {
    let expiry = item.expires_at_ms.map_or(Expiry::Never, Expiry::At);
    let create = match &item.content {
        Content::String(value) => Operation::Set {
            value,
            options: SetOptions { flags: item.flags, expiry, ..SetOptions::default() },
        },
        Content::Hash(fields) => {
            Operation::HashSet { fields: fields.iter().map(|(f, v)| [&f[..], &v[..]]).collect() }
        }
        Content::Sorted(members) => Operation::SortedAdd {
            members: members.iter().map(|(m, score)| (*score, &m[..])).collect(),
            options: SortedAddOptions::default(),
        },
        Content::Set(members) => {
            Operation::SetAdd { members: members.iter().map(|member| &member[..]).collect() }
        }
    };
    let expire = Operation::Expire { expiry, condition: ExpiryCondition::default() };
    [create, expire].map(|operation| {
        let mut bytes = Vec::new();
        codec::encode(&Request { key, hash: 0, operation }, &mut bytes);
        bytes
    })
}

fn expires(expiry: Expiry, old: Option<u64>) -> Option<u64> {
    match expiry {
        Expiry::Keep => old,
        Expiry::Never => None,
        Expiry::At(at) => Some(at),
    }
}

/// Converts `start` to `end` inclusive, negative from the end, to a range of indices.
fn inclusive(start: i64, end: i64, len: usize) -> (usize, usize) {
    let len = len as i128;
    let absolute = |at: i64| match i128::from(at) {
        at if at < 0 => (len + at).max(0),
        at => at,
    };
    // An end before the first byte is the first byte, as Redis has it, unless both are negative
    // and in the wrong order.
    if start < 0 && end < 0 && start > end {
        return (0, 0);
    }
    let (start, end) = (absolute(start), absolute(end).min(len - 1));
    match start <= end {
        true => (start as usize, end as usize + 1),
        false => (0, 0),
    }
}
