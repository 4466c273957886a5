//! Fields with values.

use super::batch::{Batch, Shape};
use super::reply::ErrorReply;
use crate::Operation;

type Made = Result<Shape, ErrorReply>;

fn set<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]], command: &str) -> Result<(), ErrorReply> {
    if !arguments.len().is_multiple_of(2) {
        return Err(ErrorReply::wrong_arity(command));
    }
    let fields = arguments[2..].into();
    batch.request(arguments[1], Operation::HashSet { fields })
}

pub(super) fn hset<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    set(batch, arguments, "hset")?;
    Ok(Shape::Number)
}

pub(super) fn hmset<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    set(batch, arguments, "hmset")?;
    Ok(Shape::Ok)
}

fn get<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Result<(), ErrorReply> {
    let fields = arguments[2..].into();
    batch.request(arguments[1], Operation::HashGet { fields })
}

pub(super) fn hget<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    get(batch, arguments)?;
    Ok(Shape::First)
}

pub(super) fn hexists<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    get(batch, arguments)?;
    Ok(Shape::HasFirst)
}

pub(super) fn hmget<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    get(batch, arguments)?;
    let len = arguments.len() as u32 - 2;
    Ok(Shape::List { len })
}

fn get_all<'a>(batch: &mut Batch<'a>, key: &'a [u8], shape: Shape) -> Made {
    batch.request(key, Operation::HashGetAll)?;
    Ok(shape)
}

pub(super) fn hgetall<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    get_all(batch, arguments[1], Shape::Map)
}

pub(super) fn hkeys<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    get_all(batch, arguments[1], Shape::Half { values: false })
}

pub(super) fn hvals<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    get_all(batch, arguments[1], Shape::Half { values: true })
}

pub(super) fn hlen<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    batch.request(arguments[1], Operation::Inspect)?;
    Ok(Shape::Fields)
}

pub(super) fn hdel<'a>(batch: &mut Batch<'a>, arguments: &[&'a [u8]]) -> Made {
    let fields = arguments[2..].into();
    batch.request(arguments[1], Operation::HashDelete { fields })?;
    Ok(Shape::Number)
}

#[cfg(test)]
mod tests {
    use super::{Batch, hlen};
    use crate::{KeyHasher, Operation};

    #[test]
    fn the_number_of_fields_is_known_without_the_fields() {
        let hasher = KeyHasher::with_seeds([1, 2, 3, 4]);
        let mut batch = Batch::new(&hasher, 0);
        hlen(&mut batch, &[b"HLEN", b"h"]).unwrap();
        assert_eq!(batch.requests[0].operation, Operation::Inspect);
    }
}
