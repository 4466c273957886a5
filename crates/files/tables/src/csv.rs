//! Reader of comma-separated values, RFC 4180.

mod form;

use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_csv::reader::{Decoder, ReaderBuilder};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use csv::ReaderBuilder as RowReaderBuilder;

use form::Form;
pub(crate) use form::as_text;

use crate::Error;

/// Maximum number of rows of a batch.
const BATCH_ROWS: usize = 8192;
/// Maximum number of bytes of a batch: a quote that is never closed makes the rest of a file one row.
const BATCH_BYTES_MAX: usize = 256 << 20;
/// Length in bytes of the sample at the beginning of a file. The types are inferred from the
/// complete rows in it.
const SAMPLE_BYTES: usize = 4 << 20;
const INPUT_BYTES: usize = 1 << 16;
/// Maximum number of characters of a value in a message.
const VALUE_SHOWN: usize = 40;

/// Format of a file of comma-separated values.
#[derive(Clone, Debug)]
pub struct CsvOptions {
    /// Byte that separates two values.
    pub delimiter: u8,
    /// Types of columns by name; the types of other columns are inferred.
    pub types: BTreeMap<String, DataType>,
    /// `true` if types are inferred; otherwise columns without a named type are text.
    pub is_guessing: bool,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self { delimiter: b',', types: BTreeMap::new(), is_guessing: true }
    }
}

/// Reader of the batches of a file.
pub(crate) struct CsvBatches<R> {
    input: std::io::Chain<Cursor<Vec<u8>>, R>,
    decoder: Decoder,
    buffer: Vec<u8>,
    /// Offset in `buffer` of the first byte that is not decoded yet.
    begin: usize,
    is_over: bool,
    forms: Vec<Form>,
    schema: SchemaRef,
    /// Number of rows before the next batch.
    rows: u64,
}

impl<R: Read> CsvBatches<R> {
    /// Reads the first rows and infers the types. Also returns notes about columns that are text
    /// because of a single value.
    pub(crate) fn open(
        mut input: R,
        options: &CsvOptions,
    ) -> Result<(Self, SchemaRef, Vec<String>), Error> {
        let mut head = Vec::new();
        input.by_ref().take(SAMPLE_BYTES as u64).read_to_end(&mut head)?;
        let is_whole = head.len() < SAMPLE_BYTES;
        // Spreadsheets write a byte order mark before the first name.
        let mark = match head.starts_with(b"\xef\xbb\xbf") {
            true => 3,
            false => 0,
        };
        let guess = guess(&head[mark..], options, is_whole)?;
        let text = guess.names.iter().map(|name| Field::new(name, DataType::Utf8, true));
        let decoder = ReaderBuilder::new(Arc::new(Schema::new(text.collect::<Vec<_>>())))
            .with_header(true)
            .with_delimiter(options.delimiter)
            .with_batch_size(BATCH_ROWS)
            .build_decoder();
        let mut head = Cursor::new(head);
        head.set_position(mark as u64);
        let fields = guess.forms.iter().zip(&guess.names);
        let fields: Vec<Field> = fields.map(|(form, name)| form.field(name)).collect();
        let schema = Arc::new(Schema::new(fields));
        let batches = Self {
            input: head.chain(input),
            decoder,
            buffer: Vec::new(),
            begin: 0,
            is_over: false,
            forms: guess.forms,
            schema: Arc::clone(&schema),
            rows: 0,
        };
        Ok((batches, schema, guess.notes))
    }

    /// Converts the columns of a batch of text to their types.
    fn typed(&mut self, text: &RecordBatch) -> Result<RecordBatch, Error> {
        let mut columns = Vec::with_capacity(text.num_columns());
        for (at, (array, form)) in text.columns().iter().zip(&self.forms).enumerate() {
            columns.push(form.parse(array).map_err(|row| {
                let (field, value) = (self.schema.field(at), array.as_string::<i32>().value(row));
                let value: String = value.chars().take(VALUE_SHOWN).collect();
                let (name, kind, row) = (field.name(), field.data_type(), self.rows + 1 + row as u64);
                Error::Format(format!(
                    "row {row}, column {name:?}: {value:?} would not come back the same from {kind}; read it as text \
                     with --types {name}=text, or name another type"
                ))
            })?);
        }
        self.rows += text.num_rows() as u64;
        let options = RecordBatchOptions::new().with_row_count(Some(text.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        let mut bytes = 0;
        while self.decoder.capacity() > 0 {
            if self.begin == self.buffer.len() && !self.is_over {
                self.buffer.resize(INPUT_BYTES, 0);
                let len = self.input.read(&mut self.buffer)?;
                self.buffer.truncate(len);
                self.begin = 0;
                self.is_over = len == 0;
            }
            // The decoder takes an empty input for the end of a row.
            let decoded = self.decoder.decode(&self.buffer[self.begin..])?;
            self.begin += decoded;
            bytes += decoded;
            if bytes > BATCH_BYTES_MAX {
                return Err(Error::Format(format!(
                    "{BATCH_ROWS} rows are longer than {BATCH_BYTES_MAX} bytes; a quote may be open"
                )));
            }
            if self.is_over && self.begin == self.buffer.len() {
                break;
            }
        }
        let text = self.decoder.flush()?;
        text.map(|text| self.typed(&text)).transpose()
    }
}

impl<R: Read> Iterator for CsvBatches<R> {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch().transpose()
    }
}

/// Columns with their forms, and notes on them for the user.
struct Guess {
    names: Vec<String>,
    forms: Vec<Form>,
    notes: Vec<String>,
}

/// Infers the form of each column from the complete rows at the beginning of a file.
fn guess(head: &[u8], options: &CsvOptions, is_whole: bool) -> Result<Guess, Error> {
    // A character that is truncated at the end of the sample is no error.
    if std::str::from_utf8(head).is_err_and(|error| error.error_len().is_some()) {
        let reason = "neither Arrow IPC nor Parquet, nor CSV, which is text in UTF-8";
        return Err(Error::Format(reason.into()));
    }
    let mut rows = RowReaderBuilder::new()
        .delimiter(options.delimiter)
        .has_headers(false)
        .flexible(true)
        .from_reader(head);
    let (mut names, mut columns) = (Vec::new(), Vec::new());
    let (mut record, mut next) = (csv::ByteRecord::new(), csv::ByteRecord::new());
    let mut count = 0_u64;
    let mut has_row = rows.read_byte_record(&mut record).map_err(Error::format)?;
    while has_row {
        has_row = rows.read_byte_record(&mut next).map_err(Error::format)?;
        // The last row may continue behind the sample; the first row is the header.
        if !has_row && !is_whole {
            break;
        }
        if count == 0 {
            let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
            names = record.iter().map(text).collect();
            columns = vec![ColumnGuess::default(); names.len()];
        } else if options.is_guessing {
            for (column, value) in columns.iter_mut().zip(&record) {
                column.see(value, count);
            }
        }
        count += 1;
        std::mem::swap(&mut record, &mut next);
    }
    if count == 0 {
        return Err(Error::Format(match is_whole {
            true if head.is_empty() => "the file is empty".into(),
            true => "no header; the first row has the names of the columns".into(),
            false => format!("the first row is longer than {SAMPLE_BYTES} bytes"),
        }));
    }
    let mut notes = Vec::new();
    for name in options.types.keys() {
        crate::position(names.iter().map(String::as_str), name)?;
    }
    let form = |(name, column): (&String, ColumnGuess)| match options.types.get(name) {
        Some(kind) => Form::Named(kind.clone()),
        None => {
            if let Some((value, row)) = column.odd {
                notes.push(format!(
                    "column {name:?} is read as text: {value:?} in row {row} would not come back the same from another \
                     type; --types {name}=TYPE names one"
                ));
            }
            match column.forms {
                // The column has no values, so its type cannot be inferred.
                None if is_whole && options.is_guessing => Form::Named(DataType::Null),
                forms => forms.and_then(|forms| forms.into_iter().next()).unwrap_or(Form::Text),
            }
        }
    };
    let forms = names.iter().zip(columns).map(form).collect();
    Ok(Guess { names, forms, notes })
}

/// Possible forms of a column, given its values so far.
#[derive(Clone, Default)]
struct ColumnGuess {
    /// Possible forms; `None` before the first value.
    forms: Option<Vec<Form>>,
    /// First value that has none of the forms of earlier values, and its row.
    odd: Option<(String, u64)>,
}

impl ColumnGuess {
    fn see(&mut self, value: &[u8], row: u64) {
        let is_text = self.forms.as_ref().is_some_and(Vec::is_empty);
        if value.is_empty() || is_text {
            return;
        }
        let text = String::from_utf8_lossy(value);
        let is_first = self.forms.is_none();
        let forms: Vec<Form> = match self.forms.take() {
            Some(before) => before.into_iter().filter_map(|form| form.with(&text)).collect(),
            None => Form::all_of(&text),
        };
        if forms.is_empty() && (!is_first || text.bytes().all(|byte| byte.is_ascii_digit())) {
            self.odd = Some((text.chars().take(VALUE_SHOWN).collect(), row));
        }
        self.forms = Some(forms);
    }
}
