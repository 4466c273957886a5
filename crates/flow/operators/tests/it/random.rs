//! Random tables of any type.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryViewBuilder, FixedSizeBinaryBuilder, StringViewBuilder, UnionBuilder,
};
use arrow_array::types::{Float64Type, Int32Type};
use arrow_array::*;
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, i256};
use arrow_schema::{DataType, Field, Fields, Schema};
use overside_base::Random;

/// Number of column kinds that [`column`] can make.
pub(crate) const KINDS: u64 = 26;

fn nulls(random: &mut Random, len: usize) -> Option<NullBuffer> {
    match random.below(3) {
        0 => None,
        1 => Some(NullBuffer::new(BooleanBuffer::collect_bool(len, |_| random.below(4) > 0))),
        _ => Some(NullBuffer::new(BooleanBuffer::collect_bool(len, |_| random.below(40) > 0))),
    }
}

fn word(random: &mut Random) -> String {
    let letters = match random.below(8) {
        0 => 0,
        1..6 => random.below(13),
        6 => random.below(40),
        _ => random.below(300),
    };
    (0..letters)
        .map(|_| match random.below(20) {
            0 => 'é',
            letter => (b'a' + letter as u8) as char,
        })
        .collect()
}

fn offsets(random: &mut Random, len: usize) -> (OffsetBuffer<i32>, usize) {
    let lengths: Vec<usize> = (0..len).map(|_| random.below(5) as usize).collect();
    let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
    (offsets, lengths.iter().sum())
}

fn words(random: &mut Random, len: usize) -> Vec<Option<String>> {
    let nulls = nulls(random, len);
    (0..len)
        .map(|row| {
            let is_valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            is_valid.then(|| word(random))
        })
        .collect()
}

macro_rules! numbers {
    ($array:ty, $random:expr, $len:expr, $value:expr) => {{
        let nulls = nulls($random, $len);
        let values: Vec<_> = (0..$len).map(|_| $value).collect();
        Arc::new(<$array>::new(values.into(), nulls)) as ArrayRef
    }};
}

/// Makes a column of `len` rows. `kind` is below [`KINDS`]; nested ones contain others.
pub(crate) fn column(random: &mut Random, kind: u64, len: usize) -> ArrayRef {
    match kind {
        0 => numbers!(Int8Array, random, len, random.next_u64() as i8),
        1 => numbers!(UInt16Array, random, len, random.next_u64() as u16),
        2 => numbers!(Int32Array, random, len, random.next_u64() as i32),
        3 => numbers!(Int64Array, random, len, random.next_u64() as i64),
        4 => numbers!(Float64Array, random, len, random.below(100) as f64 - 50.0),
        5 => numbers!(Date32Array, random, len, random.below(20_000) as i32),
        6 => numbers!(TimestampMicrosecondArray, random, len, random.next_u64() as i64 >> 8),
        7 => numbers!(Decimal128Array, random, len, i128::from(random.next_u64() as i64)),
        8 => numbers!(Decimal256Array, random, len, i256::from_i128(random.next_u64().into())),
        9 => {
            let values = BooleanBuffer::collect_bool(len, |_| random.below(2) > 0);
            Arc::new(BooleanArray::new(values, nulls(random, len)))
        }
        10 => Arc::new(StringArray::from(words(random, len))),
        11 => Arc::new(LargeStringArray::from(words(random, len))),
        12 => Arc::new(BinaryArray::from_iter(words(random, len))),
        13 => Arc::new(LargeBinaryArray::from_iter(words(random, len))),
        14 => views(random, len),
        15 => {
            let mut views = BinaryViewBuilder::new();
            words(random, len).iter().for_each(|word| views.append_option(word.as_ref()));
            Arc::new(views.finish())
        }
        16 => {
            let width = 1 + random.below(32) as usize;
            let mut bytes = FixedSizeBinaryBuilder::new(width as i32);
            for _ in 0..len {
                match random.below(6) {
                    0 => bytes.append_null(),
                    _ => bytes.append_value(random.bytes(width)).expect("of that width"),
                }
            }
            Arc::new(bytes.finish())
        }
        17 => dictionary(random, len),
        18 => Arc::new(NullArray::new(len)),
        19 => runs(random, len),
        20 => union(random, len),
        _ => nested(random, kind, len),
    }
}

fn views(random: &mut Random, len: usize) -> ArrayRef {
    let mut views = StringViewBuilder::new().with_fixed_block_size(256);
    words(random, len).iter().for_each(|word| views.append_option(word.as_ref()));
    Arc::new(views.finish())
}

fn dictionary(random: &mut Random, len: usize) -> ArrayRef {
    let kind = random.below(17);
    let count = 1 + random.below(20);
    let values = column(random, kind, count as usize);
    let keys = numbers!(Int16Array, random, len, random.below(count) as i16);
    let keys = keys.as_any().downcast_ref::<Int16Array>().expect("keys").clone();
    Arc::new(DictionaryArray::new(keys, values))
}

fn runs(random: &mut Random, len: usize) -> ArrayRef {
    let (mut ends, mut end) = (Vec::new(), 0);
    while end < len {
        end = (end + 1 + random.below(9) as usize).min(len);
        ends.push(end as i32);
    }
    let values = words(random, ends.len());
    let runs = RunArray::<Int32Type>::try_new(&ends.into(), &StringArray::from(values));
    Arc::new(runs.expect("runs"))
}

fn union(random: &mut Random, len: usize) -> ArrayRef {
    let mut union = match random.below(2) {
        0 => UnionBuilder::new_dense(),
        _ => UnionBuilder::new_sparse(),
    };
    // Both fields in an order that does not depend on the data.
    union.append_null::<Int32Type>("number").expect("a null");
    union.append_null::<Float64Type>("real").expect("a null");
    for row in 0..len {
        match random.below(3) {
            0 => union.append::<Int32Type>("number", row as i32),
            1 => union.append::<Float64Type>("real", row as f64),
            _ => union.append_null::<Int32Type>("number"),
        }
        .expect("a value");
    }
    Arc::new(union.build().expect("a union").slice(2, len))
}

fn nested(random: &mut Random, kind: u64, len: usize) -> ArrayRef {
    let inner = random.below(KINDS);
    match kind {
        21 => {
            let (offsets, total) = offsets(random, len);
            let values = column(random, inner, total);
            let field = Arc::new(Field::new("item", values.data_type().clone(), true));
            Arc::new(ListArray::new(field, offsets, values, nulls(random, len)))
        }
        22 => {
            let (offsets, total) = offsets(random, len);
            let offsets = OffsetBuffer::new(offsets.iter().map(|&offset| offset.into()).collect());
            let values = column(random, inner, total);
            let field = Arc::new(Field::new("item", values.data_type().clone(), true));
            Arc::new(LargeListArray::new(field, offsets, values, nulls(random, len)))
        }
        23 => {
            let size = 1 + random.below(3) as usize;
            let values = column(random, inner, size * len);
            let field = Arc::new(Field::new("item", values.data_type().clone(), true));
            let nulls = nulls(random, len);
            Arc::new(FixedSizeListArray::new(field, size as i32, values, nulls))
        }
        24 => {
            let other = random.below(KINDS);
            let columns = vec![column(random, inner, len), column(random, other, len)];
            let fields: Fields = (columns.iter().enumerate())
                .map(|(at, one)| Field::new(format!("f{at}"), one.data_type().clone(), true))
                .collect();
            Arc::new(StructArray::new(fields, columns, nulls(random, len)))
        }
        _ => {
            let (offsets, total) = offsets(random, len);
            let keys = StringArray::from_iter_values((0..total).map(|_| word(random)));
            let values = column(random, inner, total);
            let fields = Fields::from(vec![
                Field::new("keys", DataType::Utf8, false),
                Field::new("values", values.data_type().clone(), true),
            ]);
            let entries = StructArray::new(fields, vec![Arc::new(keys), values], None);
            let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
            Arc::new(MapArray::new(field, offsets, entries, nulls(random, len), false))
        }
    }
}

/// Makes a table of `rows` rows: a key column `id` of the kind `key`, and up to four others.
pub(crate) fn table(random: &mut Random, key: u64, rows: usize) -> RecordBatch {
    // More rows than the table has, so that it begins and ends within its columns.
    let (before, after) = (random.below(70) as usize, random.below(9) as usize);
    let mut columns = vec![column(random, key, before + rows + after)];
    for _ in 0..random.below(5) {
        let kind = random.below(KINDS);
        columns.push(column(random, kind, before + rows + after));
    }
    let fields: Vec<Field> = (columns.iter().enumerate())
        .map(|(at, one)| {
            let name = if at == 0 { "id".to_owned() } else { format!("c{at}") };
            Field::new(name, one.data_type().clone(), true)
        })
        .collect();
    let table = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("a table");
    table.slice(before, rows)
}
