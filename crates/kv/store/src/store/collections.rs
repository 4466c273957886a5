//! Operations on hashes, sets and sorted sets.

use super::collection::{Collection, Content, field_bytes, member_bytes};
use super::index::Slot;
use super::item::NewItem;
use super::sorted_set::SortedSet;
use super::strings::numbers::signed;
use super::{Store, decimal};
use crate::request::{Popped, SortedAddOptions, random_ranks};
use crate::{
    Answer, Element, List, ListBuilder, Refusal, Request, SortedRange, VALUE_MAX_BYTES, Value,
    ValueKind,
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
        self.answer_list(request, ValueKind::Hash, now_ms, answer, |hash, list| {
            for field in fields {
                let value = hash.and_then(|hash| hash.field(field));
                list.push(value.map_or(Element::Nil, Element::Bytes));
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
        self.answer_list(request, kind, now_ms, answer, |collection, list| {
            if let Some(Content::Sorted(set)) = collection.map(|collection| &collection.content) {
                set.range(range, list);
            }
        })
    }

    pub(super) fn members(
        &mut self,
        request: &Request<'_>,
        kind: ValueKind,
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        self.answer_list(request, kind, now_ms, answer, |collection, list| {
            if let Some(collection) = collection {
                collection.list(kind == ValueKind::Set, None, list);
            }
        })
    }

    pub(super) fn choose(
        &mut self,
        request: &Request<'_>,
        (kind, count, seed): (ValueKind, i64, u64),
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        self.answer_list(request, kind, now_ms, answer, |collection, list| {
            if let Some(collection) = collection {
                let mut ranks = random_ranks(collection.len(), count, seed);
                collection.list(kind == ValueKind::Set, Some(&mut ranks), list);
            }
        })
    }

    pub(super) fn scores(
        &mut self,
        request: &Request<'_>,
        kind: ValueKind,
        members: &[&[u8]],
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        self.answer_list(request, kind, now_ms, answer, |collection, list| {
            for member in members {
                let score = collection.and_then(|collection| score_of(collection, member));
                list.push(score.map_or(Element::Nil, Element::Score));
            }
        })
    }

    /// Answers with a number of a sorted set, 0 if it is missing, or `Missing` if it has none.
    pub(super) fn sorted_number(
        &mut self,
        request: &Request<'_>,
        now_ms: u64,
        number: impl FnOnce(&SortedSet) -> Option<usize>,
    ) -> Result<Answer<'static>, Refusal> {
        let found = self.read_collection(request, ValueKind::SortedSet, now_ms)?;
        let number = match found.map(|found| &self.collections.get(found.number).content) {
            Some(Content::Sorted(set)) => number(set),
            _ => number(&SortedSet::new(0)),
        };
        Ok(number.map_or(Answer::Missing, |number| Answer::Number(number as i64)))
    }

    /// Answers with what `fill` takes from a collection, if it is there.
    fn answer_list(
        &mut self,
        request: &Request<'_>,
        kind: ValueKind,
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
        fill: impl FnOnce(Option<&Collection>, &mut ListBuilder),
    ) -> Result<(), Refusal> {
        let found = self.read_collection(request, kind, now_ms)?;
        let collection = found.map(|found| self.collections.get(found.number));
        self.list.clear();
        fill(collection, &mut self.list);
        self.answer_filled(answer);
        Ok(())
    }

    /// Answers with the list that was filled. Memory of a long one is not kept.
    fn answer_filled(&mut self, answer: &mut dyn FnMut(Answer<'_>)) {
        let list: List<'_> = self.list.list();
        let is_long = list.len() > 1 << 16 || list.as_bytes().len() > 1 << 20;
        answer(match self.list.is_too_long() {
            false => Answer::List(list),
            true => Answer::Refused(Refusal::TooLarge),
        });
        if is_long {
            self.list = ListBuilder::default();
        }
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

    pub(super) fn hash_add(
        &mut self,
        request: &Request<'_>,
        field: &[u8],
        value: &[u8],
        now_ms: u64,
    ) -> Result<Answer<'static>, Refusal> {
        let found = self.collection(request, ValueKind::Hash, now_ms)?;
        let is_there =
            found.is_some_and(|it| self.collections.get(it.number).field(field).is_some());
        match is_there {
            true => Ok(Answer::Number(0)),
            false => self.hash_set(request, &[[field, value]], now_ms),
        }
    }

    pub(super) fn hash_increment(
        &mut self,
        request: &Request<'_>,
        field: &[u8],
        delta: i64,
        now_ms: u64,
    ) -> Result<Answer<'static>, Refusal> {
        let found = self.collection(request, ValueKind::Hash, now_ms)?;
        let old = found.and_then(|it| self.collections.get(it.number).field(field));
        let old = old.map_or(Some(0), signed).ok_or(Refusal::NotAnInteger)?;
        let sum = old.checked_add(delta).ok_or(Refusal::Overflow)?;
        self.hash_set(request, &[[field, sum.to_string().as_bytes()]], now_ms)?;
        Ok(Answer::Number(sum))
    }

    pub(super) fn hash_increment_float(
        &mut self,
        request: &Request<'_>,
        field: &[u8],
        delta: &[u8],
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let found = self.collection(request, ValueKind::Hash, now_ms)?;
        let old = found.and_then(|it| self.collections.get(it.number).field(field));
        let sum = decimal::add(old.unwrap_or(b"0"), delta)?;
        self.hash_set(request, &[[field, sum.as_bytes()]], now_ms)?;
        answer(Answer::Value(Value { data: sum.as_bytes(), ..Value::default() }));
        Ok(())
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

    /// Removes members of a set or a sorted set.
    pub(super) fn remove_members(
        &mut self,
        request: &Request<'_>,
        kind: ValueKind,
        members: &[&[u8]],
        now_ms: u64,
    ) -> Result<Answer<'static>, Refusal> {
        self.remove_elements(request, kind, members, now_ms, Collection::remove_member)
    }

    pub(super) fn sorted_remove_range(
        &mut self,
        request: &Request<'_>,
        range: &SortedRange<'_>,
        now_ms: u64,
    ) -> Result<Answer<'static>, Refusal> {
        let kind = ValueKind::SortedSet;
        let taken = self.take(request, kind, now_ms, |set, list| {
            set.visit(set.ranks(range), false, &mut |_, member| list.push(Element::Bytes(member)));
        })?;
        Ok(Answer::Number(taken as i64))
    }

    pub(super) fn pop(
        &mut self,
        request: &Request<'_>,
        (kind, count, which): (ValueKind, u64, Popped),
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.take(request, kind, now_ms, |set, list| {
            let len = set.len();
            let count = count.min(len);
            let mut push = |score, member| {
                list.push(Element::Bytes(member));
                if kind == ValueKind::SortedSet {
                    list.push(Element::Score(score));
                }
            };
            match which {
                Popped::Least => set.visit(0..count, false, &mut push),
                Popped::Greatest => set.visit(len - count..len, true, &mut push),
                Popped::Random(seed) => random_ranks(len, count as i64, seed)
                    .for_each(|rank| set.visit(rank..rank + 1, false, &mut push)),
            }
        })?;
        self.answer_filled(answer);
        Ok(())
    }

    /// Removes members: those that `list` puts into the list. Returns their number.
    fn take(
        &mut self,
        request: &Request<'_>,
        kind: ValueKind,
        now_ms: u64,
        list: impl FnOnce(&SortedSet, &mut ListBuilder),
    ) -> Result<usize, Refusal> {
        let found = self.collection(request, kind, now_ms)?;
        self.list.clear();
        if let Some(found) = found
            && let Content::Sorted(set) = &self.collections.get(found.number).content
        {
            list(set, &mut self.list);
        }
        if self.list.is_too_long() {
            return Err(Refusal::TooLarge);
        }
        let taken = std::mem::take(&mut self.list);
        let members: Vec<&[u8]> = (taken.list().iter())
            .filter_map(|element| match element {
                Element::Bytes(member) => Some(member),
                _ => None,
            })
            .collect();
        let removed = match members.is_empty() {
            true => Ok(()),
            false => self.remove_members(request, kind, &members, now_ms).map(drop),
        };
        let len = members.len();
        drop(members);
        self.list = taken;
        removed.map(|()| len)
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

    pub(super) fn set_add(
        &mut self,
        request: &Request<'_>,
        members: &[&[u8]],
        now_ms: u64,
    ) -> Result<Answer<'static>, Refusal> {
        let members: Vec<_> = members.iter().map(|member| (0.0, *member)).collect();
        let options = SortedAddOptions { if_absent: true, ..SortedAddOptions::default() };
        self.sorted_add(request, ValueKind::Set, &members, options, now_ms)
    }

    pub(super) fn sorted_add(
        &mut self,
        request: &Request<'_>,
        kind: ValueKind,
        members: &[(f64, &[u8])],
        options: SortedAddOptions,
        now_ms: u64,
    ) -> Result<Answer<'static>, Refusal> {
        let found = self.collection(request, kind, now_ms)?;
        let growth = match found {
            Some(found) => self.collections.get(found.number).growth_bytes(members.len()),
            None => Collection::new(kind, 0).growth_bytes(members.len()),
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
        let found = self.collection(request, kind, now_ms)?;
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
        self.change(request, kind, found, |set| {
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
