//! Hashes and sorted sets.

use std::collections::BTreeMap;

use overside_kv::request::{SortedAddOptions, SortedRangeBy};
use overside_kv::{
    Answer, Element, ListBuilder, Operation, Refusal, Request, SortedRange, VALUE_MAX_BYTES,
};

use super::{Content, Oracle};

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
            Operation::SortedRemove { members } => {
                let mut sorted = self.sorted(key)?;
                let before = sorted.len();
                sorted.retain(|member, _| !members.contains(&member.as_slice()));
                answer(Answer::Number((before - sorted.len()) as i64));
                if sorted.is_empty() {
                    self.items.remove(key);
                } else if sorted.len() < before {
                    self.update(key, Content::Sorted(sorted));
                }
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
            Operation::SortedLength => answer(Answer::Number(self.sorted(key)?.len() as i64)),
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
            // Zero keeps its sign.
            if old != last {
                sorted.insert(member.to_vec(), new);
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
