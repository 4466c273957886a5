//! Lines that are in memory already.

use memchr::{memchr, memchr_iter, memrchr};
use overside_device::{ExternalBytes, Slice};

use crate::search::TRIAL_BYTES;
use crate::stream::{Batch, Stream};
use crate::{Error, Search, SearchSummary, Sink};

impl Search {
    /// Searches lines in memory of the caller's, which are read where they are. The last one need
    /// not end in `\n`.
    ///
    /// # Errors
    /// [`Error`]; records found before are in the sink.
    pub fn memory(
        &mut self,
        text: ExternalBytes,
        sink: &mut dyn Sink,
    ) -> Result<SearchSummary, Error> {
        let bytes = text.as_bytes();
        let sample = match self.wants_trial(Some(bytes.len() as u64)) {
            true => &bytes[..bytes.len().min(TRIAL_BYTES)],
            false => &[],
        };
        let end = memrchr(b'\n', sample).map_or(0, |end| end + 1);
        self.open(&sample[..end])?;
        let Some(state) = &self.state else {
            return Ok(SearchSummary::default());
        };
        let (chunk_bytes, text) = (state.chunk_bytes, state.executor.register(text));
        let counts = self.options.counts_records();
        let mut stream = Stream::new(self, sink);
        let (mut begin, mut before) = (0, 0);
        while begin < text.len() && !stream.is_over {
            let mut batch = Batch { offset: Some(begin as u64), before, ..Batch::default() };
            let window = &text[begin..text.len().min(begin + chunk_bytes)];
            let is_last = begin + window.len() == text.len();
            let end = match memrchr(b'\n', window) {
                Some(end) if !is_last => begin + end + 1,
                _ if is_last => text.len(),
                _ => {
                    let line = long_line(&text, begin, window.len());
                    (begin, before) = (begin + line.len() + 1, before + 1);
                    stream.send_line(&line, batch)?;
                    continue;
                }
            };
            if counts {
                let lines = &text[begin..end];
                let unfinished = !lines.ends_with(b"\n");
                batch.records = memchr_iter(b'\n', lines).count() as u64 + u64::from(unfinished);
            }
            before += batch.records;
            stream.lend(text.slice(begin..end), batch)?;
            begin = end;
        }
        stream.finish()
    }
}

/// The line from `begin` on, whose first `known` bytes have no end.
fn long_line(text: &Slice, begin: usize, known: usize) -> Slice {
    let rest = &text[begin + known..];
    let end = memchr(b'\n', rest).unwrap_or(rest.len());
    text.slice(begin..begin + known + end)
}
