//! Records that end in a zero byte, as `find -print0` writes them.

use std::io::{BufRead, BufReader, ErrorKind, Read};

use memchr::memchr;

use crate::rows::Rows;
use crate::{Error, Search, SearchSummary, Sink};

/// Size of the read buffer, in bytes.
const BUFFER_BYTES: usize = 256 << 10;

impl Search {
    /// Searches records that end in a zero byte, which is not part of them. The last one need not.
    /// There may be line feeds in a record.
    ///
    /// # Errors
    /// [`Error`]; records found before are in the sink.
    pub fn null_data(
        &mut self,
        input: &mut dyn Read,
        sink: &mut dyn Sink,
    ) -> Result<SearchSummary, Error> {
        let max_bytes = self.options.record_bytes_max;
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, input);
        let mut rows = Rows::new(self, sink)?;
        // The beginning of a record whose end was not in the buffer.
        let mut begun: Vec<u8> = Vec::new();
        let mut failure = None;
        while rows.go_on() {
            let bytes = match reader.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    failure = Some(Error::Read(error));
                    &[]
                }
            };
            let read_bytes = bytes.len();
            if bytes.is_empty() {
                if !begun.is_empty() {
                    rows.row(Some(&begun))?;
                }
                break;
            }
            let mut rest = bytes;
            while let Some(end) = memchr(0, rest).filter(|_| rows.go_on()) {
                if begun.is_empty() {
                    rows.row(Some(&rest[..end]))?;
                } else {
                    begun.extend_from_slice(&rest[..end]);
                    rows.row(Some(&begun))?;
                    begun.clear();
                }
                rest = &rest[end + 1..];
            }
            begun.extend_from_slice(rest);
            if begun.len() > max_bytes {
                let place = format!("record {}", rows.count() + 1);
                return Err(Error::TooLong { place, max_bytes });
            }
            reader.consume(read_bytes);
        }
        let summary = rows.finish()?;
        failure.map_or(Ok(summary), Err)
    }
}
