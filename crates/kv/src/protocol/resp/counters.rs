//! Strings that are numbers.

use super::batch::{Batch, Shape, integer};
use super::number::parse_f64;
use super::reply::{ErrorReply, NOT_A_FLOAT};
use crate::Operation;

type Made = Result<Shape, ErrorReply>;

fn add<'a>(batch: &mut Batch<'a>, key: &'a [u8], delta: i64) -> Made {
    batch.request(key, Operation::Increment { delta })?;
    Ok(Shape::Number)
}

pub(super) fn incr<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    add(batch, arguments[1], 1)
}

pub(super) fn decr<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    add(batch, arguments[1], -1)
}

pub(super) fn incrby<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    add(batch, arguments[1], integer(arguments[2])?)
}

pub(super) fn decrby<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    let delta = integer(arguments[2])?.checked_neg();
    let delta = delta.ok_or(ErrorReply::new("ERR decrement would overflow"))?;
    add(batch, arguments[1], delta)
}

pub(super) fn incrbyfloat<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    let delta = arguments[2];
    parse_f64(delta).ok_or(NOT_A_FLOAT)?;
    batch.request(arguments[1], Operation::IncrementFloat { delta })?;
    Ok(Shape::Value)
}
