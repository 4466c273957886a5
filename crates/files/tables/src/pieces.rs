//! Byte ranges of the pieces that a table was written in.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use overside_base::FileFormat;

use crate::error::guarded;
use crate::{Error, pack, parquet};

/// Returns the byte range of each row group of a Parquet file, or of each record batch and dictionary
/// of an Arrow IPC file, in the file's order; `None` for other formats. Only the beginning and the
/// footer of the file are read.
///
/// # Errors
/// [`Error`] if it begins like such a file but is not one.
pub fn pieces(file: &File) -> Result<Option<Vec<Range<u64>>>, Error> {
    let len = file.metadata()?.len();
    let mut head = [0; FileFormat::HEAD_BYTES];
    let known = (FileFormat::HEAD_BYTES as u64).min(len) as usize;
    file.read_exact_at(&mut head[..known], 0)?;
    let mut pieces = match FileFormat::of(&head[..known]) {
        FileFormat::Parquet => guarded(|| parquet::row_groups(file))?,
        FileFormat::ArrowFile => guarded(|| pack::blocks(file.try_clone()?, len))?,
        FileFormat::ArrowStream | FileFormat::Compressed(_) | FileFormat::Text => return Ok(None),
    };
    pieces.retain(|piece| !piece.is_empty());
    pieces.sort_unstable_by_key(|piece| piece.start);
    let is_apart = |pair: &[Range<u64>]| pair[0].end <= pair[1].start;
    if pieces.last().is_some_and(|last| last.end > len) || !pieces.windows(2).all(is_apart) {
        return Err(Error::Format(
            "the file is damaged: its parts overlap, or end behind it".into(),
        ));
    }
    Ok(Some(pieces))
}
