//! Records around selected ones, limits on how many are selected, and the scope of a match.

use crate::common;

use std::io::{self, Read};

use common::{Kept, Oracle, Record, options};
use overside_device::ExternalBytes;
use overside_match::{Answer, Context, Error, Input, MatchScope, Search, SelectedRecord, Sink};
use proptest::prelude::*;

/// Records that the sink got, each with `true` if it was selected.
#[derive(Debug, Default, PartialEq)]
struct Around(Vec<(bool, Record)>);

impl Around {
    fn keep(&mut self, selected: bool, record: SelectedRecord<'_>) {
        let value = record.value.map(<[u8]>::to_vec);
        self.0.push((selected, (record.number, record.offset, value)));
    }
}

impl Sink for Around {
    fn found(&mut self, found: SelectedRecord<'_>) -> io::Result<bool> {
        self.keep(true, found);
        Ok(true)
    }

    fn context(&mut self, record: SelectedRecord<'_>) -> io::Result<()> {
        self.keep(false, record);
        Ok(())
    }
}

/// Returns the records that must be printed. Like grep, it continues with the context after the last record
/// that may be selected.
fn around(all: &[Record], selected: &[Record], context: Context, max: Option<u64>) -> Around {
    let most = max.map_or(selected.len(), |max| selected.len().min(max as usize));
    let selected = &selected[..most];
    let near = |number: u64| {
        selected.iter().any(|(of, ..)| {
            (number < *of && of - number <= context.before as u64)
                || (number > *of && number - of <= context.after as u64)
        })
    };
    let pick = |record: &Record| {
        let is_selected = selected.contains(record);
        (is_selected || near(record.0)).then(|| (is_selected, record.clone()))
    };
    Around(all.iter().filter_map(pick).collect())
}

fn options_of(pattern: &str, context: Context, max: Option<u64>) -> overside_match::Options {
    let mut options = options(&[pattern], Answer::Records);
    options.numbers = false;
    options.context = context;
    options.records_max = max;
    options
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn records_around_selected_ones_are_handed_out(
        text in prop::collection::vec(prop::sample::select(b"abbbb\n\n\n".to_vec()), 0..300),
        invert in any::<bool>(),
        (before, after) in (0..5usize, 0..5usize),
        max in prop::option::of(0..4u64),
        chunk in prop::sample::select(vec![1usize, 2, 7, 16, 1000]),
    ) {
        let context = Context { before, after };
        let oracle = Oracle::new(&["a"]);
        let all = Oracle::new(&[""]).lines(&text, false);
        let mut expected = around(&all, &oracle.lines(&text, invert), context, max);
        if !context.is_wanted() {
            // Numbers were not requested.
            for (_, record) in &mut expected.0 {
                record.0 = 0;
            }
        }
        let mut options = options_of("a", context, max);
        options.invert = invert;
        options.chunk_bytes = chunk;
        let mut search = Search::new(options).unwrap();
        let mut found = Around::default();
        let summary = search.text(&mut &text[..], &mut found).unwrap();
        prop_assert_eq!(&found, &expected);
        let selected = expected.0.iter().filter(|(selected, _)| *selected).count();
        prop_assert_eq!(summary.selected, selected as u64);
        let mut found = Around::default();
        search.memory(ExternalBytes::new(text.clone()), &mut found).unwrap();
        prop_assert_eq!(&found, &expected);
    }

    #[test]
    fn records_that_end_in_a_zero_byte_are_lines(
        text in prop::collection::vec(prop::sample::select(b"aab\n \xff".to_vec()), 0..300),
        invert in any::<bool>(),
        chunk in prop::sample::select(vec![1usize, 7, 1000]),
    ) {
        let mut options = options(&["a.?b"], Answer::Records);
        options.invert = invert;
        options.chunk_bytes = chunk;
        let mut search = Search::new(options).unwrap();
        let mut lines = Kept::default();
        search.text(&mut &text[..], &mut lines).unwrap();
        let swap = |byte: &u8| if *byte == b'\n' { 0 } else { *byte };
        let swapped: Vec<u8> = text.iter().map(swap).collect();
        let mut records = Kept::default();
        search.null_data(&mut &swapped[..], &mut records).unwrap();
        for record in &mut lines.records {
            record.1 = None;
        }
        prop_assert_eq!(records.records, lines.records);
    }

    #[test]
    fn whole_words_and_records_are_matched_as_their_matches_are_shown(
        text in prop::collection::vec(prop::sample::select(b"aab_ -\n".to_vec()), 0..200),
        pattern in prop::sample::select(vec!["a", "ab", "a|ab", "-a", "a b", "b*", "a$"]),
        scope in prop::sample::select(vec![MatchScope::Words, MatchScope::Record]),
        engine in prop::sample::select(vec!["auto", "regex", "re2"]),
    ) {
        let shown = match scope {
            MatchScope::Words => format!(r"\b{{start-half}}(?:{pattern})\b{{end-half}}"),
            _ => format!("^(?:{pattern})$"),
        };
        let mut options = options(&[pattern], Answer::Records);
        options.scope = scope;
        options.engine = engine.into();
        let mut search = Search::new(options).unwrap();
        let mut found = Kept::default();
        search.text(&mut &text[..], &mut found).unwrap();
        prop_assert_eq!(found.records, Oracle::new(&[&shown]).lines(&text, false));
    }
}

#[test]
fn a_limit_holds_for_counts_and_rows() {
    let text = b"a\n".repeat(1000);
    for (max, expected) in [(0, 0), (1, 1), (999, 999), (5000, 1000)] {
        for answer in [Answer::Count, Answer::Records] {
            let mut options = options(&["a"], answer);
            options.records_max = Some(max);
            options.chunk_bytes = 16;
            let mut search = Search::new(options).unwrap();
            let lines = search.text(&mut &text[..], &mut ()).unwrap();
            let csv = [&b"c\n"[..], &text].concat();
            let rows = search.csv(&mut &csv[..], "c", b',', &mut ()).unwrap();
            assert_eq!((lines.selected, rows.selected), (expected, expected), "{max} {answer:?}");
        }
    }
}

#[test]
fn rows_have_neighbors_too() {
    let context = Context { before: 1, after: 0 };
    let mut search = Search::new(options_of("x", context, None)).unwrap();
    let mut found = Around::default();
    let csv = b"c\na\n\"b\nb\"\nx\n";
    search.csv(&mut &csv[..], "c", b',', &mut found).unwrap();
    let record = |number, text: &[u8]| (number, None, Some(text.to_vec()));
    assert_eq!(found.0, [(false, record(2, b"b\nb")), (true, record(3, b"x"))]);
}

#[test]
fn what_is_held_back_is_bounded() {
    let context = Context { before: 1000, after: 0 };
    let mut options = options_of("x", context, None);
    options.record_bytes_max = 64 << 10;
    let text = [&b"y".repeat(1000)[..], b"\n"].concat().repeat(100);
    let error = Search::new(options).unwrap().text(&mut &text[..], &mut ()).unwrap_err();
    assert!(matches!(error, Error::TooLong { .. }), "{error}");
}

#[test]
fn what_was_read_before_a_failure_is_searched() {
    struct Failing<'a>(&'a [u8]);
    impl Read for Failing<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::Error::other("the disk is gone")),
                read => Ok(read),
            }
        }
    }
    impl Input for Failing<'_> {}
    let mut search = Search::new(options(&["a"], Answer::Records)).unwrap();
    for is_text in [true, false] {
        let mut found = Kept::default();
        let error = match is_text {
            true => search.text(&mut Failing(b"a\nb\nab"), &mut found),
            false => search.null_data(&mut Failing(b"a\0b\0ab"), &mut found),
        };
        assert_eq!(error.unwrap_err().to_string(), "the disk is gone");
        assert_eq!(found.records.len(), 2);
    }
}

#[test]
fn something_around_a_pattern_makes_none_of_what_is_none() {
    let mut options = options(&["a)(b"], Answer::Count);
    options.scope = MatchScope::Words;
    assert!(Search::new(options.clone()).is_err());
    options.fixed_strings = true;
    let mut search = Search::new(options).unwrap();
    let summary = search.text(&mut &b"a)(b\nab\nxa)(b\n"[..], &mut ()).unwrap();
    assert_eq!(summary.selected, 1);
}
