//! Hashes, sets and sorted sets.

use std::collections::{BTreeMap, BTreeSet};

use overside_kv::request::{SortedAddOptions, SortedRangeBy};
use overside_kv::{
    Answer, Element, ListBuilder, Operation, Popped, Refusal, Request, SortedRange,
    VALUE_MAX_BYTES, Value, ValueKind, random_ranks,
};

use super::numbers::{fixed_point, fixed_point_text, signed};
use super::{Content, Oracle};

/// Elements of a list: the member or field, and its score or value where it has one.
type Entry = (Vec<u8>, Option<Second>);

#[derive(Clone)]
enum Second {
    Score(f64),
    Value(Vec<u8>),
}

fn push(list: &mut ListBuilder, (first, second): &Entry) {
    list.push(Element::Bytes(first));
    match second {
        Some(Second::Score(score)) => list.push(Element::Score(*score)),
        Some(Second::Value(value)) => list.push(Element::Bytes(value)),
        None => {}
    }
}

impl Oracle {
    fn hash(&self, key: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Refusal> {
        match self.items.get(key).map(|item| &item.content) {
            None => Ok(BTreeMap::new()),
            Some(Content::Hash(hash)) => Ok(hash.clone()),
            Some(_) => Err(Refusal::WrongKind),
        }
    }

    fn sorted(&self, key: &[u8]) -> Result<BTreeMap<Vec<u8>, f64>, Refusal> {
        match self.items.get(key).map(|item| &item.content) {
            None => Ok(BTreeMap::new()),
            Some(Content::Sorted(sorted)) => Ok(sorted.clone()),
            Some(_) => Err(Refusal::WrongKind),
        }
    }

    fn members(&self, key: &[u8]) -> Result<BTreeSet<Vec<u8>>, Refusal> {
        match self.items.get(key).map(|item| &item.content) {
            None => Ok(BTreeSet::new()),
            Some(Content::Set(set)) => Ok(set.clone()),
            Some(_) => Err(Refusal::WrongKind),
        }
    }

    /// All elements of a collection in its order.
    fn entries(&self, key: &[u8], kind: ValueKind) -> Result<Vec<Entry>, Refusal> {
        Ok(match kind {
            ValueKind::Hash => {
                let hash = self.hash(key)?.into_iter();
                hash.map(|(field, value)| (field, Some(Second::Value(value)))).collect()
            }
            ValueKind::SortedSet => {
                let all = in_range(self.sorted(key)?, &ALL).into_iter();
                all.map(|(score, member)| (member, Some(Second::Score(score)))).collect()
            }
            ValueKind::Set => self.members(key)?.into_iter().map(|member| (member, None)).collect(),
            ValueKind::String => return Err(Refusal::WrongKind),
        })
    }

    /// Removes members of a set or a sorted set. Returns the number of those that were there.
    fn remove_members(&mut self, key: &[u8], members: &[&[u8]]) -> usize {
        let Some(content) = self.items.get(key).map(|item| item.content.clone()) else {
            return 0;
        };
        let (before, left, content) = match content {
            Content::Sorted(mut all) => {
                let before = all.len();
                all.retain(|member, _| !members.contains(&member.as_slice()));
                (before, all.len(), Content::Sorted(all))
            }
            Content::Set(mut all) => {
                let before = all.len();
                all.retain(|member| !members.contains(&member.as_slice()));
                (before, all.len(), Content::Set(all))
            }
            other => unreachable!("{other:?} has no members"),
        };
        if left == 0 {
            self.items.remove(key);
        } else if left < before {
            self.update(key, content);
        }
        before - left
    }

    fn set_field(&mut self, key: &[u8], field: &[u8], value: Vec<u8>) -> Result<(), Refusal> {
        let mut hash = self.hash(key)?;
        if field.len().max(value.len()) > VALUE_MAX_BYTES {
            return Err(Refusal::TooLarge);
        }
        hash.insert(field.to_vec(), value);
        self.update(key, Content::Hash(hash));
        Ok(())
    }

    pub(super) fn perform_on_collection(
        &mut self,
        request: &Request<'_>,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let key = request.key;
        let mut list = ListBuilder::default();
        match &request.operation {
            Operation::HashSet { fields } => {
                let mut hash = self.hash(key)?;
                let mut texts = fields.as_flattened().iter();
                if texts.any(|text| text.len() > VALUE_MAX_BYTES) {
                    return Err(Refusal::TooLarge);
                }
                let before = hash.len();
                for [name, value] in fields {
                    hash.insert(name.to_vec(), value.to_vec());
                }
                answer(Answer::Number((hash.len() - before) as i64));
                if !fields.is_empty() {
                    self.update(key, Content::Hash(hash));
                }
            }
            Operation::HashGet { fields } => {
                let hash = self.hash(key)?;
                for field in fields {
                    let value = hash.get(*field);
                    list.push(value.map_or(Element::Nil, |value| Element::Bytes(value)));
                }
                answer(Answer::List(list.list()));
            }
            Operation::HashGetAll => {
                for (field, value) in self.hash(key)? {
                    list.push(Element::Bytes(&field));
                    list.push(Element::Bytes(&value));
                }
                answer(Answer::List(list.list()));
            }
            Operation::HashDelete { fields } => {
                let mut hash = self.hash(key)?;
                let before = hash.len();
                fields.iter().for_each(|field| drop(hash.remove(*field)));
                answer(Answer::Number((before - hash.len()) as i64));
                if hash.is_empty() {
                    self.items.remove(key);
                } else if hash.len() < before {
                    self.update(key, Content::Hash(hash));
                }
            }
            Operation::SortedAdd { members, options } => {
                return self.sorted_add(key, members, *options, answer);
            }
            Operation::HashAdd { field, value } => {
                let is_there = self.hash(key)?.contains_key(*field);
                if !is_there {
                    self.set_field(key, field, value.to_vec())?;
                }
                answer(Answer::Number(i64::from(!is_there)));
            }
            Operation::HashIncrement { field, delta } => {
                let hash = self.hash(key)?;
                let old = hash.get(*field).map_or(Some(0), |text| signed(text));
                let sum = old.ok_or(Refusal::NotAnInteger)?.checked_add(*delta);
                let sum = sum.ok_or(Refusal::Overflow)?;
                self.set_field(key, field, sum.to_string().into_bytes())?;
                answer(Answer::Number(sum));
            }
            Operation::HashIncrementFloat { field, delta } => {
                let hash = self.hash(key)?;
                let old = hash.get(*field).map_or(&b"0"[..], |text| text);
                let sum = fixed_point_text(fixed_point(old)? + fixed_point(delta)?);
                self.set_field(key, field, sum.clone().into_bytes())?;
                answer(Answer::Value(Value { data: sum.as_bytes(), ..Value::default() }));
            }
            Operation::SetAdd { members } => {
                let mut set = self.members(key)?;
                if members.iter().any(|member| member.len() > VALUE_MAX_BYTES) {
                    return Err(Refusal::TooLarge);
                }
                let before = set.len();
                set.extend(members.iter().map(|member| member.to_vec()));
                let added = set.len() - before;
                if added > 0 {
                    self.update(key, Content::Set(set));
                }
                answer(Answer::Number(added as i64));
            }
            Operation::SetRemove { members } => {
                self.members(key)?;
                answer(Answer::Number(self.remove_members(key, members) as i64));
            }
            Operation::SortedRemove { members } => {
                self.sorted(key)?;
                answer(Answer::Number(self.remove_members(key, members) as i64));
            }
            Operation::Members(kind) => {
                self.entries(key, *kind)?.iter().for_each(|entry| push(&mut list, entry));
                answer(Answer::List(list.list()));
            }
            Operation::Scores { kind, members } => {
                let entries: BTreeMap<_, _> = self.entries(key, *kind)?.into_iter().collect();
                for member in members {
                    list.push(match entries.get(*member) {
                        None => Element::Nil,
                        Some(Some(Second::Score(score))) => Element::Score(*score),
                        Some(_) => Element::Score(0.0),
                    });
                }
                answer(Answer::List(list.list()));
            }
            Operation::Choose { kind, count, seed } => {
                let entries = self.entries(key, *kind)?;
                let ranks = random_ranks(entries.len(), *count, *seed);
                ranks.for_each(|rank| push(&mut list, &entries[rank]));
                answer(Answer::List(list.list()));
            }
            Operation::Pop { kind, count, which } => {
                let entries = self.entries(key, *kind)?;
                let len = entries.len();
                let count = usize::try_from(*count).unwrap_or(usize::MAX).min(len);
                let ranks: Vec<usize> = match which {
                    Popped::Least => (0..count).collect(),
                    Popped::Greatest => (len - count..len).rev().collect(),
                    Popped::Random(seed) => random_ranks(len, count as i64, *seed).collect(),
                };
                ranks.iter().for_each(|rank| push(&mut list, &entries[*rank]));
                let members: Vec<_> = ranks.iter().map(|rank| &*entries[*rank].0).collect();
                self.remove_members(key, &members);
                answer(Answer::List(list.list()));
            }
            Operation::SortedRank { member, reverse } => {
                let mut all = in_range(self.sorted(key)?, &ALL);
                if *reverse {
                    all.reverse();
                }
                let rank = all.iter().position(|(_, other)| other == member);
                answer(rank.map_or(Answer::Missing, |rank| Answer::Number(rank as i64)));
            }
            Operation::SortedCount(range) => {
                answer(Answer::Number(in_range(self.sorted(key)?, range).len() as i64));
            }
            Operation::SortedRemoveRange(range) => {
                let removed = in_range(self.sorted(key)?, range);
                let members: Vec<_> = removed.iter().map(|(_, member)| &**member).collect();
                answer(Answer::Number(self.remove_members(key, &members) as i64));
            }
            Operation::SortedRange(range) => {
                for (score, member) in in_range(self.sorted(key)?, range) {
                    list.push(Element::Bytes(&member));
                    if range.with_scores {
                        list.push(Element::Score(score));
                    }
                }
                answer(Answer::List(list.list()));
            }
            other => unreachable!("{other:?} is no operation on a collection"),
        }
        Ok(())
    }

    fn sorted_add(
        &mut self,
        key: &[u8],
        members: &[(f64, &[u8])],
        options: SortedAddOptions,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let mut sorted = self.sorted(key)?;
        if members.iter().any(|(_, m)| m.len() > VALUE_MAX_BYTES) {
            return Err(Refusal::TooLarge);
        }
        let (mut added, mut changed, mut last) = (0, 0, None);
        for (score, member) in members {
            let old = sorted.get(*member).copied();
            let mut new = *score;
            last = None;
            if let Some(old) = old {
                if options.increment {
                    new = old + score;
                }
                if options.if_absent {
                    continue;
                }
                if new.is_nan() {
                    return Err(Refusal::NotFinite);
                }
                if (options.if_greater && new <= old) || (options.if_less && new >= old) {
                    continue;
                }
                changed += i64::from(new != old);
            } else if options.if_present {
                continue;
            } else if new.is_nan() {
                return Err(Refusal::NotFinite);
            } else {
                added += 1;
            }
            last = Some(new);
            // Zero has no sign.
            if old != last {
                sorted.insert(member.to_vec(), new + 0.0);
            }
        }
        if added + changed > 0 {
            self.update(key, Content::Sorted(sorted));
        }
        answer(match (options.increment, last) {
            (true, Some(score)) => Answer::Score(score),
            (true, None) => Answer::Missing,
            (false, _) if options.count_changed => Answer::Number(added + changed),
            (false, _) => Answer::Number(added),
        });
        Ok(())
    }
}

/// All members.
const ALL: SortedRange<'static> = SortedRange {
    by: SortedRangeBy::Rank { start: 0, end: -1 },
    reverse: false,
    offset: 0,
    count: u64::MAX,
    with_scores: false,
};

fn in_range(sorted: BTreeMap<Vec<u8>, f64>, range: &SortedRange<'_>) -> Vec<(f64, Vec<u8>)> {
    let mut all: Vec<_> = sorted.into_iter().map(|(m, score)| (score, m)).collect();
    all.sort_by(|a, b| (a.0.partial_cmp(&b.0).unwrap()).then_with(|| a.1.cmp(&b.1)));
    if range.reverse {
        all.reverse();
    }
    let selected: Vec<_> = match &range.by {
        SortedRangeBy::Rank { start, end } => {
            let len = all.len() as i128;
            let absolute = |at: i64| i128::from(at) + if at < 0 { len } else { 0 };
            let (start, end) = (absolute(*start), absolute(*end));
            let ranked = (0_i128..).zip(all);
            let ranked = ranked.filter(|(rank, _)| (start..=end).contains(rank));
            ranked.map(|(_, entry)| entry).collect()
        }
        SortedRangeBy::Score { min, max } => {
            let is_in = |score: f64| {
                (score > min.score || (score == min.score && !min.is_exclusive))
                    && (score < max.score || (score == max.score && !max.is_exclusive))
            };
            all.retain(|(score, _)| is_in(*score));
            all
        }
        SortedRangeBy::Member { min, max } => {
            let from = |m: &[u8]| min.is_none_or(|(min, is)| m > min || (is && m == min));
            let to = |m: &[u8]| max.is_none_or(|(max, is)| m < max || (is && m == max));
            all.retain(|(_, member)| from(member) && to(member));
            all
        }
    };
    let offset = usize::try_from(range.offset).unwrap_or(usize::MAX);
    let count = usize::try_from(range.count).unwrap_or(usize::MAX);
    selected.into_iter().skip(offset).take(count).collect()
}
