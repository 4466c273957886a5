//! Verifies the packed output of a pass: unpacked, each partition must have the rows that the other algorithm
//! finds, in the same order. Outputs of Arrow's own codecs are unpacked by Arrow's own reader. Outputs that
//! are identical to verified ones are not unpacked again.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamReader;
use overside_tables::pack::{CodecPool, UnpackOptions, Unpacker};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::Error;

/// Result of verifying the outputs of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Method of verification, as a text.
    pub method: &'static str,
    /// XXH3 of all outputs, 64 bits.
    pub value: u64,
    /// Number of outputs that were verified: one for each partition.
    pub parts: usize,
}

type Batches<'a> = Box<dyn Iterator<Item = Result<RecordBatch, Error>> + 'a>;

/// Expected rows of each partition, against which outputs are verified.
pub(super) struct Checker {
    expected: Vec<Vec<RecordBatch>>,
    /// Pool without a device.
    pool: Arc<CodecPool>,
    /// Verified outputs: partition and digest.
    right: HashSet<(usize, u64)>,
}

impl Checker {
    /// Makes a checker with the expected batches of each partition.
    pub(super) fn new(expected: Vec<Vec<RecordBatch>>) -> Result<Self, Error> {
        Ok(Self {
            expected,
            pool: Arc::new(CodecPool::new(NonZeroUsize::MIN)?),
            right: HashSet::new(),
        })
    }

    /// Verifies the outputs of all partitions.
    pub(super) fn check(&mut self, outputs: &[Vec<u8>], is_outer: bool) -> Result<Check, Error> {
        if outputs.len() != self.expected.len() {
            let (parts, expected) = (outputs.len(), self.expected.len());
            return Err(wrong(format!("{parts} partitions instead of {expected}")));
        }
        let mut whole = Xxh3::new();
        for (number, output) in outputs.iter().enumerate() {
            let digest = xxh3_64(output);
            whole.update(&digest.to_le_bytes());
            if !self.right.contains(&(number, digest)) {
                self.compare(number, output, is_outer)?;
                self.right.insert((number, digest));
            }
        }
        Ok(Check {
            method: match is_outer {
                true => "rows of each partition against the other algorithm",
                false => {
                    "rows of each partition against the other algorithm, read by Arrow's own reader"
                }
            },
            value: whole.digest(),
            parts: outputs.len(),
        })
    }

    fn compare(&self, number: usize, output: &[u8], is_outer: bool) -> Result<(), Error> {
        let found: Batches<'_> = match is_outer {
            true => {
                let bytes = Buffer::from(output);
                let options = UnpackOptions::default();
                let unpacker = Unpacker::bytes(bytes, options, &self.pool)?;
                Box::new(unpacker.map(|batch| Ok(batch?)))
            }
            false => {
                let batches = StreamReader::try_new(output, None)?;
                Box::new(batches.map(|batch| batch.map_err(Error::from)))
            }
        };
        let expected = self.expected[number].iter().cloned().map(Ok);
        match first_difference(found, Box::new(expected))? {
            None => Ok(()),
            Some(row) => {
                Err(wrong(format!("partition {number} is another one from its row {row} on")))
            }
        }
    }
}

fn wrong(what: String) -> Error {
    Error::Verification(what)
}

/// Returns the number of a row up to which the tables are equal; `None` if they do not differ at all.
fn first_difference(one: Batches<'_>, other: Batches<'_>) -> Result<Option<u64>, Error> {
    let (mut one, mut other) = (Rows::new(one), Rows::new(other));
    let mut row = 0;
    loop {
        let count = one.available()?.min(other.available()?);
        if count == 0 {
            let is_end = one.available()? == other.available()?;
            return Ok((!is_end).then_some(row));
        }
        // Only the columns: metadata of the schemas may differ.
        if one.take(count).columns() != other.take(count).columns() {
            return Ok(Some(row));
        }
        row += count as u64;
    }
}

/// Rows that are read in other groups than the batches.
struct Rows<'a> {
    batches: Batches<'a>,
    rest: Option<RecordBatch>,
}

impl<'a> Rows<'a> {
    fn new(batches: Batches<'a>) -> Self {
        Self { batches, rest: None }
    }

    /// Returns the number of rows that the next `take` can return. Reads the next batch if the
    /// current one is used up; 0 at the end of the table.
    fn available(&mut self) -> Result<usize, Error> {
        loop {
            match &self.rest {
                Some(rest) if rest.num_rows() > 0 => return Ok(rest.num_rows()),
                _ => match self.batches.next().transpose()? {
                    None => return Ok(0),
                    next => self.rest = next,
                },
            }
        }
    }

    /// Returns the next `count` rows, at most as many as are available.
    fn take(&mut self, count: usize) -> RecordBatch {
        match &mut self.rest {
            Some(rest) => {
                let taken = rest.slice(0, count);
                *rest = rest.slice(count, rest.num_rows() - count);
                taken
            }
            None => RecordBatch::new_empty(Arc::new(arrow_schema::Schema::empty())),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array};

    use super::*;

    fn batches(parts: &[&[i64]]) -> Batches<'static> {
        let batch = |part: &&[i64]| {
            let column: ArrayRef = Arc::new(Int64Array::from(part.to_vec()));
            RecordBatch::try_from_iter([("x", column)]).map_err(Error::from)
        };
        Box::new(parts.iter().map(batch).collect::<Vec<_>>().into_iter())
    }

    #[test]
    fn tables_are_the_same_however_they_are_cut() {
        let difference = |one: &[&[i64]], other: &[&[i64]]| {
            first_difference(batches(one), batches(other)).unwrap()
        };
        assert_eq!(difference(&[&[1, 2, 3], &[4]], &[&[1], &[], &[2, 3, 4]]), None);
        assert_eq!(difference(&[], &[&[]]), None);
        assert_eq!(difference(&[&[1, 2], &[3]], &[&[1, 2], &[4]]), Some(2));
        assert_eq!(difference(&[&[1, 2]], &[&[1, 2], &[3]]), Some(2));
        assert_eq!(difference(&[&[1, 2], &[3]], &[&[1, 2]]), Some(2));
    }

    #[test]
    fn a_wrong_output_is_found() {
        let expected: Vec<RecordBatch> = batches(&[&[1, 2, 3]]).collect::<Result<_, _>>().unwrap();
        let mut checker = Checker::new(vec![expected.clone()]).unwrap();
        let packed = |batch: &RecordBatch| {
            let mut writer =
                arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
            writer.write(batch).unwrap();
            writer.into_inner().unwrap()
        };
        let right = packed(&expected[0]);
        let check = checker.check(std::slice::from_ref(&right), false).unwrap();
        assert_eq!((check.parts, checker.right.len()), (1, 1));
        assert_eq!(checker.check(&[right], false).unwrap().value, check.value);
        for wrong in [packed(&expected[0].slice(0, 2)), packed(&expected[0].slice(1, 2))] {
            let error = checker.check(&[wrong], false).unwrap_err();
            assert!(matches!(error, Error::Verification(_)), "{error}");
        }
        assert!(checker.check(&[], false).is_err());
    }
}
