//! Redraws ids.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Int64Array, StringArray, UInt64Array};
use arrow_cast::cast;
use arrow_schema::DataType;
use overside_base::Random;

use crate::Error;

/// Sign bit of a number.
const SIGN: u64 = 1 << 63;
/// Maximum number of random draws of a new id. If all of them are already used, an id of the sample is kept.
const DRAWS_MAX: usize = 32;

pub(super) fn is_redrawn(kind: &DataType) -> bool {
    kind.is_integer() || matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Redraws ids. Equal ids stay equal, and the order is kept.
pub(super) fn redraw(array: &ArrayRef, random: &mut Random) -> Result<ArrayRef, Error> {
    let redrawn: ArrayRef = match array.data_type() {
        DataType::UInt64 => {
            let ids = array.as_primitive::<UInt64Type>();
            // Flipping the sign bit keeps the order as signed numbers.
            let signed: Vec<i64> = ids.values().iter().map(|id| (id ^ SIGN) as i64).collect();
            let new = redrawn(&signed, u64::BITS, random);
            let new: Vec<u64> = new.into_iter().map(|id| id as u64 ^ SIGN).collect();
            Arc::new(UInt64Array::new(new.into(), ids.nulls().cloned()))
        }
        kind if kind.is_integer() => {
            let bits = 8 * kind.primitive_width().unwrap_or_default() as u32;
            let ids = cast(array, &DataType::Int64)?;
            let ids = ids.as_primitive::<Int64Type>();
            let new = redrawn(ids.values(), bits, random);
            Arc::new(Int64Array::new(new.into(), ids.nulls().cloned()))
        }
        _ => {
            let ids = cast(array, &DataType::Utf8)?;
            let ids = ids.as_string::<i32>();
            let texts: Vec<&str> = ids.iter().map(Option::unwrap_or_default).collect();
            let owned: Vec<String> = texts.iter().map(|&id| id.to_owned()).collect();
            let new = redrawn_texts(&owned, random);
            Arc::new(StringArray::from_iter(
                new.into_iter().enumerate().map(|(row, id)| ids.is_valid(row).then_some(id)),
            ))
        }
    };
    Ok(cast(&redrawn, array.data_type())?)
}

/// Redraws integer ids of `bits` bits. Equal ids stay equal, and the order of ids is kept.
fn redrawn(ids: &[i64], bits: u32, random: &mut Random) -> Vec<i64> {
    let (distinct, ranks) = super::ranks(ids, i64::cmp);
    let low = (1_i64 << parts(&distinct, bits)) - 1;
    let mut seen: HashSet<i64> = HashSet::with_capacity(distinct.len());
    let mut new: Vec<i64> = Vec::with_capacity(distinct.len());
    let mut free = distinct.iter().copied();
    for _ in 0..distinct.len() {
        let draw = |random: &mut Random| {
            let mut any = || distinct[random.below(distinct.len() as u64) as usize];
            (any() & !low) | (any() & low)
        };
        let id = (0..DRAWS_MAX).map(|_| draw(random)).find(|id| !seen.contains(id));
        // If the draws are used up, the next free id of the sample is kept.
        let id = id.or_else(|| free.find(|id| !seen.contains(id)));
        let id = id.unwrap_or_default();
        seen.insert(id);
        new.push(id);
    }
    new.sort_unstable();
    ranks.into_iter().map(|rank| new[rank]).collect()
}

/// Returns the bit at which ids are split into two parts that both vary as much as possible.
fn parts(distinct: &[i64], bits: u32) -> u32 {
    let variety = |bit: &u32| {
        let low = (1_i64 << bit) - 1;
        // Sorted numbers have sorted high bits.
        let high = distinct.chunk_by(|a, b| a & !low == b & !low).count();
        match high {
            0 | 1 => high,
            _ => (distinct.iter().map(|id| id & low).collect::<HashSet<_>>()).len().min(high),
        }
    };
    (1..bits - 1).max_by_key(variety).unwrap_or(1)
}

/// Redraws string ids: the beginning of one and the end of another of the same length.
fn redrawn_texts(ids: &[String], random: &mut Random) -> Vec<String> {
    let texts: Vec<&str> = ids.iter().map(String::as_str).collect();
    let (distinct, ranks) = super::ranks(&texts, |a, b| a.cmp(b));
    let mut seen = HashSet::with_capacity(distinct.len());
    let mut new = Vec::with_capacity(distinct.len());
    for &own in &distinct {
        let mut draw = || {
            let mut any = || distinct[random.below(distinct.len() as u64) as usize];
            let (first, second) = (any(), any());
            let middle = own.len() / 2;
            let same = first.len() == own.len() && second.len() == own.len();
            let id = format!("{}{}", first.get(..middle)?, second.get(middle..)?);
            (same && !seen.contains(&id)).then_some(id)
        };
        let id = (0..DRAWS_MAX).find_map(|_| draw());
        let id = id.unwrap_or_else(|| own.to_owned());
        seen.insert(id.clone());
        new.push(id);
    }
    new.sort_unstable();
    ranks.into_iter().map(|rank| new[rank].clone()).collect()
}
