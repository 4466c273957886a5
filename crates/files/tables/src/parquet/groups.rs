//! Selects the row groups that may have wanted rows, by the statistics of their columns.

use arrow_array::{ArrayRef, BooleanArray, Scalar};
use arrow_ord::cmp::{gt, lt};
use arrow_schema::ArrowError;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;

use crate::types::convert;

/// The least and the most that a value of a column may be. Each is one value of the column's type;
/// of a dictionary, of the type of its values.
#[derive(Clone, Debug)]
pub struct Between {
    /// The column's place in the schema.
    pub column: usize,
    /// No bound if it is none.
    pub least: Option<ArrayRef>,
    /// No bound if it is none.
    pub most: Option<ArrayRef>,
}

/// The row groups of which no bound says that they have none of the wanted rows. A file's statistics
/// may be missing or wrong in their type: then the rows are read.
pub(super) fn wanted(metadata: &ArrowReaderMetadata, bounds: &[Between]) -> Vec<usize> {
    let mut is_wanted = vec![true; metadata.metadata().num_row_groups()];
    for bound in bounds {
        for outside in outside(metadata, bound).into_iter().flatten() {
            for (wanted, outside) in is_wanted.iter_mut().zip(outside.iter()) {
                // Null: nobody knows.
                *wanted &= outside != Some(true);
            }
        }
    }
    let groups = is_wanted.into_iter().enumerate();
    groups.filter_map(|(group, is_wanted)| is_wanted.then_some(group)).collect()
}

type Comparison = fn(&ArrayRef, &Scalar<ArrayRef>) -> Result<BooleanArray, ArrowError>;

/// Returns, for the lower and the upper bound, `true` for each row group whose values are all
/// outside of it. `None` if the statistics are missing or cannot be compared.
fn outside(metadata: &ArrowReaderMetadata, bound: &Between) -> [Option<BooleanArray>; 2] {
    let Some(field) = metadata.schema().fields().get(bound.column) else {
        return [None, None];
    };
    // NaN is above all numbers, and no part of the statistics.
    if field.data_type().is_floating() {
        return [None, None];
    }
    let (schema, parquet) = (metadata.schema(), metadata.parquet_schema());
    let Ok(statistics) = StatisticsConverter::try_new(field.name(), schema, parquet) else {
        return [None, None];
    };
    let groups = metadata.metadata().row_groups();
    let side = |values: Result<ArrayRef, parquet::errors::ParquetError>,
                bound: &Option<ArrayRef>,
                is_outside: Comparison| {
        let (values, bound) = (values.ok()?, bound.as_ref()?);
        // A writer may have stored another type, such as milliseconds of seconds.
        let bound = Scalar::new(convert(bound, values.data_type()).ok()?);
        is_outside(&values, &bound).ok()
    };
    [
        side(statistics.row_group_maxes(groups), &bound.least, |most, least| lt(most, least)),
        side(statistics.row_group_mins(groups), &bound.most, |least, most| gt(least, most)),
    ]
}
