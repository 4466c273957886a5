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
use serde::Serialize;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::Error;

/// Result of verifying the outputs of a pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Method of verification, as a text.
    pub method: &'static str,
    /// XXH3 of all outputs, 16 hexadecimal digits.
    pub value: String,
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
            value: format!("{:016x}", whole.digest()),
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
        match first_difference(found, &self.expected[number])? {
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

/// Returns the number of a row up to which the batches are equal to the expected ones; `None` if they do not differ.
fn first_difference(found: Batches<'_>, expected: &[RecordBatch]) -> Result<Option<u64>, Error> {
    let is_rest = |batch: &RecordBatch| batch.num_rows() > 0;
    let mut expected = expected.iter().filter(|batch| is_rest(batch)).cloned();
    let (mut row, mut next) = (0, expected.next());
    for batch in found {
        let mut batch = batch?;
        while batch.num_rows() > 0 {
            let Some(rows) = next else {
                return Ok(Some(row));
            };
            let count = batch.num_rows().min(rows.num_rows());
            // Only the columns: metadata of the schemas may differ.
            if batch.slice(0, count).columns() != rows.slice(0, count).columns() {
                return Ok(Some(row));
            }
            row += count as u64;
            batch = batch.slice(count, batch.num_rows() - count);
            let rest = rows.slice(count, rows.num_rows() - count);
            next = Some(rest).filter(is_rest).or_else(|| expected.next());
        }
    }
    Ok(next.map(|_| row))
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
            let other = batches(other).collect::<Result<Vec<_>, _>>().unwrap();
            first_difference(batches(one), &other).unwrap()
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
