//! Contract of a sink: the receiver of the records that a search selects.

use std::io;

/// A record that was selected, or one around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectedRecord<'a> {
    /// Number of the record in the input, from 1; 0 if numbers were not requested.
    pub number: u64,
    /// Byte offset in the input at which the record begins; `None` unless the input is text.
    pub offset: Option<u64>,
    /// Bytes of the record; `None` for a row without a value.
    pub value: Option<&'a [u8]>,
}

/// Takes the records that are selected. `()` takes none.
pub trait Sink {
    /// Takes the next one. `false` ends the search of this input.
    ///
    /// # Errors
    /// Ends the search with [`crate::Error::Write`].
    fn found(&mut self, found: SelectedRecord<'_>) -> io::Result<bool>;

    /// Takes a record before or after a selected one, [`crate::Options::context`]. They come in order.
    ///
    /// # Errors
    /// Ends the search with [`crate::Error::Write`].
    fn context(&mut self, _record: SelectedRecord<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Called before a wait for the input: held-back records should be written.
    ///
    /// # Errors
    /// Ends the search with [`crate::Error::Write`].
    fn idle(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for () {
    fn found(&mut self, _: SelectedRecord<'_>) -> io::Result<bool> {
        Ok(true)
    }
}
