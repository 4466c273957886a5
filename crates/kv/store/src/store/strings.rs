//! Operations on strings, and on the expiry of anything.

pub(super) mod numbers;

use super::Store;
use super::execute::{value_answer, value_of};
use super::index::Slot;
use super::item::NewItem;
use super::{decimal, item::Item};
use crate::{
    Answer, Condition, Expiry, ExpiryCondition, Refusal, Request, SetOptions, VALUE_MAX_BYTES,
    Value, ValueKind,
};

/// Data that is stored with a string.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    flags: u32,
    expires_at_ms: Option<u64>,
}

impl Kept {
    fn of(item: Item<'_>) -> Self {
        Self { flags: item.flags(), expires_at_ms: item.expires_at_ms() }
    }
}

fn expires(expiry: Expiry, old: Option<u64>) -> Option<u64> {
    match expiry {
        Expiry::Keep => old,
        Expiry::Never => None,
        Expiry::At(at) => Some(at),
    }
}

impl Store {
    pub(super) fn get_and_delete(
        &mut self,
        request: &Request<'_>,
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let slot = self.read_slot(request, now_ms);
        match slot {
            None => answer(Answer::Missing),
            Some(slot) => {
                self.string_in(slot)?;
                answer(value_answer(self.item_in(slot)));
                self.remove(request.hash, slot);
            }
        }
        Ok(())
    }

    pub(super) fn get_range(
        &mut self,
        request: &Request<'_>,
        start: i64,
        end: i64,
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let item = self.read_string(request, now_ms)?;
        answer(Answer::Value(item.map_or_else(Value::default, |item| {
            value_of(item, inclusive(item.value(), start, end))
        })));
        Ok(())
    }

    pub(super) fn length(
        &mut self,
        request: &Request<'_>,
        now_ms: u64,
    ) -> Result<Answer<'static>, Refusal> {
        let item = self.read_string(request, now_ms)?;
        Ok(Answer::Number(item.map_or(0, |item| item.value().len() as i64)))
    }

    pub(super) fn increment_float(
        &mut self,
        request: &Request<'_>,
        delta: &[u8],
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let item = self.string(request, now_ms)?;
        let kept = item.map(Kept::of).unwrap_or_default();
        let sum = decimal::add(item.map_or(b"0", |item| item.value()), delta)?;
        let version = self.put(request, sum.as_bytes(), kept, now_ms)?;
        answer(Answer::Value(Value {
            data: sum.as_bytes(),
            flags: kept.flags,
            version,
            expires_at_ms: kept.expires_at_ms,
        }));
        Ok(())
    }

    fn string_in(&self, slot: Slot) -> Result<Item<'_>, Refusal> {
        let item = self.item_in(slot);
        match item.kind() {
            ValueKind::String => Ok(item),
            _ => Err(Refusal::WrongKind),
        }
    }

    fn string(&mut self, request: &Request<'_>, now_ms: u64) -> Result<Option<Item<'_>>, Refusal> {
        let slot = self.lookup(request.key, request.hash, now_ms);
        slot.map(|slot| self.string_in(slot)).transpose()
    }

    fn read_string(
        &mut self,
        request: &Request<'_>,
        now_ms: u64,
    ) -> Result<Option<Item<'_>>, Refusal> {
        let slot = self.read_slot(request, now_ms);
        slot.map(|slot| self.string_in(slot)).transpose()
    }

    /// Stores a string in place of any value.
    fn put(
        &mut self,
        request: &Request<'_>,
        value: &[u8],
        kept: Kept,
        now_ms: u64,
    ) -> Result<u64, Refusal> {
        let new = NewItem {
            key: request.key,
            value,
            kind: ValueKind::String,
            flags: kept.flags,
            expires_at_ms: kept.expires_at_ms,
        };
        self.make_room(new.size(), 0)?;
        let slot = self.find(request.key, request.hash);
        self.write_unless_expired(request.hash, slot, &new, now_ms)
    }

    /// Writes an item, or removes the old one if the new one has already expired. Returns the new
    /// version.
    fn write_unless_expired(
        &mut self,
        hash: u64,
        slot: Option<Slot>,
        new: &NewItem<'_>,
        now_ms: u64,
    ) -> Result<u64, Refusal> {
        if new.expires_at_ms.is_none_or(|at| at > now_ms) {
            return self.write(hash, slot, new);
        }
        if let Some(slot) = slot {
            self.remove(hash, slot);
        }
        Ok(self.next_version())
    }

    pub(super) fn set(
        &mut self,
        request: &Request<'_>,
        value: &[u8],
        options: &SetOptions,
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        if value.len() > VALUE_MAX_BYTES {
            return Err(Refusal::TooLarge);
        }
        let mut new = NewItem {
            key: request.key,
            value,
            kind: ValueKind::String,
            flags: options.flags,
            expires_at_ms: Some(0),
        };
        self.make_room(new.size(), 0)?;
        let slot = self.lookup(request.key, request.hash, now_ms);
        let old = slot.and_then(|slot| self.item_in(slot).expires_at_ms());
        new.expires_at_ms = expires(options.expiry, old);
        if options.return_old {
            return self.set_and_return_old(request, slot, &new, options.condition, now_ms, answer);
        }
        answer(match self.check(slot, options.condition) {
            Some(otherwise) => otherwise,
            None => Answer::Stored {
                version: self.write_unless_expired(request.hash, slot, &new, now_ms)?,
            },
        });
        Ok(())
    }

    /// Returns the answer to a `Set` whose condition is not met; `None` if it is met.
    #[inline(always)]
    fn check(&self, slot: Option<Slot>, condition: Condition) -> Option<Answer<'static>> {
        match (condition, slot) {
            (Condition::IfAbsent, Some(_)) | (Condition::IfPresent, None) => {
                Some(Answer::NotStored)
            }
            (Condition::IfVersion(_), None) => Some(Answer::Missing),
            (Condition::IfVersion(version), Some(slot)) => {
                let is_other = self.item_in(slot).version() != version;
                is_other.then_some(Answer::VersionDiffers)
            }
            _ => None,
        }
    }

    fn set_and_return_old(
        &mut self,
        request: &Request<'_>,
        slot: Option<Slot>,
        new: &NewItem<'_>,
        condition: Condition,
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let old = slot.map(|slot| self.string_in(slot)).transpose()?;
        if self.check(slot, condition).is_some() {
            answer(old.map_or(Answer::Missing, value_answer));
            return Ok(());
        }
        // The old string is overwritten before it is answered: whether it can be is known then.
        let copy = old.map(|item| item.value().to_vec());
        let value = old.map(|item| value_of(item, &[]));
        let value = value.map(|value| Value { data: &[], ..value });
        self.write_unless_expired(request.hash, slot, new, now_ms)?;
        answer(match (value, &copy) {
            (Some(value), Some(data)) => Answer::Value(Value { data, ..value }),
            _ => Answer::Missing,
        });
        Ok(())
    }

    pub(super) fn get_and_expire(
        &mut self,
        request: &Request<'_>,
        expiry: Expiry,
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let slot = self.read_slot(request, now_ms);
        let Some(slot) = slot else {
            answer(Answer::Missing);
            return Ok(());
        };
        self.string_in(slot)?;
        let slot = match expiry {
            Expiry::Keep => Some(slot),
            Expiry::At(at) if at <= now_ms => {
                answer(value_answer(self.item_in(slot)));
                self.remove(request.hash, slot);
                return Ok(());
            }
            _ => self.set_expiry(request.key, request.hash, expires(expiry, None))?,
        };
        answer(slot.map_or(Answer::Missing, |slot| value_answer(self.item_in(slot))));
        Ok(())
    }

    pub(super) fn expire(
        &mut self,
        request: &Request<'_>,
        expiry: Expiry,
        condition: ExpiryCondition,
        now_ms: u64,
    ) -> Result<Answer<'static>, Refusal> {
        let Some(slot) = self.lookup(request.key, request.hash, now_ms) else {
            return Ok(Answer::Missing);
        };
        let old = self.item_in(slot).expires_at_ms();
        let (old_end, new_end) =
            (old.unwrap_or(u64::MAX), expires(expiry, old).unwrap_or(u64::MAX));
        if (condition.if_never && old.is_some())
            || (condition.if_some && old.is_none())
            || (condition.if_later && new_end <= old_end)
            || (condition.if_earlier && new_end >= old_end)
        {
            return Ok(Answer::NotStored);
        }
        match expiry {
            Expiry::Keep => {}
            Expiry::At(at) if at <= now_ms => self.remove(request.hash, slot),
            _ => {
                let slot = self.set_expiry(request.key, request.hash, expires(expiry, old))?;
                return Ok(slot.map_or(Answer::Missing, |_| Answer::Done));
            }
        }
        Ok(Answer::Done)
    }

    pub(super) fn append(
        &mut self,
        request: &Request<'_>,
        value: &[u8],
        front: bool,
        create: bool,
        now_ms: u64,
    ) -> Result<Answer<'static>, Refusal> {
        let slot = self.lookup(request.key, request.hash, now_ms);
        if slot.is_none() && !create {
            return Ok(Answer::Missing);
        }
        let item = slot.map(|slot| self.string_in(slot)).transpose()?;
        let old_len = item.map_or(0, |item| item.value().len());
        let len = old_len + value.len();
        if len > VALUE_MAX_BYTES {
            return Err(Refusal::TooLarge);
        }
        if let Some(slot) = slot.filter(|_| !front)
            && self.write_part(request.hash, slot, old_len, value)
        {
            return Ok(Answer::Number(len as i64));
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let item = slot.map(|slot| self.item_in(slot));
        let kept = item.map(Kept::of).unwrap_or_default();
        let old = item.map_or(&[][..], |item| item.value());
        let (first, second) = if front { (value, old) } else { (old, value) };
        scratch.extend_from_slice(first);
        scratch.extend_from_slice(second);
        let result = self.put(request, &scratch, kept, now_ms);
        self.keep_scratch(scratch);
        result.map(|_| Answer::Number(len as i64))
    }

    pub(super) fn set_range(
        &mut self,
        request: &Request<'_>,
        offset: u64,
        value: &[u8],
        now_ms: u64,
    ) -> Result<Answer<'static>, Refusal> {
        let slot = self.lookup(request.key, request.hash, now_ms);
        let item = slot.map(|slot| self.string_in(slot)).transpose()?;
        let old_len = item.map_or(0, |item| item.value().len());
        if value.is_empty() {
            return Ok(Answer::Number(old_len as i64));
        }
        let end = offset.saturating_add(value.len() as u64);
        if end > VALUE_MAX_BYTES as u64 {
            return Err(Refusal::TooLarge);
        }
        let (offset, end) = (offset as usize, end as usize);
        if let Some(slot) = slot
            && self.write_part(request.hash, slot, offset, value)
        {
            return Ok(Answer::Number(old_len.max(end) as i64));
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let item = slot.map(|slot| self.item_in(slot));
        let kept = item.map(Kept::of).unwrap_or_default();
        let old = item.map_or(&[][..], |item| item.value());
        scratch.extend_from_slice(old);
        scratch.resize(old.len().max(end), 0);
        scratch[offset..end].copy_from_slice(value);
        let (result, len) = (self.put(request, &scratch, kept, now_ms), scratch.len());
        self.keep_scratch(scratch);
        result.map(|_| Answer::Number(len as i64))
    }
}

/// Returns the bytes from `start` to `end` inclusive, negative from the end, like Redis's `GETRANGE`.
fn inclusive(data: &[u8], start: i64, end: i64) -> &[u8] {
    if start < 0 && end < 0 && start > end {
        return &[];
    }
    let len = data.len() as i64;
    let absolute = |at: i64| if at < 0 { (len + at).max(0) } else { at };
    let (start, end) = (absolute(start), absolute(end).min(len - 1));
    match start <= end {
        true => &data[start as usize..=end as usize],
        false => &[],
    }
}
