//! Literals, and the Arrow types of SQL's type names.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, NullArray, StringArray,
};
use arrow_schema::{DataType, TimeUnit};
use sqlparser::ast::{DataType as Sql, ExactNumberInfo, TimezoneInfo, TypedString, Value};

use super::cast::cast_literal;
use super::node::{Node, Typed};
use super::{refused, unsupported};
use crate::Error;

const MAX_DECIMAL_DIGITS: u64 = 38;

fn typed_array(array: ArrayRef) -> Typed {
    Typed { kind: array.data_type().clone(), node: Node::Literal(array) }
}

pub(super) fn literal(value: &Value) -> Result<Typed, Error> {
    match value {
        Value::Number(text, _) => number(text),
        Value::SingleQuotedString(text) => {
            Ok(typed_array(Arc::new(StringArray::from(vec![text.as_str()]))))
        }
        Value::Boolean(value) => Ok(typed_array(Arc::new(BooleanArray::from(vec![*value])))),
        Value::Null => Ok(typed_array(Arc::new(NullArray::new(1)))),
        other => Err(unsupported(&other.to_string())),
    }
}

/// Returns a number with a minus in front of it; `None` if the literal is not a number.
pub(super) fn negative(value: &Value) -> Result<Option<Typed>, Error> {
    match value {
        Value::Number(text, _) => number(&format!("-{text}")).map(Some),
        _ => Ok(None),
    }
}

/// Parses a 64-bit integer if it fits, a decimal if its digits fit, otherwise a float.
fn number(text: &str) -> Result<Typed, Error> {
    if let Ok(value) = text.parse::<i64>() {
        return Ok(typed_array(Arc::new(Int64Array::from(vec![value]))));
    }
    let digits = text.trim_start_matches('-');
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_plain =
        [whole, fraction].iter().all(|part| part.bytes().all(|one| one.is_ascii_digit()));
    let count = whole.trim_start_matches('0').len() + fraction.len();
    if is_plain && count as u64 <= MAX_DECIMAL_DIGITS {
        let joined = text.replace('.', "");
        let value: i128 = joined.parse().map_err(|_| refused(format!("{text} is no number")))?;
        let array = Decimal128Array::from(vec![value]);
        let array = array.with_precision_and_scale(count.max(1) as u8, fraction.len() as i8)?;
        return Ok(typed_array(Arc::new(array)));
    }
    let value: f64 = text.parse().map_err(|_| refused(format!("{text} is no number")))?;
    Ok(typed_array(Arc::new(Float64Array::from(vec![value]))))
}

/// Parses a literal with a type: `DATE '2022-01-03'`.
pub(super) fn typed(text: &TypedString) -> Result<Typed, Error> {
    let (Value::SingleQuotedString(value), false) = (&text.value.value, text.uses_odbc_syntax)
    else {
        return Err(unsupported(&text.to_string()));
    };
    Ok(typed_array(from_text(value, &kind(&text.data_type)?)?))
}

/// Parses one value of a type.
pub fn from_text(text: &str, kind: &DataType) -> Result<ArrayRef, Error> {
    let array: ArrayRef = Arc::new(StringArray::from(vec![text]));
    cast_literal(&array, kind)
}

/// Returns the Arrow type for the name of an SQL type.
pub(super) fn kind(name: &Sql) -> Result<DataType, Error> {
    let seconds = |digits: &Option<u64>| match digits {
        Some(0) => TimeUnit::Second,
        Some(1..=3) => TimeUnit::Millisecond,
        Some(7..) => TimeUnit::Nanosecond,
        _ => TimeUnit::Microsecond,
    };
    Ok(match name {
        Sql::Boolean | Sql::Bool => DataType::Boolean,
        Sql::TinyInt(None) => DataType::Int8,
        Sql::SmallInt(None) | Sql::Int2(None) => DataType::Int16,
        Sql::Int(None) | Sql::Integer(None) | Sql::Int4(None) => DataType::Int32,
        Sql::BigInt(None) | Sql::Int8(None) => DataType::Int64,
        Sql::UTinyInt => DataType::UInt8,
        Sql::USmallInt => DataType::UInt16,
        Sql::UBigInt => DataType::UInt64,
        Sql::Real | Sql::Float4 => DataType::Float32,
        Sql::Double(ExactNumberInfo::None)
        | Sql::DoublePrecision
        | Sql::Float8
        | Sql::Float(ExactNumberInfo::None) => DataType::Float64,
        Sql::Decimal(size) | Sql::Numeric(size) | Sql::Dec(size) => decimal(size, name)?,
        Sql::Varchar(None) | Sql::Text | Sql::String(None) | Sql::CharacterVarying(None) => {
            DataType::Utf8
        }
        Sql::Bytea | Sql::Blob(None) => DataType::Binary,
        Sql::Date => DataType::Date32,
        Sql::Time(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            DataType::Time64(TimeUnit::Microsecond)
        }
        Sql::Timestamp(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            DataType::Timestamp(seconds(digits), None)
        }
        Sql::Timestamp(digits, _) => DataType::Timestamp(seconds(digits), Some("UTC".into())),
        other => return Err(unsupported(&other.to_string())),
    })
}

fn decimal(size: &ExactNumberInfo, name: &Sql) -> Result<DataType, Error> {
    let (precision, scale) = match size {
        ExactNumberInfo::None => (18, 3),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    if !(1..=MAX_DECIMAL_DIGITS).contains(&precision) || !(0..=precision as i64).contains(&scale) {
        return Err(unsupported(&name.to_string()));
    }
    Ok(DataType::Decimal128(precision as u8, scale as i8))
}
