//! Evaluates expressions with Arrow's kernels.

use std::sync::Arc;

use arrow_arith::{boolean, numeric};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, Datum, RecordBatch, UInt32Array};
use arrow_ord::cmp;
use arrow_select::nullif::nullif;
use arrow_select::take::take;

use super::cast::cast;
use super::node::{Arithmetic, Comparison, Node};
use crate::Error;
use crate::floats::with_one_nan;

/// Array of a value for each row, or one value for all rows.
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

    /// Wraps an array that was computed from this value only: a scalar stays a scalar.
    fn with(&self, array: ArrayRef) -> Self {
        match self {
            Self::Array(_) => Self::Array(array),
            Self::Scalar(_) => Self::Scalar(array),
        }
    }

    /// Returns a value for each of `rows` rows.
    pub(super) fn into_array(self, rows: usize) -> Result<ArrayRef, Error> {
        match self {
            Self::Array(array) => Ok(array),
            Self::Scalar(one) => Ok(take(&one, &UInt32Array::from(vec![0; rows]), None)?),
        }
    }
}

/// Wraps an array that was computed from two values. It is a scalar only if both values are.
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
                Ok(of.with(cast(of.array(), kind, *is_safe)?))
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
    // `IN` has at least one value, and a chain at least two.
    Ok(Evaluated::Array(
        all.unwrap_or_else(|| Arc::new(BooleanArray::from(vec![false; batch.num_rows()]))),
    ))
}

fn compare(by: Comparison, left: Evaluated, right: Evaluated) -> Result<Evaluated, Error> {
    let (left, right) =
        (left.with(with_one_nan(left.array())), right.with(with_one_nan(right.array())));
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
