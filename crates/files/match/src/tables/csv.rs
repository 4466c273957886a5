//! A column of comma-separated values, RFC 4180.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use csv::{ByteRecord, ReaderBuilder};

use crate::rows::Rows;
use crate::{Error, Search, SearchSummary, Sink};

impl Search {
    /// Searches the column that the first row calls `column`. A row that is too short to have it
    /// has no value there. Rows are numbered without the first one.
    ///
    /// # Errors
    /// [`Error`]; records found before are in the sink.
    pub fn csv(
        &mut self,
        input: &mut dyn Read,
        column: &str,
        delimiter: u8,
        sink: &mut dyn Sink,
    ) -> Result<SearchSummary, Error> {
        let row_bytes = Rc::new(Cell::new(0));
        let max_bytes = self.options.record_bytes_max;
        let bounded = Bounded { input, max_bytes, row_bytes: Rc::clone(&row_bytes) };
        let mut reader =
            ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(bounded);
        let failed = |error, row| failed(error, row, max_bytes);
        let header = reader.byte_headers().map_err(|error| failed(error, 0))?;
        let index = index_of(header, column)?;
        let mut rows = Rows::new(self, sink)?;
        let mut record = ByteRecord::new();
        while rows.go_on() {
            row_bytes.set(0);
            let more = reader.read_byte_record(&mut record);
            if !more.map_err(|error| failed(error, rows.count() + 1))? {
                break;
            }
            rows.row(record.get(index))?;
        }
        rows.finish()
    }
}

fn index_of(header: &ByteRecord, column: &str) -> Result<usize, Error> {
    // Spreadsheets write a byte order mark before the first name.
    let name = |field: &[u8]| {
        let field = field.strip_prefix(b"\xef\xbb\xbf").unwrap_or(field);
        String::from_utf8_lossy(field).into_owned()
    };
    let names: Vec<String> = header.iter().map(name).collect();
    let index = overside_tables::position(names.iter().map(String::as_str), column)?;
    Ok(index)
}

fn failed(error: csv::Error, row: u64, max_bytes: usize) -> Error {
    let text = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            Error::TooLong {
                place: match row {
                    0 => "first row".into(),
                    row => format!("row {row}"),
                },
                max_bytes,
            }
        }
        csv::ErrorKind::Io(error) => Error::Read(error),
        _ => Error::Format(text),
    }
}

/// Reads no more than a row may be long: a quote that is never closed makes the rest of a file one
/// row.
struct Bounded<'a> {
    input: &'a mut dyn Read,
    max_bytes: usize,
    /// Number of bytes read since the last row ended.
    row_bytes: Rc<Cell<usize>>,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.row_bytes.get() > self.max_bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let read = self.input.read(buffer)?;
        self.row_bytes.set(self.row_bytes.get() + read);
        Ok(read)
    }
}
