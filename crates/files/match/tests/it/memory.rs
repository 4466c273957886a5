//! Tests of searches in the caller's memory.

use crate::common;

use std::io;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, StringArray};
use arrow_schema::DataType;
use common::{Kept, bluefield, options, placements, selected};
use overside_device::ExternalBytes;
use overside_match::{Answer, Error, Search, SelectedRecord, Sink};

/// Checks if matches lie in a range of addresses.
struct Within(Range<usize>, u64);

impl Sink for Within {
    fn found(&mut self, found: SelectedRecord<'_>) -> io::Result<bool> {
        let value = found.value.unwrap();
        let begin = value.as_ptr() as usize;
        assert!(self.0.contains(&begin) && begin + value.len() <= self.0.end);
        self.1 += 1;
        Ok(true)
    }
}

#[test]
fn memory_is_read_where_it_is() {
    let text: Arc<[u8]> = b"on I-70\noff\n".repeat(100_000).into();
    for policy in placements() {
        let mut options = options(&["^on"], Answer::Records);
        options.devices = vec![bluefield()];
        options.policy = policy;
        let mut search = Search::new(options).unwrap();
        let addresses = text.as_ptr_range();
        let mut within = Within(addresses.start as usize..addresses.end as usize, 0);
        let tally = search.memory(ExternalBytes::new(Arc::clone(&text)), &mut within).unwrap();
        assert_eq!((tally, within.1), (selected(100_000), 100_000), "{policy}");
    }
}

#[test]
fn a_line_that_is_too_long_ends_the_search() {
    let mut options = options(&["x"], Answer::Count);
    options.chunk_bytes = 16;
    options.record_bytes_max = 100;
    let text = [&b"a\n"[..], &[b'x'; 101], b"\n"].concat();
    let result = Search::new(options).unwrap().memory(ExternalBytes::new(text), &mut ());
    let Err(Error::TooLong { place, max_bytes: 100 }) = result else {
        panic!("{result:?}");
    };
    assert_eq!(place, "line that begins at byte 2");
}

#[test]
fn arrays_are_parts_of_one_column() {
    let strings = |values: &[Option<&str>]| -> ArrayRef {
        Arc::new(values.iter().copied().collect::<StringArray>())
    };
    let arrays = [strings(&[Some("on"), None]), strings(&[]), strings(&[Some("off"), Some("on")])];
    let mut search = Search::new(options(&["^on"], Answer::Records)).unwrap();
    let mut kept = Kept::default();
    let all = arrays.map(Ok);
    let tally = search.arrays(&DataType::Utf8, all, &mut kept).unwrap();
    assert_eq!((tally.selected, tally.without_value), (2, 1));
    let numbers: Vec<u64> = kept.records.iter().map(|record| record.0).collect();
    assert_eq!(numbers, [1, 4]);

    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let mixed = [Ok(strings(&[Some("on")])), Ok(Arc::clone(&numbers))];
    let error = search.arrays(&DataType::Utf8, mixed, &mut ()).unwrap_err();
    assert!(matches!(error, Error::Format(_)), "{error}");
    let error = search.arrays(numbers.data_type(), [], &mut ()).unwrap_err();
    assert!(matches!(error, Error::ColumnType { .. }), "{error}");
    let broken = [Err(Error::Format("the source broke".into()))];
    let error = search.arrays(&DataType::Utf8, broken, &mut ()).unwrap_err();
    assert_eq!(error.to_string(), "the source broke");
}
