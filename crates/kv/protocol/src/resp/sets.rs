//! Commands on several sets.

use std::collections::BTreeSet;

use super::batch::{Batch, integer};
use super::command::Call;
use super::reply::{CROSS_SLOT, ErrorReply, SYNTAX};
use overside_kv_store::{Answer, Operation, Transaction, ValueKind};

/// Members of a set.
type Members = BTreeSet<Vec<u8>>;
type HandlerResult = Result<(), ErrorReply>;

/// Maximum number of times that a command begins again because another client changed a key meanwhile.
const ATTEMPTS: usize = 100;

/// Combination of several sets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Combination {
    Union,
    Intersection,
    Difference,
}

fn members(call: &mut Call<'_>, key: &[u8]) -> Result<Members, ErrorReply> {
    Ok(call.read_list(key, Operation::Members(ValueKind::Set))?.into_iter().collect())
}

fn combined(
    call: &mut Call<'_>,
    keys: &[&[u8]],
    combination: Combination,
) -> Result<Members, ErrorReply> {
    let mut sets = keys.iter().map(|key| members(call, key)).collect::<Result<Vec<_>, _>>()?;
    let rest = sets.split_off(1.min(sets.len()));
    let mut result = sets.pop().unwrap_or_default();
    for set in rest {
        match combination {
            Combination::Union => result.extend(set),
            Combination::Intersection => result.retain(|member| set.contains(member)),
            Combination::Difference => result.retain(|member| !set.contains(member)),
        }
    }
    Ok(result)
}

/// `SUNION`, `SINTER`, `SDIFF`: `key [key ...]`
pub(super) fn combine(
    call: &mut Call<'_>,
    arguments: &[&[u8]],
    combination: Combination,
) -> HandlerResult {
    let keys = &arguments[1..];
    check_together(call, keys)?;
    let result = combined(call, keys, combination)?;
    let mut reply = call.reply();
    reply.set(result.len());
    result.iter().for_each(|member| reply.bulk(member));
    Ok(())
}

/// `SUNIONSTORE`, `SINTERSTORE`, `SDIFFSTORE`: `destination key [key ...]`
pub(super) fn store(
    call: &mut Call<'_>,
    arguments: &[&[u8]],
    combination: Combination,
) -> HandlerResult {
    let (to, keys) = (arguments[1], &arguments[2..]);
    let count = update(
        call,
        &arguments[1..],
        &|call| Ok((to.to_vec(), combined(call, keys, combination)?)),
        &|(to, result), batch| {
            batch.request(to, Operation::Delete { version: None })?;
            if !result.is_empty() {
                let members = result.iter().map(Vec::as_slice).collect();
                batch.request(to, Operation::SetAdd { members })?;
            }
            Ok(result.len())
        },
    )?;
    call.reply().count(count as u64);
    Ok(())
}

/// `SINTERCARD numkeys key [key ...] [LIMIT limit]`
pub(super) fn intersection_len(call: &mut Call<'_>, arguments: &[&[u8]]) -> HandlerResult {
    let count = integer(arguments[1]).ok().and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0);
    let count = count.ok_or(ErrorReply::new("ERR numkeys should be greater than 0"))?;
    let split = arguments[2..].split_at_checked(count);
    let (keys, options) =
        split.ok_or(ErrorReply::new("ERR Number of keys can't be greater than number of args"))?;
    let mut limit = usize::MAX;
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let value = options.next().filter(|_| option.eq_ignore_ascii_case(b"LIMIT"));
        let number = integer(value.ok_or(SYNTAX)?).ok();
        let number = number.and_then(|number| usize::try_from(number).ok());
        limit = match number.ok_or(ErrorReply::new("ERR LIMIT can't be negative"))? {
            0 => usize::MAX,
            limit => limit,
        };
    }
    check_together(call, keys)?;
    let result = combined(call, keys, Combination::Intersection)?;
    call.reply().count(result.len().min(limit) as u64);
    Ok(())
}

/// `SMOVE source destination member`
pub(super) fn move_member(call: &mut Call<'_>, arguments: &[&[u8]]) -> HandlerResult {
    let [_, from, to, member] = *arguments else {
        return Err(SYNTAX);
    };
    let count = update(
        call,
        &[from, to],
        &|call| {
            let source = members(call, from)?;
            // Redis looks at the other one only if this one exists.
            if !source.is_empty() {
                call.read(to, scores(&[]), &mut |_| {})?;
            }
            let texts = [from, to, member].map(<[u8]>::to_vec);
            Ok((source.contains(member), texts))
        },
        &|(is_there, [from, to, member]), batch| {
            if *is_there && from != to {
                batch.request(from, Operation::SetRemove { members: [&**member].into() })?;
                batch.request(to, Operation::SetAdd { members: [&**member].into() })?;
            }
            Ok(usize::from(*is_there))
        },
    )?;
    call.reply().count(count as u64);
    Ok(())
}

fn scores<'a>(members: &[&'a [u8]]) -> Operation<'a> {
    Operation::Scores { kind: ValueKind::Set, members: members.into() }
}

fn check_together(call: &mut Call<'_>, keys: &[&[u8]]) -> HandlerResult {
    match call.are_together(keys.iter().copied()) {
        true => Ok(()),
        false => Err(CROSS_SLOT),
    }
}

/// Reads keys, and writes what follows from them as one transaction: again if one has changed between. `read` returns
/// all that `write` needs, which adds requests to the batch and returns the number of the reply. Fails with the first
/// refusal.
pub(super) fn update<T>(
    call: &mut Call<'_>,
    keys: &[&[u8]],
    read: &dyn Fn(&mut Call<'_>) -> Result<T, ErrorReply>,
    write: &dyn for<'t> Fn(&'t T, &mut Batch<'t>) -> Result<usize, ErrorReply>,
) -> Result<usize, ErrorReply> {
    check_together(call, keys)?;
    for _ in 0..ATTEMPTS {
        let mut watched = Vec::with_capacity(keys.len());
        for key in keys {
            let mut version = 0;
            call.read(key, Operation::Watch, &mut |answer| {
                if let Answer::Number(number) = answer {
                    version = *number as u64;
                }
            })?;
            watched.push((*key, call.hasher.hash(key), version));
        }
        let found = read(call)?;
        let mut batch = Batch::new(call.hasher, call.now_ms);
        let number = write(&found, &mut batch)?;
        let requests = batch.requests;
        if requests.is_empty() || call.write_all(&Transaction { watched, requests })? {
            return Ok(number);
        }
    }
    Err(ErrorReply::new("ERR other clients change these keys all the time; try again"))
}
