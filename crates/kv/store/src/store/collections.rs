//! Operations on hashes and sorted sets.

use super::Store;
use super::collection::{Collection, Content, field_bytes, member_bytes};
use super::index::Slot;
use super::item::NewItem;
use crate::request::SortedAddOptions;
use crate::{
    Answer, Element, List, ListBuilder, Refusal, Request, SortedRange, VALUE_MAX_BYTES, ValueKind,
};

/// A collection and the slot of its item.
#[derive(Clone, Copy, Debug)]
struct Found {
    slot: Slot,
    number: u32,
}

impl Store {
    pub(super) fn hash_get(
        &mut self,
        request: &Request<'_>,
        fields: &[&[u8]],
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        self.answer_list(request, ValueKind::Hash, now_ms, answer, |content, list| {
            for field in fields {
                let value = match content {
                    Some(Content::Hash(hash)) => hash.get(*field),
                    _ => None,
                };
                list.push(value.map_or(Element::Nil, |value| Element::Bytes(value)));
            }
        })
    }

    pub(super) fn hash_get_all(
        &mut self,
        request: &Request<'_>,
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        self.answer_list(request, ValueKind::Hash, now_ms, answer, |content, list| {
            if let Some(Content::Hash(hash)) = content {
                for (field, value) in hash {
                    list.push(Element::Bytes(field));
                    list.push(Element::Bytes(value));
                }
            }
        })
    }

    pub(super) fn sorted_range(
        &mut self,
        request: &Request<'_>,
        range: &SortedRange<'_>,
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let kind = ValueKind::SortedSet;
        self.answer_list(request, kind, now_ms, answer, |content, list| {
            if let Some(Content::Sorted(set)) = content {
                set.range(range, list);
            }
        })
    }

    pub(super) fn sorted_length(
        &mut self,
        request: &Request<'_>,
        now_ms: u64,
    ) -> Result<Answer<'static>, Refusal> {
        let found = self.read_collection(request, ValueKind::SortedSet, now_ms)?;
        let len = found.map_or(0, |found| self.collections.get(found.number).len());
        Ok(Answer::Number(len as i64))
    }

    /// Answers with what `fill` takes from a collection, if it is there. Memory of a long list is not kept.
    fn answer_list(
        &mut self,
        request: &Request<'_>,
        kind: ValueKind,
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
        fill: impl FnOnce(Option<&Content>, &mut ListBuilder),
    ) -> Result<(), Refusal> {
        let found = self.read_collection(request, kind, now_ms)?;
        let content = found.map(|found| &self.collections.get(found.number).content);
        self.list.clear();
        fill(content, &mut self.list);
        let list: List<'_> = self.list.list();
        let is_long = list.len() > 1 << 16 || list.as_bytes().len() > 1 << 20;
        answer(match self.list.is_too_long() {
            false => Answer::List(list),
            true => Answer::Refused(Refusal::TooLarge),
        });
        if is_long {
            self.list = ListBuilder::default();
        }
        Ok(())
    }

    fn collection(
        &mut self,
        request: &Request<'_>,
        kind: ValueKind,
        now_ms: u64,
    ) -> Result<Option<Found>, Refusal> {
        let Some(slot) = self.lookup(request.key, request.hash, now_ms) else {
            return Ok(None);
        };
        let item = self.item_in(slot);
        match item.collection().filter(|_| item.kind() == kind) {
            Some(number) => Ok(Some(Found { slot, number })),
            None => Err(Refusal::WrongKind),
        }
    }

    fn read_collection(
        &mut self,
        request: &Request<'_>,
        kind: ValueKind,
        now_ms: u64,
    ) -> Result<Option<Found>, Refusal> {
        let found = self.collection(request, kind, now_ms);
        self.count_read(!matches!(found, Ok(None)));
        found
    }

    /// Makes room for the item of a collection, and for its new members.
    fn make_room_in_collection(
        &mut self,
        request: &Request<'_>,
        added_bytes: usize,
    ) -> Result<(), Refusal> {
        let item = NewItem {
            key: request.key,
            value: &[0; 4],
            kind: ValueKind::Hash,
            flags: 0,
            expires_at_ms: Some(0),
        };
        self.make_room(item.size(), added_bytes)
    }

    /// Changes a collection, or makes one.
    fn change<T>(
        &mut self,
        request: &Request<'_>,
        kind: ValueKind,
        found: Option<Found>,
        change: impl FnOnce(&mut Collection) -> T,
    ) -> Result<T, Refusal> {
        let hash = request.hash;
        if let Some(found) = found {
            self.preserve(hash);
            let (result, grown) = self.collections.change(found.number, change);
            let payload = self.counts.payload_bytes;
            self.counts.payload_bytes = payload.wrapping_add_signed(grown);
            self.touch(request.key, hash, found.slot)?;
            return Ok(result);
        }
        let mut collection = Collection::new(kind, self.options.hasher.hash(request.key));
        let result = change(&mut collection);
        let number = self.collections.add(collection);
        let new = NewItem {
            key: request.key,
            value: &number.to_le_bytes(),
            kind,
            flags: 0,
            expires_at_ms: None,
        };
        match self.write(hash, None, &new) {
            Ok(_) => Ok(result),
            Err(refusal) => {
                self.collections.remove(number);
                Err(refusal)
            }
        }
    }

    pub(super) fn hash_set(
        &mut self,
        request: &Request<'_>,
        fields: &[[&[u8]; 2]],
        now_ms: u64,
    ) -> Result<Answer<'static>, Refusal> {
        self.collection(request, ValueKind::Hash, now_ms)?;
        let mut texts = fields.as_flattened().iter();
        if texts.any(|text| text.len() > VALUE_MAX_BYTES) {
            return Err(Refusal::TooLarge);
        }
        if fields.is_empty() {
            return Ok(Answer::Number(0));
        }
        let added = fields.iter().map(|[field, value]| field_bytes(field.len(), value.len()));
        self.make_room_in_collection(request, Self::with_empty(added.sum()))?;
        let found = self.collection(request, ValueKind::Hash, now_ms)?;
        let added = self.change(request, ValueKind::Hash, found, |hash| {
            let new = fields.iter().filter(|[field, value]| hash.set_field(field, value));
            new.count()
        })?;
        Ok(Answer::Number(added as i64))
    }

    pub(super) fn hash_delete(
        &mut self,
        request: &Request<'_>,
        fields: &[&[u8]],
        now_ms: u64,
    ) -> Result<Answer<'static>, Refusal> {
        self.remove_elements(request, ValueKind::Hash, fields, now_ms, Collection::remove_field)
    }

    pub(super) fn sorted_remove(
        &mut self,
        request: &Request<'_>,
        members: &[&[u8]],
        now_ms: u64,
    ) -> Result<Answer<'static>, Refusal> {
        let kind = ValueKind::SortedSet;
        self.remove_elements(request, kind, members, now_ms, Collection::remove_member)
    }

    fn with_empty(bytes: usize) -> usize {
        bytes + Collection::new(ValueKind::Hash, 0).memory_bytes
    }

    /// Removes elements, and the item if none are left.
    fn remove_elements(
        &mut self,
        request: &Request<'_>,
        kind: ValueKind,
        elements: &[&[u8]],
        now_ms: u64,
        remove: impl Fn(&mut Collection, &[u8]) -> bool,
    ) -> Result<Answer<'static>, Refusal> {
        self.make_room_in_collection(request, 0)?;
        let Some(found) = self.collection(request, kind, now_ms)? else {
            return Ok(Answer::Number(0));
        };
        self.preserve(request.hash);
        let (removed, grown) = self.collections.change(found.number, |collection| {
            let removed = elements.iter().filter(|element| remove(collection, element));
            removed.count()
        });
        let payload = self.counts.payload_bytes;
        self.counts.payload_bytes = payload.wrapping_add_signed(grown);
        if self.collections.get(found.number).len() == 0 {
            self.remove(request.hash, found.slot);
        } else if removed > 0 {
            self.touch(request.key, request.hash, found.slot)?;
        }
        Ok(Answer::Number(removed as i64))
    }

    pub(super) fn sorted_add(
        &mut self,
        request: &Request<'_>,
        members: &[(f64, &[u8])],
        options: SortedAddOptions,
        now_ms: u64,
    ) -> Result<Answer<'static>, Refusal> {
        let found = self.collection(request, ValueKind::SortedSet, now_ms)?;
        let growth = match found {
            Some(found) => self.collections.get(found.number).growth_bytes(members.len()),
            None => Collection::new(ValueKind::SortedSet, 0).growth_bytes(members.len()),
        };
        if members.iter().any(|(_, m)| m.len() > VALUE_MAX_BYTES) {
            return Err(Refusal::TooLarge);
        }
        if members.iter().any(|(score, _)| score.is_nan()) {
            return Err(Refusal::NotFinite);
        }
        let added = members.iter().map(|(_, member)| member_bytes(member.len()));
        let added = growth + added.sum::<usize>();
        self.make_room_in_collection(request, Self::with_empty(added))?;
        let found = self.collection(request, ValueKind::SortedSet, now_ms)?;
        // Nothing is touched, nor made, unless something changes.
        let set = found.map(|found| self.collections.get(found.number));
        let mut is_changed = false;
        for (score, member) in members {
            let old = set.and_then(|set| score_of(set, member));
            let new = new_score(old, *score, options)?;
            is_changed |= new.is_some() && new != old;
        }
        let mut last = None;
        if !is_changed {
            if let [(score, member)] = members {
                let old = set.and_then(|set| score_of(set, member));
                last = new_score(old, *score, options)?;
            }
            return Ok(sorted_answer(0, 0, last, options));
        }
        let (mut added, mut changed) = (0, 0);
        self.change(request, ValueKind::SortedSet, found, |set| {
            for (score, member) in members {
                let old = score_of(set, member);
                // Only a sum of one member can be refused, and that was seen above.
                last = new_score(old, *score, options).unwrap_or(None);
                let Some(new) = last.filter(|new| Some(*new) != old) else {
                    continue;
                };
                match set.set_score(member, new) {
                    true => added += 1,
                    false => changed += 1,
                }
            }
        })?;
        Ok(sorted_answer(added, changed, last, options))
    }
}

fn sorted_answer(
    added: i64,
    changed: i64,
    last: Option<f64>,
    options: SortedAddOptions,
) -> Answer<'static> {
    match (options.increment, last) {
        (true, Some(score)) => Answer::Score(score),
        (true, None) => Answer::Missing,
        (false, _) if options.count_changed => Answer::Number(added + changed),
        (false, _) => Answer::Number(added),
    }
}

fn score_of(collection: &Collection, member: &[u8]) -> Option<f64> {
    match &collection.content {
        Content::Sorted(set) => set.score(member),
        Content::Hash(_) => None,
    }
}

/// The score that a member gets, or `None` if the options leave it unchanged.
fn new_score(
    old: Option<f64>,
    score: f64,
    options: SortedAddOptions,
) -> Result<Option<f64>, Refusal> {
    let Some(old) = old else {
        return Ok((!options.if_present).then_some(score));
    };
    if options.if_absent {
        return Ok(None);
    }
    let new = match options.increment {
        true => old + score,
        false => score,
    };
    if new.is_nan() {
        return Err(Refusal::NotFinite);
    }
    let is_kept = (options.if_greater && new <= old) || (options.if_less && new >= old);
    Ok((!is_kept).then_some(new))
}
