//! Lines: the matches are those of the `regex` crate line by line, for any chunks, reads and placement.

use crate::common;

use std::io::{self, Read};

use common::{Kept, Oracle, bluefield, options, placements, selected};
use overside_device::ExternalBytes;
use overside_match::{Answer, Error, Input, Search};
use proptest::prelude::*;

const PATTERNS: [&[&str]; 6] =
    [&["ab"], &["a.*b"], &["^$"], &["a$", "^b"], &["[^a]b", "bb+"], &[".*"]];

/// Text that arrives in pieces, with waits between them.
struct Drops<'a> {
    text: &'a [u8],
    most: usize,
    waits: bool,
}

impl Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len().min(self.most);
        self.text.read(&mut buffer[..len])
    }
}

impl Input for Drops<'_> {
    fn waits(&self) -> bool {
        self.waits
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn lines_are_found_however_they_come(
        text in prop::collection::vec(prop::sample::select(b"aabb\n\xff ".to_vec()), 0..400),
        patterns in prop::sample::select(PATTERNS.to_vec()),
        invert in any::<bool>(),
        chunk in prop::sample::select(vec![1usize, 2, 7, 16, 64, 1000]),
        most in 1..50usize,
        waits in any::<bool>(),
    ) {
        let expected = Oracle::new(patterns).lines(&text, invert);
        let search = |answer| {
            let mut options = options(patterns, answer);
            options.invert = invert;
            options.chunk_bytes = chunk;
            Search::new(options).unwrap()
        };
        let mut records = search(Answer::Records);
        // A search serves one input after the other.
        for _ in 0..2 {
            let mut kept = Kept::default();
            let mut input = Drops { text: &text, most, waits };
            let tally = records.text(&mut input, &mut kept).unwrap();
            prop_assert_eq!(tally.selected, expected.len() as u64);
            prop_assert_eq!(&kept.records, &expected);
            let mut kept = Kept::default();
            let tally = records.memory(ExternalBytes::new(text.clone()), &mut kept).unwrap();
            prop_assert_eq!(tally.selected, expected.len() as u64);
            prop_assert_eq!(&kept.records, &expected);
        }
        for answer in [Answer::Count, Answer::Any] {
            let mut search = search(answer);
            let in_stream = search.text(&mut &text[..], &mut ()).unwrap().selected;
            let memory = ExternalBytes::new(text.clone());
            let in_memory = search.memory(memory, &mut ()).unwrap().selected;
            for selected in [in_stream, in_memory] {
                prop_assert_eq!(selected > 0, !expected.is_empty());
                prop_assert!(answer == Answer::Any || selected == expected.len() as u64);
            }
        }
    }
}

/// Lines of all lengths, some of them longer than a BlueField-2 takes.
fn lines() -> Vec<u8> {
    let mut text = Vec::new();
    for number in 0..3000usize {
        let len = match number % 100 {
            7 => 16_384,
            19 => 40_000,
            _ => number % 90,
        };
        text.extend(std::iter::repeat_n(b'x', len));
        if number % 3 == 0 {
            text.extend_from_slice(b" Exit 7");
        }
        text.push(b'\n');
    }
    text
}

#[test]
fn devices_find_the_same_and_long_lines_are_searched_beside_them() {
    let text = lines();
    let expected = Oracle::new(&["x Exit [0-9]$"]).lines(&text, false);
    for policy in placements() {
        let mut options = options(&["x Exit [0-9]$"], Answer::Records);
        options.devices = vec![bluefield()];
        options.policy = policy;
        let mut search = Search::new(options.clone()).unwrap();
        let mut kept = Kept::default();
        let tally = search.text(&mut &text[..], &mut kept).unwrap();
        assert!(kept.records == expected, "{policy}");
        let uses_device = policy.uses_device();
        assert_eq!(tally.long, if uses_device { 60 } else { 0 }, "{policy}");
        let report = search.report().unwrap();
        let chunks = |target: Option<&overside_placement::TargetReport>| {
            target.map_or(0, |target| target.chunks)
        };
        if policy == overside_placement::Policy::Device {
            assert_eq!(chunks(report.cpu.as_ref()), 0, "no chunk ran on the CPU");
            assert!(chunks(report.devices.first()) > 0);
        }
        options.answer = Answer::Count;
        let counted = Search::new(options).unwrap().text(&mut &text[..], &mut ()).unwrap();
        assert_eq!(counted.selected, expected.len() as u64, "{policy}");
    }
}

#[test]
fn a_search_ends_when_no_more_is_wanted_and_can_go_on_with_the_next_input() {
    let text = b"a\n".repeat(1 << 20);
    let mut search = Search::new(options(&["a"], Answer::Records)).unwrap();
    let mut kept = Kept { most: Some(3), ..Kept::default() };
    let tally = search.text(&mut &text[..], &mut kept).unwrap();
    assert_eq!((tally.selected, kept.records.len()), (3, 3));
    let tally = search.text(&mut &b"b\na\n"[..], &mut ()).unwrap();
    assert_eq!(tally, selected(1));
}

#[test]
fn what_is_found_is_handed_out_before_the_input_is_waited_for() {
    struct Slow<'a>(std::slice::Iter<'a, &'a [u8]>);
    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(text) = self.0.next() else {
                return Ok(0);
            };
            buffer[..text.len()].copy_from_slice(text);
            Ok(text.len())
        }
    }
    impl Input for Slow<'_> {
        fn waits(&self) -> bool {
            true
        }
    }
    let pieces: [&[u8]; 3] = [b"abc\nab", b"c\n", b"abc"];
    let mut kept = Kept::default();
    let mut search = Search::new(options(&["abc"], Answer::Records)).unwrap();
    search.text(&mut Slow(pieces.iter()), &mut kept).unwrap();
    assert_eq!(kept.records.len(), 3);
    assert!(kept.idle >= 3, "before each piece");
}

#[test]
fn lines_are_bounded() {
    let mut options = options(&["a"], Answer::Count);
    options.record_bytes_max = 1 << 20;
    let mut search = Search::new(options).unwrap();
    struct Endless;
    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer.fill(0);
            Ok(buffer.len())
        }
    }
    impl Input for Endless {}
    let error = search.text(&mut Endless, &mut ()).unwrap_err();
    assert!(matches!(error, Error::TooLong { .. }), "{error}");
    // The search goes on with other inputs.
    let tally = search.text(&mut &b"a\n"[..], &mut ()).unwrap();
    assert_eq!(tally.selected, 1);
}

#[test]
fn engines_are_tried_on_long_inputs() {
    struct Long<'a>(&'a [u8]);
    impl Read for Long<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }
    impl Input for Long<'_> {
        fn len_bytes(&self) -> Option<u64> {
            Some(1 << 30)
        }
    }
    let text = b"Accident on I-70 at Exit 41.\nRoad closed.\n".repeat(10_000);
    let mut search = Search::new(options(&["on (.+) at"], Answer::Count)).unwrap();
    let tally = search.text(&mut Long(&text), &mut ()).unwrap();
    assert_eq!(tally.selected, 10_000);
    let chosen = search.trial().expect("the input is long").variant;
    let report = search.report().unwrap();
    assert_eq!(report.cpu.unwrap().applied.unwrap().variant, chosen);
    let mut short = Search::new(options(&["on (.+) at"], Answer::Count)).unwrap();
    short.text(&mut &text[..], &mut ()).unwrap();
    assert!(short.trial().is_none());
}

#[test]
fn patterns_are_checked_before_anything_is_read() {
    for (pattern, engine) in [("(", "auto"), ("a", "grep"), ("[ab]", "literal")] {
        let mut options = options(&[pattern], Answer::Count);
        options.engine = engine.into();
        let error = Search::new(options).err().expect("it is refused");
        assert!(matches!(error, Error::Operation(_)), "{error}");
    }
    let mut options = options(&["ROAD.*Closed"], Answer::Count);
    options.ignore_case = true;
    let mut search = Search::new(options).unwrap();
    assert_eq!(search.text(&mut &b"Road closed\n"[..], &mut ()).unwrap(), selected(1));
}
