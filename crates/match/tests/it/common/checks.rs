//! A property of arbitrary bytes, as an entry function: the fuzzer calls it, and a test replays the
//! fuzzer's corpus through it.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

use overside_match::{Answer, Error, Options, Search, SearchSummary, SelectedRecord, Sink};

/// The column that is searched.
const COLUMN: &str = "t";
const PATTERN: &str = "a.b|^c";

#[derive(Default, PartialEq, Debug)]
struct Kept(Vec<(u64, Option<u64>, Vec<u8>)>);

impl Sink for Kept {
    fn found(&mut self, found: SelectedRecord<'_>) -> std::io::Result<bool> {
        let value = found.value.unwrap_or_default().to_vec();
        self.0.push((found.number, found.offset, value));
        Ok(true)
    }
}

/// Any bytes, read as text, CSV, Parquet, an Arrow file or stream, by their first one, have the same
/// records however they are cut into chunks; or they are refused.
pub fn records(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let whole = searched(*kind, rest, 256 << 10);
    for chunk_bytes in [1, 7] {
        let pieces = searched(*kind, rest, chunk_bytes);
        match (&whole, &pieces) {
            (Ok(whole), Ok(pieces)) => assert_eq!(whole, pieces, "chunks of {chunk_bytes}"),
            (Err(_), Err(_)) => {}
            _ => panic!("{whole:?} but in chunks of {chunk_bytes} {pieces:?}"),
        }
    }
    if let (0, Ok((selected, kept))) = (kind % 5, &whole) {
        assert_eq!(*selected, kept.0.len() as u64);
    }
}

fn searched(kind: u8, bytes: &[u8], chunk_bytes: usize) -> Result<(u64, Kept), Error> {
    let mut options = Options::new([PATTERN]);
    options.answer = Answer::Records;
    options.numbers = true;
    options.chunk_bytes = chunk_bytes;
    options.record_bytes_max = 1 << 20;
    let mut search = Search::new(options).expect("one thread");
    let mut kept = Kept::default();
    let tally: SearchSummary = match kind % 5 {
        0 => search.text(&mut &bytes[..], &mut kept),
        1 => search.csv(&mut &bytes[..], COLUMN, b',', &mut kept),
        2 => search.parquet(file(bytes), COLUMN, &mut kept),
        3 => search.arrow_file(file(bytes), COLUMN, &mut kept),
        _ => search.arrow_stream(&mut &bytes[..], COLUMN, &mut kept),
    }?;
    Ok((tally.selected, kept))
}

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(bytes).expect("room");
    file.seek(SeekFrom::Start(0)).expect("a file");
    file
}
