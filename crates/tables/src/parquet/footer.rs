//! The footer of a Parquet file, as far as memory depends on it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::Error;

/// The footer's length, four bytes, and the magic bytes at a file's end.
const TAIL_BYTES: usize = 8;
/// Where `FileMetaData` has its row groups (`parquet.thrift`).
const ROW_GROUPS: i64 = 4;
/// How deep structures may be nested; the format needs six.
const DEPTH_MAX: usize = 32;

/// What the last four bytes are; of a file with an encrypted footer, which the decoder refuses, the second.
const MAGIC: [&[u8]; 2] = [b"PAR1", b"PARE"];

/// Refuses a file without a footer, and a footer that announces more row groups than it has bytes: the decoder takes memory for
/// all of them first, and a process that cannot have it is ended. Whatever else is wrong with it
/// the decoder says.
pub(super) fn check(file: &File) -> Result<(), Error> {
    let len = file.metadata()?.len();
    let Some(tail_at) = len.checked_sub(TAIL_BYTES as u64) else {
        return Ok(());
    };
    let mut tail = [0; TAIL_BYTES];
    file.read_exact_at(&mut tail, tail_at)?;
    let [a, b, c, d, magic @ ..] = tail;
    if !MAGIC.contains(&&magic[..]) {
        let reason = "it does not end as a Parquet file does; was it written to its end?";
        return Err(Error::Format(reason.into()));
    }
    let footer_len = u32::from_le_bytes([a, b, c, d]);
    let Some(at) = tail_at.checked_sub(footer_len.into()) else {
        return Ok(());
    };
    let mut footer = vec![0; footer_len as usize];
    file.read_exact_at(&mut footer, at)?;
    match row_groups(&mut Compact(&footer)) {
        Some(count) if count > footer.len() as u64 => Err(Error::Format(format!(
            "the file is damaged: {count} row groups in a footer of {footer_len} bytes"
        ))),
        _ => Ok(()),
    }
}

/// How many row groups a `FileMetaData` announces; `None` if none are found.
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

    /// How many elements a list or a set has, and their kind.
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
            8 => {
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
