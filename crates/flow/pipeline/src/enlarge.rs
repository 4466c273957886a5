//! Enlarges a sample without repeating rows.
//!
//! A repeated table fits into the window of a compressor and compresses to almost nothing. Here each
//! copy of the sample is redrawn from the sample's own distributions:
//!
//! 1. *ids* are replaced by other ids: the high bits of one of the sample's ids and the low bits of
//!    another. So the distribution of both parts stays, and with it the skew of partitions.
//! 2. *times* continue where the previous copy ended.
//! 3. *values* are replaced by others between the sample's, of the same precision: with as many digits,
//!    as multiples of the same number, in single precision (a smoothed bootstrap of the distinct
//!    values). If many values have one of few endings, each new one gets one of these.
//!
//! In each column, equal values stay equal and keep their order, so the redundancy that compressors use
//! is kept. All other columns are unchanged. Of equal rows of the sample only the first counts.

mod ids;
mod times;
mod values;

use std::cmp::Ordering;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_ord::ord::make_comparator;
use arrow_schema::{DataType, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use overside_base::Random;

use crate::Error;
use times::Times;

/// Names of the columns of a sample that are redrawn.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    /// Column that identifies an object: whole numbers or strings.
    pub id: Option<String>,
    /// Column with the time at which each row was observed; `None` if no column is shifted in time.
    pub time: Option<String>,
    /// Floating-point columns; `None` for all columns of that type.
    pub values: Option<Vec<String>>,
}

enum Role {
    Id,
    Time(Times),
    Value,
    Constant,
}

/// Infinite iterator over redrawn copies of a sample.
pub struct Enlarger {
    sample: RecordBatch,
    roles: Vec<Role>,
    random: Random,
    copies: u64,
}

impl Enlarger {
    /// Makes an enlarger of the rows of `sample`. The same seed gives the same rows.
    ///
    /// # Errors
    /// [`Error`]: the sample is empty, does not have a column, the type of a column does not fit its
    /// role, or no column would change.
    pub fn new(
        schema: &SchemaRef,
        sample: &[RecordBatch],
        roles: &Roles,
        seed: u64,
    ) -> Result<Self, Error> {
        let sample = without_repeated_rows(concat_batches(schema, sample)?)?;
        if sample.num_rows() == 0 {
            return Err(Error::Refused("the sample has no rows".into()));
        }
        let mut played: Vec<Role> = (sample.columns().iter())
            .map(|array| match (&roles.values, array.data_type()) {
                (None, DataType::Float32 | DataType::Float64) => Role::Value,
                _ => Role::Constant,
            })
            .collect();
        for name in roles.values.iter().flatten() {
            let index = crate::column(&sample.schema(), name)?;
            check(&sample, index, "values", values::is_redrawn)?;
            played[index] = Role::Value;
        }
        if let (Some(id), Some(time)) = (&roles.id, &roles.time)
            && id == time
        {
            let reason = format!("column {id:?} cannot be the id and the time at once");
            return Err(Error::Refused(reason));
        }
        if let Some(name) = &roles.id {
            let index = crate::column(&sample.schema(), name)?;
            check(&sample, index, "ids", ids::is_redrawn)?;
            played[index] = Role::Id;
        }
        if let Some(name) = &roles.time {
            let index = crate::column(&sample.schema(), name)?;
            played[index] = Role::Time(Times::new(name, sample.column(index))?);
        }
        if played.iter().all(|role| matches!(role, Role::Constant)) {
            return Err(Error::Refused(
                "all copies would be the same: name the column with the time, or with ids".into(),
            ));
        }
        Ok(Self { sample, roles: played, random: Random::new(seed), copies: 0 })
    }

    fn copy(&mut self) -> Result<RecordBatch, Error> {
        let columns = self.sample.columns().iter().zip(&self.roles);
        let columns = columns.map(|(array, role)| match role {
            Role::Id => ids::redraw(array, &mut self.random),
            Role::Time(times) => times.shifted(array, self.copies),
            Role::Value => values::redraw(array, &mut self.random),
            Role::Constant => Ok(ArrayRef::clone(array)),
        });
        let columns = columns.collect::<Result<Vec<_>, Error>>()?;
        self.copies += 1;
        Ok(RecordBatch::try_new(self.sample.schema(), columns)?)
    }
}

impl Iterator for Enlarger {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.copy())
    }
}

fn check(
    sample: &RecordBatch,
    index: usize,
    role: &'static str,
    fits: fn(&DataType) -> bool,
) -> Result<(), Error> {
    let schema = sample.schema();
    let field = schema.field(index);
    match fits(field.data_type()) {
        true => Ok(()),
        false => Err(Error::ColumnType {
            name: field.name().clone(),
            kind: field.data_type().to_string(),
            role,
        }),
    }
}

/// Removes all but the first of equal rows. Keeps all rows if the values of a column cannot be compared.
fn without_repeated_rows(sample: RecordBatch) -> Result<RecordBatch, Error> {
    let columns = sample.columns().iter();
    let compared: Result<Vec<_>, _> = columns
        .map(|array| make_comparator(array, array, arrow_schema::SortOptions::default()))
        .collect();
    let Ok(compared) = compared else {
        return Ok(sample);
    };
    let compare = |a: usize, b: usize| {
        let mut orders = compared.iter().map(|compare| compare(a, b));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    let mut rows: Vec<usize> = (0..sample.num_rows()).collect();
    rows.sort_by(|&a, &b| compare(a, b));
    rows.dedup_by(|a, b| compare(*a, *b).is_eq());
    if rows.len() == sample.num_rows() {
        return Ok(sample);
    }
    rows.sort_unstable();
    let rows = UInt64Array::from_iter_values(rows.into_iter().map(|row| row as u64));
    Ok(take_record_batch(&sample, &rows)?)
}

/// Converts the array to another type without changing values.
fn exactly(array: &dyn Array, kind: &DataType, otherwise: &str) -> Result<ArrayRef, Error> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let cast = cast_with_options(array, kind, &options);
    cast.map_err(|error| Error::Refused(format!("{otherwise}: {error}")))
}

/// Returns the indices that sort `values`, and each row's rank among the distinct values.
fn ranks<T: Copy>(
    values: &[T],
    compare: impl Fn(&T, &T) -> std::cmp::Ordering,
) -> (Vec<T>, Vec<usize>) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| compare(&values[*a], &values[*b]));
    let mut distinct: Vec<T> = Vec::new();
    let mut ranks = vec![0; values.len()];
    for row in order {
        if (distinct.last()).is_none_or(|last| compare(last, &values[row]).is_ne()) {
            distinct.push(values[row]);
        }
        ranks[row] = distinct.len() - 1;
    }
    (distinct, ranks)
}
