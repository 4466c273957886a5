//! Tests of the byte ranges of the pieces of tables.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_ipc::writer::FileWriter;
use overside_tables::pieces;
use proptest::prelude::*;

use crate::parquet::written;

fn batch(rows: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    RecordBatch::try_from_iter([("number", numbers)]).unwrap()
}

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

fn arrow(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = FileWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

fn parquet(batches: &[RecordBatch]) -> Vec<u8> {
    let (mut file, mut bytes) = (written(batches, true), Vec::new());
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn row_groups_and_batches_lie_one_behind_the_other() {
    let batches = [batch(10), batch(1000), batch(10)];
    for bytes in [arrow(&batches), parquet(&batches)] {
        let pieces = pieces(&file(&bytes)).unwrap().unwrap();
        let lengths: Vec<u64> = pieces.iter().map(|piece| piece.end - piece.start).collect();
        assert_eq!(lengths.len(), 3);
        assert!(pieces.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(lengths[1] > 2000 && lengths[0] < 1000, "{lengths:?}");
    }
}

#[test]
fn other_files_have_none_and_what_is_cut_off_is_damaged() {
    for other in [&b""[..], b"a,b\n1,2\n", b"\x1f\x8b\x08\0"] {
        assert_eq!(pieces(&file(other)).unwrap(), None);
    }
    for bytes in [arrow(&[batch(10)]), parquet(&[batch(10)])] {
        assert!(pieces(&file(&bytes[..bytes.len() - 1])).is_err());
        assert!(pieces(&file(&bytes[..9])).is_err());
    }
}

proptest! {
    #[test]
    fn pieces_of_a_damaged_file_lie_in_it(
        is_arrow: bool, places in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4)
    ) {
        let batches = [batch(10), batch(300)];
        let mut bytes = if is_arrow { arrow(&batches) } else { parquet(&batches) };
        // The index follows the data.
        let footer = bytes.len() / 2;
        for (place, value) in places {
            let len = bytes.len() - footer;
            bytes[footer + place.index(len)] = value;
        }
        if let Ok(Some(pieces)) = pieces(&file(&bytes)) {
            let ends = pieces.iter().map(|piece| piece.end);
            prop_assert!(ends.max().unwrap_or(0) <= bytes.len() as u64);
            prop_assert!(pieces.iter().all(|piece| piece.start < piece.end));
        }
    }
}
