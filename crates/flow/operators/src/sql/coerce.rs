//! Finds the common type of two operands.

use arrow_cast::can_cast_types;
use arrow_schema::{DataType, TimeUnit};

use super::cast::cast_literal;
use super::node::{Arithmetic, Comparison, Node, Typed};
use super::refused;
use crate::Error;

const MAX_DIGITS: u8 = 38;

/// Replaces dictionaries and runs by their values, and short floats by longer ones.
pub(super) fn plain(of: Typed) -> Typed {
    let kind = match &of.kind {
        DataType::Dictionary(_, values) => values.as_ref().clone(),
        DataType::RunEndEncoded(_, values) => values.data_type().clone(),
        _ => return of,
    };
    cast(of, kind, false)
}

fn cast(of: Typed, kind: DataType, is_safe: bool) -> Typed {
    if of.kind == kind {
        return of;
    }
    Typed { node: Node::Cast { of: Box::new(of.node), kind: kind.clone(), is_safe }, kind }
}

/// Casts an expression. Refuses types of which no value can be converted. Literals are cast immediately.
pub(super) fn cast_to(of: Typed, kind: DataType, is_safe: bool) -> Result<Typed, Error> {
    if !can_cast_types(&of.kind, &kind) {
        return Err(refused(format!("{} cannot be cast to {kind}", of.kind)));
    }
    match of.node {
        Node::Literal(array) if !is_safe => {
            Ok(Typed { node: Node::Literal(cast_literal(&array, &kind)?), kind })
        }
        _ => Ok(cast(of, kind, is_safe)),
    }
}

/// Casts text to text with offsets, on which patterns are matched.
pub(super) fn text(of: Typed) -> Result<Node, Error> {
    match of.kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(of.node),
        DataType::Null => Ok(cast(of, DataType::Utf8, false).node),
        kind => Err(refused(format!("patterns match text, not {kind}; CAST it AS VARCHAR"))),
    }
}

pub(super) fn negative(of: Typed) -> Typed {
    // The negative of an unsigned number needs a sign.
    let kind = match &of.kind {
        kind if kind.is_integer() && *kind != DataType::UInt64 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        kind => kind.clone(),
    };
    let of = cast(of, kind, false);
    Typed { node: Node::Negative(Box::new(of.node)), kind: of.kind }
}

pub(super) fn compare(by: Comparison, left: Typed, right: Typed) -> Result<Typed, Error> {
    let (left, right) = meet(left, right)?;
    Ok(Typed {
        node: Node::Compare(by, Box::new(left.node), Box::new(right.node)),
        kind: DataType::Boolean,
    })
}

pub(super) fn arithmetic(by: Arithmetic, left: Typed, right: Typed) -> Result<Typed, Error> {
    let is_number = |one: &Typed| one.kind.is_numeric() || one.kind == DataType::Null;
    if !is_number(&left) || !is_number(&right) {
        return Err(refused(format!(
            "there is no arithmetic of {} and {}; CAST them to numbers",
            left.kind, right.kind
        )));
    }
    let is_decimal = |one: &Typed| matches!(one.kind, DataType::Decimal128(_, _));
    let (left, right) = match by {
        Arithmetic::Divide => {
            (cast(left, DataType::Float64, false), cast(right, DataType::Float64, false))
        }
        _ => {
            let (left, right) = meet(left, right)?;
            let kind = match &left.kind {
                DataType::UInt64 => DataType::UInt64,
                kind if kind.is_integer() => DataType::Int64,
                DataType::Null => DataType::Int64,
                // Products can have twice as many digits.
                DataType::Decimal128(digits, _) if *digits > MAX_DIGITS / 2 => DataType::Float64,
                kind => kind.clone(),
            };
            (cast(left, kind.clone(), false), cast(right, kind, false))
        }
    };
    let kind = if is_decimal(&left) { decimal_result(by, &left.kind) } else { left.kind.clone() };
    Ok(Typed { node: Node::Arithmetic(by, Box::new(left.node), Box::new(right.node)), kind })
}

/// Returns the type that Arrow's kernels give the result of an operation on two decimals of type
/// `of`.
fn decimal_result(by: Arithmetic, of: &DataType) -> DataType {
    let DataType::Decimal128(digits, scale) = of else {
        return of.clone();
    };
    match by {
        Arithmetic::Add | Arithmetic::Subtract => {
            DataType::Decimal128((digits + 1).min(MAX_DIGITS), *scale)
        }
        Arithmetic::Multiply => DataType::Decimal128((2 * digits + 1).min(MAX_DIGITS), 2 * scale),
        Arithmetic::Divide | Arithmetic::Remainder => of.clone(),
    }
}

/// Casts both operands to one type.
fn meet(left: Typed, right: Typed) -> Result<(Typed, Typed), Error> {
    // A literal gets the other operand's type where that is the usual intention.
    match (&left.node, &right.node) {
        (_, Node::Literal(_)) if is_taken_over(&left.kind, &right.kind) => {
            let right = cast_to(right, left.kind.clone(), false)?;
            return Ok((left, right));
        }
        (Node::Literal(_), _) if is_taken_over(&right.kind, &left.kind) => {
            let left = cast_to(left, right.kind.clone(), false)?;
            return Ok((left, right));
        }
        _ => {}
    }
    let kind = common(&left.kind, &right.kind).ok_or_else(|| {
        refused(format!("{} and {} cannot be compared; CAST one of them", left.kind, right.kind))
    })?;
    Ok((cast_to(left, kind.clone(), false)?, cast_to(right, kind, false)?))
}

/// Returns `true` if a literal of the type `literal` is converted to the type `other`.
fn is_taken_over(other: &DataType, literal: &DataType) -> bool {
    match literal {
        DataType::Utf8 => *other != DataType::Null,
        DataType::Int64 | DataType::Decimal128(_, _) => other.is_floating(),
        _ => false,
    }
}

fn common(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType as Kind;
    Some(match (one, other) {
        (one, other) if one == other => one.clone(),
        (Kind::Null, kind) | (kind, Kind::Null) => kind.clone(),
        (one, other) if one.is_string() && other.is_string() => Kind::LargeUtf8,
        (one, other) if one.is_binary() && other.is_binary() => Kind::LargeBinary,
        (one, other) if one.is_integer() && other.is_integer() => match (one, other) {
            (Kind::UInt64, other) | (other, Kind::UInt64) if other.is_signed_integer() => {
                Kind::Decimal128(20, 0)
            }
            (Kind::UInt64, _) | (_, Kind::UInt64) => Kind::UInt64,
            _ => Kind::Int64,
        },
        (one, other) if one.is_numeric() && other.is_numeric() => decimals(one, other),
        (Kind::Date32 | Kind::Date64, Kind::Date32 | Kind::Date64) => Kind::Date64,
        (Kind::Timestamp(unit, zone), Kind::Date32 | Kind::Date64)
        | (Kind::Date32 | Kind::Date64, Kind::Timestamp(unit, zone)) => {
            Kind::Timestamp(*unit, zone.clone())
        }
        (Kind::Timestamp(one, zone), Kind::Timestamp(other, other_zone))
            if zone.is_some() == other_zone.is_some() =>
        {
            Kind::Timestamp(finer(*one, *other), zone.clone())
        }
        (Kind::Time32(_) | Kind::Time64(_), Kind::Time32(_) | Kind::Time64(_)) => {
            Kind::Time64(TimeUnit::Nanosecond)
        }
        _ => return None,
    })
}

fn finer(one: TimeUnit, other: TimeUnit) -> TimeUnit {
    one.max(other)
}

/// Returns the decimal type that holds both, or a float type.
fn decimals(one: &DataType, other: &DataType) -> DataType {
    let size = |kind: &DataType| match kind {
        DataType::Decimal128(digits, scale)
        | DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale) => Some((*digits as i16, i16::from(*scale))),
        kind if kind.is_integer() => Some((20, 0)),
        _ => None,
    };
    let (Some((digits, scale)), Some((other_digits, other_scale))) = (size(one), size(other))
    else {
        return DataType::Float64;
    };
    let fraction = scale.max(other_scale).max(0);
    let all = (digits - scale).max(other_digits - other_scale) + fraction;
    if all > i16::from(MAX_DIGITS) {
        return DataType::Float64;
    }
    DataType::Decimal128(all as u8, fraction as i8)
}
