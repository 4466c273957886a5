//! Enlarges a sample without repeating rows.
//!
//! A table that is tiled fits into the window of a compressor and compresses to nothing. Here each
//! copy of the sample is redrawn from the sample's own distributions:
//!
//! 1. *ids* become other ids: the high bits of one of the sample's ids and the low bits of another,
//!    so that both parts, and with them the skew of partitions, stay as they are;
//! 2. *times* go on where the copy before ended;
//! 3. *values* become others between the sample's, as exact as these: with as many digits, multiples
//!    of the same number, of single precision (a smoothed bootstrap of the distinct values). Where many
//!    have one of few endings, each gets one of these.
//!
//! Equal values become equal values and order is kept, column by column, so that what compressors
//! live on is kept too. All other columns stay. Of equal rows of the sample the first counts.

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

/// Which columns of a sample are redrawn, by name.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    /// Identifies an object: whole numbers or strings.
    pub id: Option<String>,
    /// Column with the time at which each row was observed; `None` if no column is shifted in time.
    pub time: Option<String>,
    /// Floating-point columns; all of the sample's if absent.
    pub values: Option<Vec<String>>,
}

enum Role {
    Id,
    Time(Times),
    Value,
    Constant,
}

/// Makes copies of a sample, each redrawn; an iterator without an end.
pub struct Enlarger {
    sample: RecordBatch,
    roles: Vec<Role>,
    random: Random,
    copies: u64,
}

impl Enlarger {
    /// An enlarger of the rows of `sample`. The same seed gives the same rows.
    ///
    /// # Errors
    /// [`Error`]: the sample is empty, has no such column, or one of a type that cannot play that
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
        Ok(Self {
            sample,
            roles: played,
            random: Random::new(seed),
            copies: 0,
        })
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

/// The first of rows that are equal, in the sample's order. All stay where a column's values cannot be
/// compared.
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
        orders
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
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

/// The same values as another type.
fn exactly(array: &dyn Array, kind: &DataType, otherwise: &str) -> Result<ArrayRef, Error> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let cast = cast_with_options(array, kind, &options);
    cast.map_err(|error| Error::Refused(format!("{otherwise}: {error}")))
}

/// The indices that sort `values`, and with them each row's rank among the distinct ones.
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
