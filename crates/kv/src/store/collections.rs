//! Operations on hashes and sorted sets.

use super::Store;
use super::collection::{Collection, Content, field_bytes, member_bytes};
use super::index::Slot;
use super::item::NewItem;
use crate::request::SortedAddOptions;
use crate::{
    Answer, Element, List, ListBuilder, Operation, Refusal, Request, VALUE_MAX_BYTES, ValueKind,
};

/// A collection and the slot of its item.
#[derive(Clone, Copy, Debug)]
struct Found {
    slot: Slot,
    number: u32,
}

impl Store {
    pub(super) fn perform_on_hash(
        &mut self,
        request: &Request<'_>,
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        match &request.operation {
            Operation::HashSet { fields } => {
                answer(Answer::Number(self.hash_set(request, fields, now_ms)?));
            }
            Operation::HashDelete { fields } => {
                let removed = self.remove_elements(request, ValueKind::Hash, now_ms, |hash| {
                    fields
                        .iter()
                        .filter(|field| hash.remove_field(field))
                        .count()
                })?;
                answer(Answer::Number(removed as i64));
            }
            operation => {
                let found = self.read_collection(request, ValueKind::Hash, now_ms)?;
                let hash = found.map(|found| &self.collections.get(found.number).content);
                let hash = hash.and_then(|content| match content {
                    Content::Hash(hash) => Some(hash),
                    Content::Sorted(_) => None,
                });
                self.list.clear();
                if let Operation::HashGet { fields } = operation {
                    for field in fields {
                        let value = hash.and_then(|hash| hash.get(*field));
                        let value = value.map_or(Element::Nil, |value| Element::Bytes(value));
                        self.list.push(value);
                    }
                } else {
                    for (field, value) in hash.into_iter().flatten() {
                        self.list.push(Element::Bytes(field));
                        self.list.push(Element::Bytes(value));
                    }
                }
                self.answer_list(answer);
            }
        }
        Ok(())
    }

    pub(super) fn perform_on_sorted_set(
        &mut self,
        request: &Request<'_>,
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        match &request.operation {
            Operation::SortedAdd { members, options } => {
                answer(self.sorted_add(request, members, *options, now_ms)?);
            }
            Operation::SortedRemove { members } => {
                let removed =
                    self.remove_elements(request, ValueKind::SortedSet, now_ms, |set| {
                        members
                            .iter()
                            .filter(|member| set.remove_member(member))
                            .count()
                    })?;
                answer(Answer::Number(removed as i64));
            }
            operation => {
                let found = self.read_collection(request, ValueKind::SortedSet, now_ms)?;
                let collection = found.map(|found| self.collections.get(found.number));
                let Operation::SortedRange(range) = operation else {
                    answer(Answer::Number(collection.map_or(0, |set| set.len() as i64)));
                    return Ok(());
                };
                self.list.clear();
                if let Some(Content::Sorted(set)) = collection.map(|set| &set.content) {
                    set.range(range, &mut self.list);
                }
                self.answer_list(answer);
            }
        }
        Ok(())
    }

    /// Memory of a long list is not kept.
    fn answer_list(&mut self, answer: &mut dyn FnMut(Answer<'_>)) {
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

    /// Room for the item of a collection, and for what is added to that.
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

    fn hash_set(
        &mut self,
        request: &Request<'_>,
        fields: &[&[u8]],
        now_ms: u64,
    ) -> Result<i64, Refusal> {
        self.collection(request, ValueKind::Hash, now_ms)?;
        if fields.iter().any(|field| field.len() > VALUE_MAX_BYTES) {
            return Err(Refusal::TooLarge);
        }
        let pairs = fields.chunks_exact(2);
        if pairs.len() == 0 {
            return Ok(0);
        }
        let added = pairs
            .clone()
            .map(|pair| field_bytes(pair[0].len(), pair[1].len()));
        self.make_room_in_collection(request, Self::with_empty(added.sum()))?;
        let found = self.collection(request, ValueKind::Hash, now_ms)?;
        self.change(request, ValueKind::Hash, found, |hash| {
            pairs
                .filter(|pair| hash.set_field(pair[0], pair[1]))
                .count() as i64
        })
    }

    fn with_empty(bytes: usize) -> usize {
        bytes + Collection::new(ValueKind::Hash, 0).memory_bytes
    }

    /// Removes elements, and the item if none are left.
    fn remove_elements(
        &mut self,
        request: &Request<'_>,
        kind: ValueKind,
        now_ms: u64,
        remove: impl FnOnce(&mut Collection) -> usize,
    ) -> Result<usize, Refusal> {
        self.make_room_in_collection(request, 0)?;
        let Some(found) = self.collection(request, kind, now_ms)? else {
            return Ok(0);
        };
        self.preserve(request.hash);
        let (removed, grown) = self.collections.change(found.number, remove);
        let payload = self.counts.payload_bytes;
        self.counts.payload_bytes = payload.wrapping_add_signed(grown);
        if self.collections.get(found.number).len() == 0 {
            self.remove(request.hash, found.slot);
        } else if removed > 0 {
            self.touch(request.key, request.hash, found.slot)?;
        }
        Ok(removed)
    }

    fn sorted_add(
        &mut self,
        request: &Request<'_>,
        members: &[(f64, &[u8])],
        options: SortedAddOptions,
        now_ms: u64,
    ) -> Result<Answer<'static>, Refusal> {
        let found = self.collection(request, ValueKind::SortedSet, now_ms)?;
        let growth = match found {
            Some(found) => self
                .collections
                .get(found.number)
                .growth_bytes(members.len()),
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

/// The score that a member gets, or `None` if the options leave it alone.
fn new_score(
    old: Option<f64>,
    score: f64,
    options: SortedAddOptions,
) -> Result<Option<f64>, Refusal> {
    let Some(old) = old else {
        // Zero has no sign here.
        return Ok((!options.if_present).then_some(score + 0.0));
    };
    if options.if_absent {
        return Ok(None);
    }
    let new = match options.increment {
        true => old + score + 0.0,
        false => score + 0.0,
    };
    if new.is_nan() {
        return Err(Refusal::NotFinite);
    }
    let is_kept = (options.if_greater && new <= old) || (options.if_less && new >= old);
    Ok((!is_kept).then_some(new))
}
