//! Evaluates expressions by Arrow's kernels.

use std::sync::Arc;

use arrow_arith::{boolean, numeric};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Datum, RecordBatch, UInt32Array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_ord::cmp;
use arrow_schema::DataType;
use arrow_select::nullif::nullif;
use arrow_select::take::take;

use super::expression::{Arithmetic, Comparison, Node};
use crate::Error;

/// A value for each row, or one for all.
pub(super) enum Evaluated {
    Array(ArrayRef),
    Scalar(ArrayRef),
}

impl Datum for Evaluated {
    fn get(&self) -> (&dyn Array, bool) {
        match self {
            Self::Array(array) => (array, false),
            Self::Scalar(array) => (array, true),
        }
    }
}

impl Evaluated {
    fn array(&self) -> &ArrayRef {
        match self {
            Self::Array(array) | Self::Scalar(array) => array,
        }
    }

    /// Of what was made from this alone.
    fn with(&self, array: ArrayRef) -> Self {
        match self {
            Self::Array(_) => Self::Array(array),
            Self::Scalar(_) => Self::Scalar(array),
        }
    }

    /// A value for each of so many rows.
    pub(super) fn into_array(self, rows: usize) -> Result<ArrayRef, Error> {
        match self {
            Self::Array(array) => Ok(array),
            Self::Scalar(one) => Ok(take(&one, &UInt32Array::from(vec![0; rows]), None)?),
        }
    }
}

/// Of what was made from two: one value only where both are.
fn joined(left: &Evaluated, right: &Evaluated, array: ArrayRef) -> Evaluated {
    match (left, right) {
        (Evaluated::Scalar(_), Evaluated::Scalar(_)) => Evaluated::Scalar(array),
        _ => Evaluated::Array(array),
    }
}

impl Node {
    pub(super) fn evaluate(&self, batch: &RecordBatch) -> Result<Evaluated, Error> {
        match self {
            Self::Column(index) => Ok(Evaluated::Array(batch.column(*index).clone())),
            Self::Literal(array) => Ok(Evaluated::Scalar(array.clone())),
            Self::Cast { of, kind, is_safe } => {
                let of = of.evaluate(batch)?;
                let options = CastOptions {
                    safe: *is_safe,
                    ..CastOptions::default()
                };
                Ok(of.with(cast_with_options(of.array(), kind, &options)?))
            }
            Self::Compare(by, left, right) => {
                compare(*by, left.evaluate(batch)?, right.evaluate(batch)?)
            }
            Self::Arithmetic(by, left, right) => {
                arithmetic(*by, left.evaluate(batch)?, right.evaluate(batch)?)
            }
            Self::Negative(of) => {
                let of = of.evaluate(batch)?;
                Ok(of.with(numeric::neg(of.array())?))
            }
            Self::And(nodes) => fold(nodes, batch, boolean::and_kleene),
            Self::Or(nodes) => fold(nodes, batch, boolean::or_kleene),
            Self::Not(of) => {
                let of = of.evaluate(batch)?;
                Ok(of.with(Arc::new(boolean::not(of.array().as_boolean())?)))
            }
            Self::IsNull(of) => {
                let of = of.evaluate(batch)?;
                Ok(of.with(Arc::new(boolean::is_null(of.array())?)))
            }
            Self::Matches(of, pattern) => {
                let of = of.evaluate(batch)?;
                Ok(of.with(Arc::new(pattern.matches(of.array())?)))
            }
        }
    }
}

type Fold = fn(&BooleanArray, &BooleanArray) -> Result<BooleanArray, arrow_schema::ArrowError>;

fn fold(nodes: &[Node], batch: &RecordBatch, by: Fold) -> Result<Evaluated, Error> {
    let mut all: Option<ArrayRef> = None;
    for node in nodes {
        let one = node.evaluate(batch)?.into_array(batch.num_rows())?;
        all = Some(match all {
            Some(all) => Arc::new(by(all.as_boolean(), one.as_boolean())?),
            None => one,
        });
    }
    // A list to look into has a value, and a chain two.
    Ok(Evaluated::Array(all.unwrap_or_else(|| {
        Arc::new(BooleanArray::from(vec![false; batch.num_rows()]))
    })))
}

fn compare(by: Comparison, left: Evaluated, right: Evaluated) -> Result<Evaluated, Error> {
    let (left, right) = (without_negative_zero(left), without_negative_zero(right));
    let compare = match by {
        Comparison::Equal => cmp::eq,
        Comparison::NotEqual => cmp::neq,
        Comparison::Less => cmp::lt,
        Comparison::LessOrEqual => cmp::lt_eq,
        Comparison::Greater => cmp::gt,
        Comparison::GreaterOrEqual => cmp::gt_eq,
        Comparison::Distinct => cmp::distinct,
        Comparison::NotDistinct => cmp::not_distinct,
    };
    let array = compare(&left, &right)?;
    Ok(joined(&left, &right, Arc::new(array)))
}

/// Arrow compares floats by their total order, in which -0 is less than 0, and every NaN has its
/// place; in SQL both zeros are equal, and so are all NaN.
fn without_negative_zero(of: Evaluated) -> Evaluated {
    let array = of.array();
    let same: ArrayRef = match array.data_type() {
        DataType::Float16 => Arc::new(array.as_primitive::<Float16Type>().unary::<_, Float16Type>(
            |one| match one.is_nan() {
                true => <Float16Type as arrow_array::ArrowPrimitiveType>::Native::NAN,
                false => one + <Float16Type as arrow_array::ArrowPrimitiveType>::Native::ZERO,
            },
        )),
        DataType::Float32 => Arc::new(
            (array.as_primitive::<Float32Type>())
                .unary::<_, Float32Type>(|one| if one.is_nan() { f32::NAN } else { one + 0.0 }),
        ),
        DataType::Float64 => Arc::new(
            (array.as_primitive::<Float64Type>())
                .unary::<_, Float64Type>(|one| if one.is_nan() { f64::NAN } else { one + 0.0 }),
        ),
        _ => return of,
    };
    of.with(same)
}

fn arithmetic(by: Arithmetic, left: Evaluated, right: Evaluated) -> Result<Evaluated, Error> {
    let array = match by {
        Arithmetic::Add => numeric::add(&left, &right)?,
        Arithmetic::Subtract => numeric::sub(&left, &right)?,
        Arithmetic::Multiply => numeric::mul(&left, &right)?,
        Arithmetic::Divide => numeric::div(&left, &right)?,
        Arithmetic::Remainder => {
            let zero = arrow_cast::cast(
                &arrow_array::Int64Array::from(vec![0]),
                right.array().data_type(),
            )?;
            let is_zero = cmp::eq(&right, &Evaluated::Scalar(zero))?;
            let right = right.with(nullif(right.array(), &is_zero)?);
            numeric::rem(&left, &right)?
        }
    };
    Ok(joined(&left, &right, array))
}
