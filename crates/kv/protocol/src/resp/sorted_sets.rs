//! Commands on sorted sets.

use super::batch::{Batch, ReplyKind, integer};
use super::number::parse_f64;
use super::reply::{ErrorReply, NOT_A_FLOAT, SYNTAX};
use overside_kv_store::parse_double;
use overside_kv_store::request::{SortedAddOptions, SortedRangeBy};
use overside_kv_store::{Operation, ScoreBound, SortedRange};

type HandlerResult = Result<ReplyKind, ErrorReply>;

pub(super) fn zadd<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> HandlerResult {
    let mut options = SortedAddOptions::default();
    let mut first = 2;
    for argument in &arguments[2..] {
        let is = |word: &[u8]| argument.eq_ignore_ascii_case(word);
        let flag = if is(b"NX") {
            &mut options.if_absent
        } else if is(b"XX") {
            &mut options.if_present
        } else if is(b"GT") {
            &mut options.if_greater
        } else if is(b"LT") {
            &mut options.if_less
        } else if is(b"CH") {
            &mut options.count_changed
        } else if is(b"INCR") {
            &mut options.increment
        } else {
            break;
        };
        *flag = true;
        first += 1;
    }
    let (pairs, rest) = arguments[first..].as_chunks();
    if pairs.is_empty() || !rest.is_empty() {
        return Err(SYNTAX);
    }
    check_options(options, pairs.len())?;
    add(batch, arguments[1], pairs, options)
}

fn check_options(options: SortedAddOptions, members: usize) -> Result<(), ErrorReply> {
    let o = options;
    if o.if_absent && o.if_present {
        return Err(ErrorReply::new("ERR XX and NX options at the same time are not compatible"));
    }
    if (o.if_absent && (o.if_greater || o.if_less)) || (o.if_greater && o.if_less) {
        return Err(ErrorReply::new(
            "ERR GT, LT, and/or NX options at the same time are not compatible",
        ));
    }
    if o.increment && members > 1 {
        return Err(ErrorReply::new("ERR INCR option supports a single increment-element pair"));
    }
    Ok(())
}

pub(super) fn zincrby<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> HandlerResult {
    let options = SortedAddOptions { increment: true, ..SortedAddOptions::default() };
    add(batch, arguments[1], &[[arguments[2], arguments[3]]], options)
}

fn add<'a>(
    batch: &mut Batch<'a>,
    key: &'a [u8],
    pairs: &[[&'a [u8]; 2]],
    options: SortedAddOptions,
) -> HandlerResult {
    let pairs = pairs.iter().map(|[score, member]| {
        let score = parse_f64(score).ok_or(NOT_A_FLOAT)?;
        Ok((score, *member))
    });
    let members = pairs.collect::<Result<_, ErrorReply>>()?;
    batch.request(key, Operation::SortedAdd { members, options })?;
    Ok(if options.increment { ReplyKind::Score } else { ReplyKind::Number })
}

/// Criterion of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Member,
}

/// Options of a range.
#[derive(Debug, Default)]
struct Options {
    by: Option<By>,
    reverse: bool,
    with_scores: bool,
    limit: Option<(i64, i64)>,
}

/// `ZRANGE` and its variants, whose criterion and direction are `fixed`.
pub(super) fn range<'a>(
    batch: &mut Batch<'a>,
    arguments: &[&'a [u8]],
    fixed: Option<(By, bool)>,
) -> HandlerResult {
    let options = range_options(&arguments[4..], fixed.is_none())?;
    let (by, reverse) = fixed.unwrap_or((options.by.unwrap_or(By::Rank), options.reverse));
    // A count of -1 means without limit.
    let limit = options.limit.filter(|(_, count)| *count != -1 || by != By::Rank);
    if limit.is_some() && by == By::Rank {
        return Err(ErrorReply::new(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    if options.with_scores && by == By::Member {
        return Err(ErrorReply::new(
            "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
        ));
    }
    // In descending order the greater end comes first, except for ranks, which count from the greatest.
    let ends = match reverse && by != By::Rank {
        true => [arguments[3], arguments[2]],
        false => [arguments[2], arguments[3]],
    };
    let by = between(by, ends)?;
    let (offset, count) = limit.unwrap_or((0, -1));
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    let range = SortedRange {
        by,
        reverse,
        // In Redis, a negative offset skips everything.
        offset: u64::try_from(offset).unwrap_or(u64::MAX),
        count,
        with_scores: options.with_scores,
    };
    batch.request(arguments[1], Operation::SortedRange(range))?;
    Ok(if options.with_scores { ReplyKind::Scored } else { ReplyKind::List { len: 0 } })
}

/// The range from the first to the last of two ends.
fn between<'a>(by: By, [min, max]: [&'a [u8]; 2]) -> Result<SortedRangeBy<'a>, ErrorReply> {
    Ok(match by {
        By::Rank => SortedRangeBy::Rank { start: integer(min)?, end: integer(max)? },
        By::Score => SortedRangeBy::Score { min: score_bound(min)?, max: score_bound(max)? },
        By::Member => match (member_bound(min)?, member_bound(max)?) {
            (MemberBound::Last, _) | (_, MemberBound::First) => NONE,
            (min, max) => SortedRangeBy::Member { min: min.member(), max: max.member() },
        },
    })
}

/// The range that a command has behind its key: all between the two ends.
pub(super) fn whole<'a>(arguments: &[&'a [u8]], by: By) -> Result<SortedRange<'a>, ErrorReply> {
    let by = between(by, [arguments[2], arguments[3]])?;
    Ok(SortedRange { by, reverse: false, offset: 0, count: u64::MAX, with_scores: false })
}

/// Empty range.
const NONE: SortedRangeBy<'static> = SortedRangeBy::Rank { start: 1, end: 0 };

/// Parses the options of a range. Some of `ZRANGE` do not exist for its variants.
fn range_options(options: &[&[u8]], is_general: bool) -> Result<Options, ErrorReply> {
    let mut known = Options::default();
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let is = |word: &[u8]| option.eq_ignore_ascii_case(word);
        if is(b"WITHSCORES") {
            known.with_scores = true;
        } else if is(b"LIMIT") && options.len() >= 2 {
            let mut number = || options.next().map_or(Err(SYNTAX), |text| integer(text));
            known.limit = Some((number()?, number()?));
        } else if is_general && !known.reverse && is(b"REV") {
            known.reverse = true;
        } else if is_general && known.by.is_none() && is(b"BYSCORE") {
            known.by = Some(By::Score);
        } else if is_general && known.by.is_none() && is(b"BYLEX") {
            known.by = Some(By::Member);
        } else {
            return Err(SYNTAX);
        }
    }
    Ok(known)
}

fn score_bound(text: &[u8]) -> Result<ScoreBound, ErrorReply> {
    let (is_exclusive, text) = match text.strip_prefix(b"(") {
        Some(text) => (true, text),
        None => (false, text),
    };
    // Redis reads bounds with `strtod`, which accepts spaces before a number and reads an empty text as 0.
    let score = match text {
        b"" => Some(0.0),
        text => parse_double(text.trim_ascii_start()).map(|number| number.value),
    };
    let score = score.ok_or(ErrorReply::new("ERR min or max is not a float"))?;
    Ok(ScoreBound { score, is_exclusive })
}

/// Bound of a range of members.
enum MemberBound<'a> {
    First,
    Last,
    Member(&'a [u8], bool),
}

impl<'a> MemberBound<'a> {
    fn member(self) -> Option<(&'a [u8], bool)> {
        match self {
            Self::Member(member, is_included) => Some((member, is_included)),
            Self::First | Self::Last => None,
        }
    }
}

fn member_bound(text: &[u8]) -> Result<MemberBound<'_>, ErrorReply> {
    match text {
        b"-" => Ok(MemberBound::First),
        b"+" => Ok(MemberBound::Last),
        [b'[', member @ ..] => Ok(MemberBound::Member(member, true)),
        [b'(', member @ ..] => Ok(MemberBound::Member(member, false)),
        _ => Err(ErrorReply::new("ERR min or max not valid string range item")),
    }
}
