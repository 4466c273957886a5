//! The footer of a Parquet file, as far as memory depends on it.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};

use crate::Error;
use crate::error::replace_invalid;

/// The footer's length, four bytes, and the magic bytes at a file's end.
const TAIL_BYTES: usize = 8;
/// Field ids of the row groups and the metadata in `FileMetaData` (`parquet.thrift`).
const ROW_GROUPS: i64 = 4;
const KEY_VALUES: i64 = 5;
/// Kind of a string of bytes in Thrift's compact protocol.
const BINARY: u8 = 8;
/// Largest nesting depth of structures; the format needs six.
const DEPTH_MAX: usize = 32;

/// Last four bytes of a file, and of one with an encrypted footer.
const MAGIC: &[u8; 4] = b"PAR1";
const ENCRYPTED: &[u8; 4] = b"PARE";

/// Reads a file's footer. It refuses a file without one; a footer that announces more row groups than it has bytes,
/// because the decoder takes memory for all of them first, and a process that cannot have it is ended; and counts of
/// rows that contradict each other.
pub(super) fn read(file: &File) -> Result<ParquetMetaData, Error> {
    let len = file.metadata()?.len();
    let cut = || {
        Error::Format("it does not end as a Parquet file does; was it written to its end?".into())
    };
    let tail_at = len.checked_sub(TAIL_BYTES as u64).ok_or_else(cut)?;
    let mut tail = [0; TAIL_BYTES];
    file.read_exact_at(&mut tail, tail_at)?;
    let [a, b, c, d, magic @ ..] = tail;
    match &magic {
        MAGIC => {}
        ENCRYPTED => {
            return Err(Error::Format("its footer is encrypted; decrypt the file first".into()));
        }
        _ => return Err(cut()),
    }
    let footer_len = u32::from_le_bytes([a, b, c, d]);
    let at = tail_at.checked_sub(footer_len.into()).ok_or_else(cut)?;
    let mut footer = vec![0; footer_len as usize];
    file.read_exact_at(&mut footer, at)?;
    if let Some(count) = row_groups(&mut Compact(&footer))
        && count > footer.len() as u64
    {
        return Err(Error::Format(format!(
            "the file is damaged: {count} row groups in a footer of {footer_len} bytes"
        )));
    }
    let decode = ParquetMetaDataReader::decode_metadata;
    let metadata = match decode(&footer) {
        Err(_) if replace_bytes_that_are_no_text(&mut footer) => decode(&footer),
        decoded => decoded,
    };
    let metadata = metadata.map_err(Error::format)?;
    check_rows(&metadata)?;
    Ok(metadata)
}

/// Refuses a file whose footer, row groups and columns do not have the same rows.
fn check_rows(metadata: &ParquetMetaData) -> Result<(), Error> {
    let contradiction = |what: String| Err(Error::Format(format!("the file is damaged: {what}")));
    let groups = metadata.row_groups();
    let (rows, of_groups) = (
        metadata.file_metadata().num_rows(),
        groups.iter().map(|group| i128::from(group.num_rows())).sum::<i128>(),
    );
    if i128::from(rows) != of_groups {
        return contradiction(format!(
            "its footer has {rows} rows, its row groups have {of_groups}"
        ));
    }
    for (number, group) in groups.iter().enumerate() {
        let rows = group.num_rows();
        let is_flat = |column: &&ColumnChunkMetaData| column.column_descr().max_rep_level() == 0;
        let mut columns = group.columns().iter().filter(is_flat);
        if let Some(column) = columns.find(|column| column.num_values() != rows) {
            let (name, values) = (column.column_path().string(), column.num_values());
            return contradiction(format!(
                "row group {number} has {rows} rows, and its column {name:?} {values}"
            ));
        }
    }
    Ok(())
}

/// Puts question marks in the place of bytes in keys and values that are not UTF-8: Arrow's metadata are text. `false` if
/// there are none.
fn replace_bytes_that_are_no_text(footer: &mut [u8]) -> bool {
    let mut texts = Vec::new();
    // What cannot be parsed the decoder refuses.
    let _ = key_value_texts(footer, &mut texts);
    let mut is_changed = false;
    for text in texts {
        is_changed |= replace_invalid(&mut footer[text]);
    }
    is_changed
}

/// The places of keys and values in a footer.
fn key_value_texts(footer: &[u8], texts: &mut Vec<Range<usize>>) -> Option<()> {
    let (mut rest, mut id) = (Compact(footer), 0);
    loop {
        let kind = rest.field(&mut id)?;
        if id != KEY_VALUES {
            rest.skip(kind, DEPTH_MAX)?;
            continue;
        }
        for _ in 0..rest.list()?.0 {
            let mut id = 0;
            while *rest.0.first()? != 0 {
                match rest.field(&mut id)? {
                    BINARY => {
                        let len = usize::try_from(rest.varint()?).ok()?;
                        let begin = footer.len() - rest.0.len();
                        rest.bytes(len as u64)?;
                        texts.push(begin..begin + len);
                    }
                    other => rest.skip(other, DEPTH_MAX)?,
                }
            }
            rest.byte()?;
        }
        return Some(());
    }
}

/// Returns the number of row groups that a `FileMetaData` announces; `None` if none are found.
fn row_groups(footer: &mut Compact<'_>) -> Option<u64> {
    let mut id = 0;
    loop {
        let kind = footer.field(&mut id)?;
        if id == ROW_GROUPS {
            return footer.list().map(|(count, _)| count);
        }
        footer.skip(kind, DEPTH_MAX)?;
    }
}

/// Thrift's compact protocol (Apache Thrift, "Thrift Compact protocol encoding"), as far as it takes
/// to pass over values. `None`: the bytes end or are none of it.
struct Compact<'a>(&'a [u8]);

impl Compact<'_> {
    /// The kind of the next field of a structure, and its id in `id`, which held the last one's.
    fn field(&mut self, id: &mut i64) -> Option<u8> {
        let head = self.byte().filter(|head| *head != 0)?;
        *id = match head >> 4 {
            0 => {
                let zigzag = self.varint()?;
                (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
            }
            delta => id.checked_add(delta.into())?,
        };
        Some(head & 15)
    }

    /// Returns the number of elements of a list or a set, and their kind.
    fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            count => count.into(),
        };
        Some((count, head & 15))
    }

    /// Passes over a value of that kind.
    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            // The value of a boolean field is its kind.
            1 | 2 => Some(()),
            3 => self.byte().map(drop),
            4..=6 => self.varint().map(drop),
            7 => self.bytes(8),
            BINARY => {
                let len = self.varint()?;
                self.bytes(len)
            }
            9 | 10 => {
                let (count, kind) = self.list()?;
                // In a list a boolean has a byte.
                let kind = if kind <= 2 { 3 } else { kind };
                (0..count).try_for_each(|_| self.skip(kind, depth))
            }
            12 => {
                let mut id = 0;
                while *self.0.first()? != 0 {
                    let kind = self.field(&mut id)?;
                    self.skip(kind, depth)?;
                }
                self.byte().map(drop)
            }
            _ => None,
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn bytes(&mut self, len: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(len).ok()?..)?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}
