//! A property of arbitrary bytes, as an entry function: the fuzzer calls it, and a test replays the
//! fuzzer's corpus through it.
#![allow(dead_code)]

#[path = "made.rs"]
mod made;

use std::cell::RefCell;
use std::collections::HashMap;
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

/// Returns `true` if a value matches [`PATTERN`].
fn matches(value: &[u8]) -> bool {
    let after =
        value.windows(3).any(|three| three[0] == b'a' && three[1] != b'\n' && three[2] == b'b');
    after || value.first() == Some(&b'c')
}

/// Chunks as long as all of a short input, and much shorter ones.
const WHOLE: usize = 16 << 10;
const SHORT: [usize; 2] = [1, 7];

/// Any bytes, read as text, CSV, Parquet, an Arrow file or stream, have the same records however
/// they are cut into chunks; or they are refused. By the first byte: below 0x80 the rest is the
/// file; above it chooses the table that is made ([`made`]), and one that is whole has its rows.
pub(super) fn records(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    if *kind < 0x80 {
        let _ = agree(kind % 5, rest, &SHORT);
        return;
    }
    let format = made::PARQUET + kind % 3;
    let table = made::table(format, rest);
    let found = agree(format, &table.bytes, &SHORT[usize::from(kind >> 2 & 1)..][..1]);
    if table.is_whole {
        let rows = table.rows.iter().enumerate();
        let selected = rows.filter_map(|(index, row)| {
            let row = row.as_ref().filter(|row| matches(row))?;
            Some((index as u64 + 1, None, row.clone()))
        });
        let (_, kept) = found.expect("a table as the writer made it");
        assert_eq!(kept, Kept(selected.collect()));
    }
}

/// Searches in chunks of each length; the answers are the same.
fn agree(format: u8, bytes: &[u8], short: &[usize]) -> Result<(u64, Kept), Error> {
    let whole = searched(format, bytes, WHOLE);
    for chunk_bytes in short {
        let pieces = searched(format, bytes, *chunk_bytes);
        match (&whole, &pieces) {
            (Ok(whole), Ok(pieces)) => assert_eq!(whole, pieces, "chunks of {chunk_bytes}"),
            (Err(_), Err(_)) => {}
            _ => panic!("{whole:?} but in chunks of {chunk_bytes} {pieces:?}"),
        }
    }
    if let Ok((selected, kept)) = &whole {
        assert_eq!(*selected, kept.0.len() as u64);
    }
    whole
}

thread_local! {
    /// Searches by chunk length, kept because opening one, which starts a thread, takes longer than
    /// searching.
    static SEARCHES: RefCell<HashMap<usize, Search>> = RefCell::default();
}

fn opened(chunk_bytes: usize) -> Search {
    let mut options = Options::new([PATTERN]);
    options.answer = Answer::Records;
    options.numbers = true;
    options.chunk_bytes = chunk_bytes;
    options.record_bytes_max = 1 << 20;
    options.engine = "regex".into();
    Search::new(options).expect("one thread")
}

fn searched(format: u8, bytes: &[u8], chunk_bytes: usize) -> Result<(u64, Kept), Error> {
    SEARCHES.with_borrow_mut(|searches| {
        let search = searches.entry(chunk_bytes).or_insert_with(|| opened(chunk_bytes));
        let mut kept = Kept::default();
        let tally: SearchSummary = match format {
            0 => search.text(&mut &bytes[..], &mut kept),
            1 => search.csv(&mut &bytes[..], COLUMN, b',', &mut kept),
            made::PARQUET => search.parquet(file(bytes), COLUMN, &mut kept),
            made::ARROW_FILE => search.arrow_file(file(bytes), COLUMN, &mut kept),
            _ => search.arrow_stream(&mut &bytes[..], COLUMN, &mut kept),
        }?;
        Ok((tally.selected, kept))
    })
}

fn file(bytes: &[u8]) -> File {
    let file = tempfile::tempfile_in("/dev/shm").or_else(|_| tempfile::tempfile());
    let mut file = file.expect("a temporary file");
    file.write_all(bytes).expect("room");
    file.seek(SeekFrom::Start(0)).expect("a file");
    file
}
