//! Counts and sizes as bytes.

use super::OffloadError;
use crate::Statistics;
use crate::codec::{DecodeError, put_varint, take_varint};

pub(super) fn put_statistics(all: &Statistics, body: &mut Vec<u8>) {
    for number in numbers(&mut all.clone()) {
        put_varint(*number, body);
    }
}

pub(super) fn read_statistics(mut bytes: &[u8]) -> Result<Statistics, OffloadError> {
    let mut all = Statistics::default();
    for number in numbers(&mut all) {
        *number = take_varint(&mut bytes)?;
    }
    match bytes.is_empty() {
        true => Ok(all),
        false => Err(DecodeError::InvalidOperand.into()),
    }
}

/// Every figure, in the order in which they are sent.
fn numbers(all: &mut Statistics) -> [&mut u64; 10] {
    let Statistics {
        items,
        items_with_expiry,
        payload_bytes,
        memory_bytes,
        memory_limit_bytes,
        hits,
        misses,
        evictions,
        expirations,
        refusals,
    } = all;
    [
        items,
        items_with_expiry,
        payload_bytes,
        memory_bytes,
        memory_limit_bytes,
        hits,
        misses,
        evictions,
        expirations,
        refusals,
    ]
}
