//! Columns of Arrow arrays, and of the Arrow IPC files that hold them.

use std::fs::File;
use std::io::Read;

use arrow_array::cast::AsArray;
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_schema::{ArrowError, DataType, Schema};
use overside_base::quietly;

use crate::ipc::{FileBatches, StreamBatches};
use crate::rows::Rows;
use crate::{Error, Search, SearchSummary, SelectedRecord, Sink};

/// How long a list of columns may become before the rest is only counted.
const LISTED_BYTES_MAX: usize = 500;

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
        let reader = guarded(|| FileBatches::open(file, |schema| column_of(schema, column)))?;
        self.batches(reader, 0, sink)
    }

    /// Searches a column of an Arrow IPC stream. Nulls do not match.
    ///
    /// # Errors
    /// [`Error`]; records found before are in the sink.
    pub fn arrow_stream(
        &mut self,
        input: &mut dyn Read,
        column: &str,
        sink: &mut dyn Sink,
    ) -> Result<SearchSummary, Error> {
        let (reader, schema) = guarded(|| Ok(StreamBatches::open(input)?))?;
        self.batches(reader, column_of(&schema, column)?, sink)
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

    /// Which rows of an array are selected. The search has to answer with
    /// [`crate::Answer::Records`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn mask(&mut self, array: &dyn Array) -> Result<BooleanArray, Error> {
        let mut mask = Mask(vec![false; array.len()]);
        self.array(array, &mut mask)?;
        Ok(BooleanArray::from(mask.0))
    }

    pub(crate) fn batches(
        &mut self,
        mut reader: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
        index: usize,
        sink: &mut dyn Sink,
    ) -> Result<SearchSummary, Error> {
        let mut rows = Rows::new(self, sink)?;
        while rows.go_on() {
            let batch = guarded(|| Ok(reader.next().transpose()?))?;
            let Some(batch) = batch else { break };
            each_value(batch.column(index), &mut rows)?;
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

/// Whether arrays of that type can be searched.
pub fn values_are_text(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => true,
        DataType::Dictionary(_, values) => values_are_text(values),
        _ => false,
    }
}

pub(crate) fn check(kind: &DataType, name: &str) -> Result<(), Error> {
    match values_are_text(kind) {
        true => Ok(()),
        false => Err(Error::ColumnType {
            name: name.into(),
            kind: kind.to_string(),
        }),
    }
}

/// Where a column is among the columns of a file, if it can be searched.
pub(crate) fn column_of(schema: &Schema, column: &str) -> Result<usize, Error> {
    let names: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    let index = position(&names, column)?;
    check(schema.field(index).data_type(), column)?;
    Ok(index)
}

/// Names of a file's columns, for a message: in one line, and not longer than can be read.
fn listed(names: &[String]) -> String {
    let mut list = String::new();
    for (index, name) in names.iter().enumerate() {
        if list.len() > LISTED_BYTES_MAX {
            return format!("{list}, and {} more", names.len() - index);
        }
        let comma = if index > 0 { ", " } else { "" };
        let name: String = name.chars().take(LISTED_BYTES_MAX).collect();
        list += &format!("{comma}{}", name.escape_debug());
    }
    list
}

/// Where the one column of that name is.
pub(crate) fn position(names: &[String], column: &str) -> Result<usize, Error> {
    let count = names.iter().filter(|name| *name == column).count();
    match (names.iter().position(|name| name == column), count) {
        (Some(index), 1) => Ok(index),
        (None, _) => Err(Error::NoColumn {
            name: column.into(),
            known: listed(names),
        }),
        (_, count) => Err(Error::SameColumns {
            name: column.into(),
            count,
        }),
    }
}

pub(crate) fn each_value(array: &dyn Array, rows: &mut Rows<'_>) -> Result<(), Error> {
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

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        format_error(error)
    }
}

/// What a format's library says, in one line.
pub(crate) fn format_error(error: impl std::fmt::Display) -> Error {
    let words: Vec<_> = error
        .to_string()
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    Error::Format(words.join(" "))
}

/// Runs a file format's decoder. What a hostile file makes it stumble over is the file's mistake.
pub(crate) fn guarded<T>(decode: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    quietly(decode).unwrap_or_else(|_| Err(Error::Format("the file is damaged".into())))
}
