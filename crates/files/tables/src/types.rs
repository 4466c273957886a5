//! Arrow's types in the formats that are written: [`TYPES`] says of each type and format whether its values are
//! kept, converted or refused. Every writer goes by it, and `docs/flow/table-types.md` is made from it.

mod convert;

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, TimeUnit};

pub(crate) use convert::convert;
pub use convert::has_leap_second;

use crate::Format;

/// A format's answer to a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The values are stored as they are; the text says more, or is empty.
    Kept(&'static str),
    /// The values are stored as another type, which the text names.
    Converted(&'static str),
    /// The values are stored in a finer unit, that of the type which the text names.
    Finer(&'static str),
    /// A writer refuses the column; the text is the remedy.
    Refused(&'static str),
}

/// A row of the table: types that the formats treat alike.
pub struct TypeRow {
    name: &'static str,
    has: fn(&DataType) -> bool,
    parquet: Answer,
    csv: Answer,
}

/// Bytes of Parquet's INTERVAL: months, days and milliseconds, 32 bits each.
pub(crate) const INTERVAL: DataType = DataType::FixedSizeBinary(12);

const TEXT: Answer = Answer::Kept("as text");
const PLAIN: Answer = Answer::Kept("");
const ZONED: Answer = Answer::Kept("as text, with the offset of its zone");
const VALUES: Answer = Answer::Converted("its values");
const NO_PARTS: Answer = Answer::Refused("leave it out, select its parts, or write arrow");
const NO_UNION: Answer = Answer::Refused("leave it out, or write arrow");

const fn row(
    name: &'static str,
    has: fn(&DataType) -> bool,
    parquet: Answer,
    csv: Answer,
) -> TypeRow {
    TypeRow { name, has, parquet, csv }
}

/// The types, in the order in which rows are looked up.
#[rustfmt::skip]
pub const TYPES: &[TypeRow] = {
    use Answer::{Converted, Finer, Kept, Refused};
    use DataType as Type;
    use TimeUnit::Second;
    &[
        row("null, boolean, integers, floats", |kind| {
            matches!(kind, Type::Null | Type::Boolean) || kind.is_integer() || kind.is_floating()
        }, PLAIN, TEXT),
        row("decimals", |kind| decimal(kind).is_some_and(|(_, scale)| scale >= 0), PLAIN, Kept("as text, with all digits")),
        row("decimals of negative scale", |kind| decimal(kind).is_some(), Converted("a decimal of scale 0"), TEXT),
        row("utf8, large_utf8, utf8_view", Type::is_string, PLAIN, Kept("null is an empty field, as empty text is")),
        row("fixed_size_binary(0)", |kind| *kind == Type::FixedSizeBinary(0), Refused("it has no bytes; leave it out"), TEXT),
        row("binary, large_binary, binary_view, fixed_size_binary", |kind| {
            kind.is_binary() || matches!(kind, Type::FixedSizeBinary(_))
        }, PLAIN, Converted("hexadecimal digits")),
        row("date32", |kind| *kind == Type::Date32, PLAIN, TEXT),
        row("date64", |kind| *kind == Type::Date64, Converted("date32; a time within the day is refused"), TEXT),
        row("time32[s]", |kind| *kind == Type::Time32(Second), Finer("time32[ms]"), TEXT),
        row("time32[ms], time64", |kind| matches!(kind, Type::Time32(_) | Type::Time64(_)), PLAIN, TEXT),
        row("timestamp[s]", |kind| matches!(kind, Type::Timestamp(Second, _)), Finer("timestamp[ms]"), ZONED),
        row("timestamp[ms], [us], [ns]", |kind| matches!(kind, Type::Timestamp(..)),
            Kept("the zone's name for readers of Arrow's schema, UTC for others"), ZONED),
        row("duration", |kind| matches!(kind, Type::Duration(_)),
            Kept("whole numbers to readers that do not know Arrow's schema"), Converted("text such as PT1.5S")),
        row("interval", |kind| matches!(kind, Type::Interval(_)),
            Converted("INTERVAL: months, days and milliseconds; negative parts, and parts of a millisecond, are refused"),
            Converted("text such as 14 mons 3 days")),
        row("dictionary of text or binary", |kind| matches!(kind, Type::Dictionary(_, values) if is_bytes(values)),
            PLAIN, Kept("as its values")),
        row("dictionary of other values", |kind| matches!(kind, Type::Dictionary(..)), VALUES, Kept("as its values")),
        row("run_end_encoded", |kind| matches!(kind, Type::RunEndEncoded(..)), VALUES, Kept("as its values")),
        row("struct without fields", |kind| matches!(kind, Type::Struct(fields) if fields.is_empty()),
            Refused("it has no values; leave it out"), NO_PARTS),
        row("list, large_list, fixed_size_list, struct, map", |kind| {
            matches!(kind, Type::List(_) | Type::LargeList(_) | Type::FixedSizeList(..) | Type::Struct(_) | Type::Map(..))
        }, PLAIN, NO_PARTS),
        row("list_view, large_list_view", |kind| matches!(kind, Type::ListView(_) | Type::LargeListView(_)),
            Converted("a list"), NO_PARTS),
        row("union", |kind| matches!(kind, Type::Union(..)), NO_UNION, NO_UNION),
    ]
};

/// The table as Markdown, as `docs/flow/table-types.md` has it.
pub fn markdown() -> String {
    let text = |answer: Answer| match answer {
        Answer::Kept("") => "kept".to_owned(),
        Answer::Kept(more) => format!("kept: {more}"),
        Answer::Converted(to) | Answer::Finer(to) => format!("converted to {to}"),
        Answer::Refused(remedy) => format!("refused: {remedy}"),
    };
    let mut table =
        String::from("| Arrow's type | Arrow IPC | Parquet | CSV |\n|---|---|---|---|\n");
    for row in TYPES {
        let (name, parquet, csv) = (row.name, text(row.parquet), text(row.csv));
        table += &format!("| {name} | kept | {parquet} | {csv} |\n");
    }
    table
}

/// The field with another type; the same one if it has that type.
pub(crate) fn with_type(field: &FieldRef, kind: DataType) -> FieldRef {
    match *field.data_type() == kind {
        true => FieldRef::clone(field),
        false => Arc::new(Field::clone(field).with_data_type(kind)),
    }
}

/// Returns the type in which a format stores values, and notes conversions: from, to, and whether only to a finer unit.
///
/// # Errors
/// The type within `kind` that is refused, and the remedy.
pub(crate) fn stored_type(
    format: Format,
    kind: &DataType,
    notes: &mut Vec<(String, &'static str, bool)>,
) -> Result<DataType, (String, &'static str)> {
    use DataType as Type;
    let row = TYPES.iter().find(|row| (row.has)(kind));
    let answer = row.map_or(Answer::Refused("write arrow"), |row| match format {
        Format::Arrow => PLAIN,
        Format::Parquet => row.parquet,
        Format::Csv => row.csv,
    });
    match answer {
        Answer::Refused(remedy) => return Err((kind.to_string(), remedy)),
        Answer::Converted(to) => notes.push((kind.to_string(), to, false)),
        Answer::Finer(to) => notes.push((kind.to_string(), to, true)),
        Answer::Kept(_) => {}
    }
    let mut of = |field: &FieldRef| {
        if format == Format::Parquet && matches!(field.data_type(), Type::Interval(_)) {
            return Err((kind.to_string(), "select the intervals within it"));
        }
        let kind = stored_type(format, field.data_type(), notes)?;
        Ok::<_, (String, &'static str)>(with_type(field, kind))
    };
    Ok(match kind {
        Type::RunEndEncoded(_, values) => of(values)?.data_type().clone(),
        // Text is made of the rest by the writer of CSV.
        other if format == Format::Csv => other.clone(),
        Type::Date64 => Type::Date32,
        Type::Time32(TimeUnit::Second) => Type::Time32(TimeUnit::Millisecond),
        Type::Timestamp(TimeUnit::Second, zone) => {
            Type::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        Type::Interval(_) => INTERVAL,
        Type::Dictionary(_, values) if !is_bytes(values) => stored_type(format, values, notes)?,
        Type::List(field) | Type::ListView(field) => Type::List(of(field)?),
        Type::LargeList(field) | Type::LargeListView(field) => Type::LargeList(of(field)?),
        Type::FixedSizeList(field, len) => Type::FixedSizeList(of(field)?, *len),
        Type::Map(field, is_sorted) => Type::Map(of(field)?, *is_sorted),
        Type::Struct(fields) => Type::Struct(fields.iter().map(of).collect::<Result<_, _>>()?),
        other => without_negative_scale(other)
            .map_err(|remedy| (other.to_string(), remedy))?
            .unwrap_or_else(|| other.clone()),
    })
}

/// Precision and scale of a decimal.
fn decimal(kind: &DataType) -> Option<(u8, i8)> {
    match kind {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => Some((*precision, *scale)),
        _ => None,
    }
}

/// The decimal of scale 0 that holds all values of one of negative scale; `None` for other types.
fn without_negative_scale(kind: &DataType) -> Result<Option<DataType>, &'static str> {
    match decimal(kind) {
        Some((precision, scale)) if scale < 0 => match i32::from(precision) - i32::from(scale) {
            digits @ ..=38 => Ok(Some(DataType::Decimal128(digits as u8, 0))),
            digits @ ..=76 => Ok(Some(DataType::Decimal256(digits as u8, 0))),
            _ => Err("it has more than 76 digits; CAST it AS DOUBLE"),
        },
        _ => Ok(None),
    }
}

/// `true` for text and binary with offsets, whose dictionaries Parquet's writer takes as they are. It mixes up the
/// values of a dictionary of `fixed_size_binary`, and panics at one of views.
fn is_bytes(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary)
}
