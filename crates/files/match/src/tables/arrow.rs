//! Columns of Arrow arrays, and of the files that hold them.

use std::fs::File;
use std::io::Read;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::{DataType, Schema};
use overside_tables::{Columns, ParquetOptions, Strings, Table};

use crate::rows::Rows;
use crate::{Error, Search, SearchSummary, SelectedRecord, Sink};

impl Search {
    /// Searches a column of an Arrow IPC file. Nulls do not match.
    ///
    /// # Errors
    /// [`Error`]; records found before are in the sink.
    pub fn arrow_file(
        &mut self,
        file: File,
        column: &str,
        sink: &mut dyn Sink,
    ) -> Result<SearchSummary, Error> {
        self.table(Table::arrow_file(file, |schema| columns(schema, column))?, sink)
    }

    /// Searches a column of an Arrow IPC stream. Nulls do not match.
    ///
    /// # Errors
    /// [`Error`]; records found before are in the sink.
    pub fn arrow_stream(
        &mut self,
        input: &mut (dyn Read + Send),
        column: &str,
        sink: &mut dyn Sink,
    ) -> Result<SearchSummary, Error> {
        self.table(Table::arrow_stream(input, |schema| columns(schema, column))?, sink)
    }

    /// Searches a column of a Parquet file. Nulls do not match.
    ///
    /// # Errors
    /// [`Error`]; records found before are in the sink.
    pub fn parquet(
        &mut self,
        file: File,
        column: &str,
        sink: &mut dyn Sink,
    ) -> Result<SearchSummary, Error> {
        let choose = |schema: &Schema| columns(schema, column);
        let options =
            ParquetOptions { strings: Strings::Views, bounds: &[], written: None, pool: None };
        self.table(Table::parquet(file, options, choose)?, sink)
    }

    /// Searches an array of text or bytes. Nulls do not match.
    ///
    /// # Errors
    /// [`Error`]; records found before are in the sink.
    pub fn array(
        &mut self,
        array: &dyn Array,
        sink: &mut dyn Sink,
    ) -> Result<SearchSummary, Error> {
        check(array.data_type(), "array")?;
        let mut rows = Rows::new(self, sink)?;
        each_value(array, &mut rows)?;
        rows.finish()
    }

    /// Searches arrays of text or bytes, all of the type `kind`, as parts of one column. Rows are
    /// numbered from the first array to the last. Nulls do not match.
    ///
    /// # Errors
    /// [`Error`], and those that come instead of an array; records found before are in the sink.
    pub fn arrays(
        &mut self,
        kind: &DataType,
        arrays: impl IntoIterator<Item = Result<ArrayRef, Error>>,
        sink: &mut dyn Sink,
    ) -> Result<SearchSummary, Error> {
        check(kind, "array")?;
        let mut rows = Rows::new(self, sink)?;
        for array in arrays {
            let array = array?;
            if array.data_type() != kind {
                let found = array.data_type();
                return Err(Error::Format(format!("an array of {found} among {kind}")));
            }
            each_value(&array, &mut rows)?;
            if !rows.go_on() {
                break;
            }
        }
        rows.finish()
    }

    /// Returns the selected rows of an array. The search has to answer with
    /// [`crate::Answer::Records`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn mask(&mut self, array: &dyn Array) -> Result<BooleanArray, Error> {
        let mut mask = Mask(vec![false; array.len()]);
        self.array(array, &mut mask)?;
        Ok(BooleanArray::from(mask.0))
    }

    /// Searches the only column of a table.
    fn table(&mut self, table: Table<'_>, sink: &mut dyn Sink) -> Result<SearchSummary, Error> {
        let mut rows = Rows::new(self, sink)?;
        for batch in table {
            each_value(batch?.column(0), &mut rows)?;
            if !rows.go_on() {
                break;
            }
        }
        rows.finish()
    }
}

struct Mask(Vec<bool>);

impl Sink for Mask {
    fn found(&mut self, found: SelectedRecord<'_>) -> std::io::Result<bool> {
        let index = usize::try_from(found.number).unwrap_or(usize::MAX);
        if let Some(is_selected) = self.0.get_mut(index.wrapping_sub(1)) {
            *is_selected = true;
        }
        Ok(true)
    }
}

/// Returns `true` if arrays of that type can be searched: text, bytes, and dictionaries of these.
pub fn values_are_text(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => true,
        DataType::Dictionary(_, values) => values_are_text(values),
        _ => false,
    }
}

fn check(kind: &DataType, name: &str) -> Result<(), Error> {
    match values_are_text(kind) {
        true => Ok(()),
        false => Err(Error::ColumnType { name: name.into(), kind: kind.to_string() }),
    }
}

/// The column of that name, if it can be searched.
fn columns(schema: &Schema, column: &str) -> Result<Columns, Error> {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let index = overside_tables::position(names, column)?;
    check(schema.field(index).data_type(), column)?;
    Ok(Columns::Only(vec![index]))
}

fn each_value(array: &dyn Array, rows: &mut Rows<'_>) -> Result<(), Error> {
    for value in values(array) {
        if !rows.go_on() {
            break;
        }
        rows.row(value)?;
    }
    Ok(())
}

/// The values of an array that was checked, row by row.
fn values(array: &dyn Array) -> Box<dyn Iterator<Item = Option<&[u8]>> + '_> {
    fn text(value: Option<&str>) -> Option<&[u8]> {
        value.map(str::as_bytes)
    }
    match array.data_type() {
        DataType::Utf8 => Box::new(array.as_string::<i32>().iter().map(text)),
        DataType::LargeUtf8 => Box::new(array.as_string::<i64>().iter().map(text)),
        DataType::Utf8View => Box::new(array.as_string_view().iter().map(text)),
        DataType::Binary => Box::new(array.as_binary::<i32>().iter()),
        DataType::LargeBinary => Box::new(array.as_binary::<i64>().iter()),
        DataType::BinaryView => Box::new(array.as_binary_view().iter()),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let all: Vec<_> = values(dictionary.values()).collect();
            let keys = match all.is_empty() {
                // Without values there are no keys either.
                true => vec![0; array.len()],
                false => dictionary.normalized_keys(),
            };
            let keys = keys.into_iter().enumerate();
            Box::new(keys.map(move |(row, key)| match array.is_null(row) {
                true => None,
                false => all.get(key).copied().flatten(),
            }))
        }
        _ => Box::new(std::iter::empty()),
    }
}
