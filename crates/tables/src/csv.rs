//! Comma-separated values, RFC 4180.

use std::io::{Cursor, Read};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_csv::reader::{Decoder, Format, ReaderBuilder};
use arrow_schema::SchemaRef;
use csv::ReaderBuilder as RowReaderBuilder;

use crate::Error;

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;
/// The most bytes of a batch: a quote that is never closed makes the rest of a file one row.
const BATCH_BYTES_MAX: usize = 256 << 20;
/// What types are inferred from: whole rows of the first bytes.
const SAMPLE_BYTES: usize = 4 << 20;
const INPUT_BYTES: usize = 1 << 16;

/// How a file of comma-separated values is written.
#[derive(Clone, Debug)]
pub struct CsvOptions {
    /// What stands between values.
    pub delimiter: u8,
    /// Names and types of the columns; inferred if absent.
    pub schema: Option<SchemaRef>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            delimiter: b',',
            schema: None,
        }
    }
}

/// The batches of a file.
pub(crate) struct CsvBatches<R> {
    input: std::io::Chain<Cursor<Vec<u8>>, R>,
    decoder: Decoder,
    buffer: Vec<u8>,
    /// Where the bytes that were not decoded yet begin.
    begin: usize,
    is_over: bool,
}

impl<R: Read> CsvBatches<R> {
    /// Reads the first rows and infers the schema, unless there is one.
    pub(crate) fn open(mut input: R, options: CsvOptions) -> Result<(Self, SchemaRef), Error> {
        let mut head = Vec::new();
        input
            .by_ref()
            .take(SAMPLE_BYTES as u64)
            .read_to_end(&mut head)?;
        let is_whole = head.len() < SAMPLE_BYTES;
        // Spreadsheets write a byte order mark before the first name.
        let mark = match head.starts_with(b"\xef\xbb\xbf") {
            true => 3,
            false => 0,
        };
        let schema = match options.schema {
            Some(schema) => schema,
            None => infer(&head[mark..], options.delimiter, is_whole)?,
        };
        let decoder = ReaderBuilder::new(Arc::clone(&schema))
            .with_header(true)
            .with_delimiter(options.delimiter)
            .with_batch_size(BATCH_ROWS)
            .build_decoder();
        let mut head = Cursor::new(head);
        head.set_position(mark as u64);
        let batches = Self {
            input: head.chain(input),
            decoder,
            buffer: Vec::new(),
            begin: 0,
            is_over: false,
        };
        Ok((batches, schema))
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
            // Without bytes the decoder takes the end of the input for the end of a row.
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
        Ok(self.decoder.flush()?)
    }
}

impl<R: Read> Iterator for CsvBatches<R> {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch().transpose()
    }
}

fn infer(head: &[u8], delimiter: u8, is_whole: bool) -> Result<SchemaRef, Error> {
    // What is cut off at the end of the sample is no mistake.
    if std::str::from_utf8(head).is_err_and(|error| error.error_len().is_some()) {
        let reason = "neither Arrow IPC nor Parquet, nor CSV, which is text in UTF-8";
        return Err(Error::Format(reason.into()));
    }
    let mut rows = RowReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .flexible(true)
        .from_reader(head);
    let mut record = csv::ByteRecord::new();
    let mut count = 0_usize;
    while rows.read_byte_record(&mut record).map_err(Error::format)? {
        count += 1;
    }
    // The last row may go on behind the sample; the first is the header.
    let whole = count - usize::from(!is_whole && count > 0);
    if whole == 0 {
        return Err(Error::Format(match is_whole {
            true if head.is_empty() => "the file is empty".into(),
            true => "no header; the first row has the names of the columns".into(),
            false => format!("the first row is longer than {SAMPLE_BYTES} bytes"),
        }));
    }
    let format = Format::default()
        .with_header(true)
        .with_delimiter(delimiter);
    let (schema, _) = format.infer_schema(head, Some(whole - 1))?;
    Ok(Arc::new(schema))
}
