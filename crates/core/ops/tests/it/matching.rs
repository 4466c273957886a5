//! Tests of matching: all engines give the same answer, record by record.

use crate::common;

use common::checks::matching_agrees;
use common::{config, names};
use overside_ops::{Error, MatchKind, Operation, Output, prepare, try_matchers, variants};
use proptest::prelude::*;

/// The four queries over accident descriptions of the published figures.
const ACCIDENT_QUERIES: [&str; 4] =
    ["At (.+)Exit (.+)", "(.+) on (.+) at Exit (.+)", "on (.+) at (.+)", "Ramp to (.+)"];

/// Engine that only takes patterns with a literal in them.
const LITERAL: &str = "literal";

const ACCIDENTS: &str = "\
At I-270/Exit 29 - Accident.
Accident on I-70 Eastbound at Exit 41 OH-4.
Lane blocked on OH-32 at Dela Palma Rd.
Ramp to I-77 Southbound - Accident.
Ramp to
Two lanes blocked due to accident.

Accident on US-35 at ";

fn answer(variant: &str, kind: MatchKind, patterns: &[&str], text: &[u8]) -> (Output, Vec<u8>) {
    let prepared = prepare(&config(Operation::Match(kind), variant, patterns)).unwrap();
    let mut out = vec![0xa5; 100];
    let output = (prepared.kernel().unwrap()).run(&[text], &mut out).unwrap();
    out.truncate(output.written);
    (output, out)
}

/// Returns the number of records that match one pattern, and their bitmap.
fn matching(engine: &str, pattern: &str, text: &[u8]) -> (u64, Vec<u8>) {
    let (output, bits) = answer(engine, MatchKind::Bitmap, &[pattern], text);
    (output.value.unwrap(), bits)
}

/// Returns the offset of the first record that matches; `None` if no record does.
fn first(engine: &str, pattern: &str, text: &[u8]) -> Option<u64> {
    let (output, _) = answer(engine, MatchKind::Search, &[pattern], text);
    assert_eq!(output.written, 0);
    output.value
}

/// Returns the engines that take any patterns.
fn engines() -> Vec<&'static str> {
    let mut names = names(Operation::Match(MatchKind::Count));
    names.retain(|name| *name != LITERAL);
    names
}

fn refusal(variant: &str, patterns: &[&str]) -> Error {
    prepare(&config(Operation::Match(MatchKind::Count), variant, patterns))
        .err()
        .unwrap_or_else(|| panic!("{variant} takes {patterns:?}"))
}

#[test]
fn accident_queries() {
    let text = ACCIDENTS.as_bytes();
    let expected: [(u64, u8); 4] =
        [(1, 0b0000_0001), (1, 0b0000_0010), (2, 0b0000_0110), (1, 0b0000_1000)];
    for engine in engines() {
        for (query, (count, bitmap)) in ACCIDENT_QUERIES.iter().zip(expected) {
            assert_eq!(matching(engine, query, text), (count, vec![bitmap]), "{engine} {query}");
            let before =
                text.split_inclusive(|&b| b == b'\n').take(bitmap.trailing_zeros() as usize);
            let offset = before.map(|record| record.len() as u64).sum();
            assert_eq!(first(engine, query, text), Some(offset), "{engine} {query}");
        }
        let (output, bits) = answer(engine, MatchKind::Bitmap, &ACCIDENT_QUERIES, text);
        assert_eq!((output.value, bits), (Some(4), vec![0b0000_1111]), "{engine}");
    }
    let all = ACCIDENT_QUERIES.map(String::from);
    for text in [text, &text.repeat(500)] {
        assert_eq!(matching_agrees(&all, text), engines().len() + 1);
    }
}

#[test]
fn records_end_at_line_feeds_and_at_the_end() {
    let counts = [
        ("", 0),
        ("\n", 1),
        ("\n\n", 2),
        ("a", 1),
        ("a\n", 1),
        ("a\na", 2),
        ("a\n\na\n", 3),
        ("b\n", 0),
        ("ab\nba\n\n", 1),
    ];
    for engine in engines() {
        for (text, count) in counts {
            assert_eq!(matching(engine, "^a?$", text.as_bytes()).0, count, "{engine} {text:?}");
        }
        assert_eq!(matching(engine, "a", b""), (0, Vec::new()), "{engine}");
        let text = b"a\nb\na\nb\na\nb\na\nb\na\nb";
        assert_eq!(matching(engine, "a", text), (5, vec![0b0101_0101, 0b01]), "{engine}");
        assert_eq!(first(engine, "c", text), None, "{engine}");
    }
}

#[test]
fn patterns_see_bytes_and_no_line_feed() {
    let cases: [(&str, &[u8], u64); 10] = [
        (r"a[^b]b", b"a\nb\naxb", 1),
        (r"(?s)a.b", b"a\nb\na\xffb", 1),
        (r"a\sb", b"a\nb\na b", 1),
        (r"a\n?b", b"a\nb\nab", 1),
        (r"a\nb", b"a\nb\nab", 0),
        (r"\xff", b"\xfe\n\xff", 1),
        ("é", "e\né".as_bytes(), 1),
        ("é+", "éé".as_bytes(), 1),
        (r"^\xc3.$", "é\nè\ne".as_bytes(), 2),
        (r"\x00", b"a\0b\nab", 1),
    ];
    for (pattern, text, expected) in cases {
        for engine in engines() {
            assert_eq!(matching(engine, pattern, text).0, expected, "{engine} {pattern:?}");
        }
        let taken = matching_agrees(&[pattern.into()], text);
        assert!(taken >= engines().len(), "{pattern:?}");
    }
}

#[test]
fn patterns_of_every_construct_agree() {
    #[rustfmt::skip]
    let patterns = [
        "", "a*", ".*", ".+", "^", "$", "^$", r"\b", r"\B", r"^\b", r"\b$", r"a\b", r"\Ba", "^a|b$",
        "(?:^a|b)c", "a(?:$|b)", r"\Aab", r"ab\z", "a{2}", "a{2,}", "a{1,3}b", "a{0,2}$",
        "(ab|ba)+c", "(a|b)*abb", "[a-c]{3}$", "^[^a]+$", "(?i)AB", "(?i:a)B", "a.c", "a.?c",
        "(?x) a b # comment", "a+?b", "(?U)a+b", r"\w+ \w+", r"\d|\W", r"^\s+", r"[[:alpha:]]b",
        "(a*)*b", "(a|)*b", "(^a)*b", "a||b", "()", "(|a)+$", r"[\x00-\xff]{2}", "x*$", "(?:x+)+$",
        "^(?:x?)+b", "^(?:x*)?$", "^(?:(?:x+)?)*b", "^(?:x{2})+$", "^(x?){2}b",
        "^a+++++++++++++++++++++++++++++++b", "^x*", "a.*b.*c", ".*a.*", "^.*a", "(?:a|b.*)",
        "b.*$", "^.b", "[^a-c]",
    ];
    let texts: [&[u8]; 4] = [
        b"",
        b"a\nb\n\nab\nba\nabc\naab b\nc\n",
        b"AB\nabb\nbab\naXc\n a b\n\n\nABAB 12\ncccc",
        b"\n\xff\0a\n aa aaa aaaa b\nabcabc\nxxa",
    ];
    for pattern in patterns {
        for text in texts {
            let taken = matching_agrees(&[pattern.into()], text);
            assert!(taken >= engines().len(), "{pattern:?}");
        }
    }
}

#[test]
fn matches_that_are_reported_out_of_order_count_once() {
    // Hyperscan reports the end of `c` before the word boundary in front of it.
    for text in ["c", "c\n", "a c\nb\nc"] {
        let taken = matching_agrees(&["c".into(), r"\b".into()], text.as_bytes());
        assert_eq!(taken, engines().len());
    }
}

#[test]
fn patterns_that_need_no_engine_say_so() {
    let every = "no engine needed: every record matches";
    let none = "no engine needed: no record can match";
    for variant in variants(Operation::Match(MatchKind::Count)) {
        let title = format!("{} {}", variant.library, variant.version);
        let cases: [(&[&str], &str); 5] = [
            (&[".*"], every),
            (&["a", "x?"], every),
            (&[r"a\nb"], none),
            (&["a", r"\n"], &title),
            (&["a"], &title),
        ];
        for (patterns, title) in cases {
            let count = Operation::Match(MatchKind::Count);
            let prepared = prepare(&config(count, variant.name, patterns)).unwrap();
            assert_eq!(prepared.variant().title(), title, "{patterns:?}");
            assert_eq!(prepared.variant().name, variant.name);
        }
    }
}

#[test]
fn what_an_engine_cannot_do_is_refused_with_a_reason() {
    for engine in engines() {
        assert_eq!(refusal(engine, &[]), Error::NoPattern);
        let reasons = [
            ("(", "unclosed group"),
            ("a(?=b)", "look-around"),
            (r"(a)\1", "backreferences are not supported"),
            (r"\p{Greek}", "Unicode"),
            ("(?u)é+[^é]", "Unicode"),
            (r"\b{start}a", "not supported"),
            ("(?mR)a$", "not supported"),
            ("a{1001}", "too large"),
            ("(?:a{40}){40}", "too large"),
        ];
        for (pattern, reason) in reasons {
            match refusal(engine, &["fine", pattern]) {
                Error::Pattern { pattern: named, reason: said } => {
                    assert_eq!(named, pattern);
                    assert!(said.contains(reason), "{engine} {pattern:?}: {said}");
                }
                other => panic!("{engine} {pattern:?}: {other}"),
            }
        }
        let long = "a".repeat(1001);
        let many = vec!["a"; 1001];
        let deep = "(".repeat(200) + &")".repeat(200);
        let growing = vec!["[ab]{900}c"; 30];
        for patterns in [&[&long[..]][..], &many, &[&deep], &growing] {
            let error = refusal(engine, patterns);
            assert!(matches!(error, Error::Pattern { .. }), "{engine}: {error}");
            assert!(error.to_string().len() < 1000);
        }
    }
}

/// Returns patterns that Hyperscan does not support or takes too long to compile.
fn not_for_hyperscan() -> Vec<(Vec<&'static str>, &'static str)> {
    vec![
        (vec!["c^|[ab]"], "anchor"),
        (vec!["x*($c|[ab])"], "anchor"),
        (vec!["[xy](((((((((((((.[ab])+.)+.)+.)+.)+.)+.)+.)+.)+.)+.)+.)+[ab])+[xy]"], "too deep"),
        (vec!["[ab]{900}c"; 3], "too large"),
        (vec!["[ab].+(c|d)?[ef]"; 700], "too large"),
    ]
}

#[test]
fn auto_takes_an_engine_that_takes_the_patterns_and_says_so() {
    let count = Operation::Match(MatchKind::Count);
    for (patterns, reason) in not_for_hyperscan() {
        let prepared = prepare(&config(count, "auto", &patterns)).unwrap();
        let output = prepared.kernel().unwrap().run(&[b"ab\nxb\n"], &mut []);
        assert!(output.is_ok());
        if !engines().contains(&"hyperscan") {
            continue;
        }
        assert_eq!(prepared.variant().name, "regex", "{:?}", patterns[0]);
        let because = prepared.variant().because.clone().unwrap();
        let error = refusal("hyperscan", &patterns).to_string();
        assert!(error.to_lowercase().contains(reason), "{error}");
        let expected = format!("hyperscan does not take the patterns: {error}");
        assert_eq!(because, expected);
        assert_eq!(
            try_matchers(&patterns.iter().map(|&p| p.into()).collect::<Vec<_>>(), b"ab\n")
                .unwrap()
                .times[0]
                .0,
            "regex"
        );
    }
    let because = |variant, pattern| {
        let prepared = prepare(&config(count, variant, &[pattern])).unwrap();
        prepared.variant().because.clone().unwrap_or_default()
    };
    assert!(because("auto", "on .+ at").contains("literals"));
    assert!(because("auto", "[a-c]+").contains("any pattern"));
    // There was no choice, or nothing to choose for.
    assert_eq!(because("regex", "[a-c]+"), "");
    assert_eq!(because("auto", ".*"), "");
    let error = prepare(&config(count, "auto", &["("])).map(drop).unwrap_err();
    assert!(matches!(error, Error::Pattern { .. }), "{error}");
}

#[test]
fn matches_are_reported_with_their_groups() {
    let text = ACCIDENTS.as_bytes();
    let groups = |variant: &str, patterns: &[&str], text: &[u8]| {
        let (output, bytes) = answer(variant, MatchKind::Groups, patterns, text);
        let numbers = bytes.chunks_exact(4).map(|four| {
            let number = u32::from_le_bytes(four.try_into().unwrap());
            number.cast_signed()
        });
        (output.value.unwrap(), numbers.collect::<Vec<_>>())
    };
    let record = text.iter().position(|&byte| byte == b'\n').unwrap() as i32 + 1;
    for engine in names(Operation::Match(MatchKind::Groups)) {
        // "Accident on I-70 Eastbound at Exit 41 OH-4."
        let places = [0, 43, 0, 8, 12, 26, 35, 43].map(|at| record + at);
        let expected = [vec![0], places.to_vec()].concat();
        let found = groups(engine, &["(.+) on (.+) at Exit (.+)"], text);
        assert_eq!(found, (1, expected), "{engine}");
        // By pattern: the second one's groups follow its own number.
        let found = groups(engine, &["(x)?ab", "cd(?:(e)|f)"], b"ab\n cdf\ncde");
        let expected = vec![0, 0, 2, -1, -1, 1, 4, 7, -1, -1, 1, 8, 11, 10, 11];
        assert_eq!(found, (3, expected), "{engine}");
    }
    let literal = config(Operation::Match(MatchKind::Groups), "literal", &["ab"]);
    let title = prepare(&literal).unwrap().variant().title();
    assert!(title.starts_with("memchr and Rust regex"), "{title}");
}

#[test]
fn a_bitmap_needs_room() {
    for engine in engines() {
        let config = config(Operation::Match(MatchKind::Bitmap), engine, &["a"]);
        let mut kernel = prepare(&config).unwrap().kernel().unwrap();
        let text = b"a\n".repeat(9);
        let error = kernel.run(&[&text], &mut [0; 1]).unwrap_err();
        assert_eq!(error, Error::OutputTooSmall { capacity: 1 });
        let mut bits = [0xa5; 3];
        let output = kernel.run(&[&text], &mut bits).unwrap();
        assert_eq!((output.written, output.value), (2, Some(9)));
        assert_eq!(bits, [0xff, 0x01, 0xa5]);
    }
}

#[test]
fn literals_are_found_with_what_stands_around_them() {
    let patterns: [&[&str]; 17] = [
        &["ab"],
        &["ab.*ba"],
        &["ab.+ba"],
        &["ab.{3,}ba"],
        &[".ab"],
        &["..ab.+b.+c.."],
        &["ab.ba"],
        &["ab.?ba"],
        &["ab.{2,3}ba"],
        &["^ab.*c"],
        &["ab.*c$"],
        &["a[bc]+c"],
        &[r"ab\b.*ca"],
        &["ab", "ba", "cc"],
        &["abc", ".b.+c", "^c"],
        &["a", "a.*b", "a.*c.*a"],
        &["a.*a.*a", "[^a]b"],
    ];
    let texts: [&[u8]; 8] = [
        b"",
        b"ab",
        b"\nab\n",
        b"ab\nba\nabba\nababa\nab ba",
        b"cabbc\nabxbxcx\nxabxbxcxx\nxxabxbxcxx\nxxabxabxbxcxx\n",
        b"xabxcab\nab\nba\ncc\nabab\naab b ca\nab c\nabc\xff\n",
        b"bab\nbbab\ncacbaca\naa a\nbb\ncb\nabxxxba\nabxxba",
        b"ab.ba\nabba\nab\nba\n\n\nab\n\nab.ba.ab.ba",
    ];
    for patterns in patterns {
        let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
        for text in texts {
            let taken = matching_agrees(&patterns, text);
            assert_eq!(taken, engines().len() + 1, "{patterns:?}");
            matching_agrees(&patterns, &text.repeat(100));
        }
    }
    for patterns in [&["[ab]+c?"][..], &["ab", "[ab]"], &["a|b"], &["a"; 9]] {
        let error = refusal(LITERAL, patterns);
        assert!(error.to_string().contains(LITERAL), "{error}");
    }
}

#[test]
fn one_long_record_takes_no_more_than_its_length_to_search() {
    // In front of each occurrence of a literal another required one is missing. In the sample, `c` is not rare.
    let text = "c\n".repeat(20_000) + &"ab".repeat(1 << 20);
    for pattern in ["c.*ab", "ab.*c", "b.*ab.*c.*ab", "c.{9,}ab", "abx?.*c", ".{9}c.*ab"] {
        let (output, _) = answer(LITERAL, MatchKind::Count, &[pattern], text.as_bytes());
        assert_eq!(output.value, Some(0), "{pattern}");
    }
}

#[test]
fn auto_goes_by_the_patterns_and_a_trial_by_the_data() {
    let chosen = |patterns: &[&str]| {
        let config = config(Operation::Match(MatchKind::Count), "auto", patterns);
        prepare(&config).unwrap().variant().clone()
    };
    for query in ACCIDENT_QUERIES {
        assert_eq!(chosen(&[query]).name, LITERAL, "{query}");
    }
    assert!(chosen(&["Exit [0-9]+"]).title().contains("and Rust regex"));
    assert!(engines().contains(&chosen(&["[0-9]+[a-z]"]).name));
    assert!(engines().contains(&chosen(&["a"; 9]).name));

    let patterns = ["Exit [0-9]+".to_string()];
    let trial = try_matchers(&patterns, &ACCIDENTS.as_bytes().repeat(100)).unwrap();
    let tried: Vec<_> = trial.times.iter().map(|(name, _)| *name).collect();
    assert_eq!(tried.len(), engines().len() + 1, "{tried:?}");
    assert!(tried.contains(&trial.variant));
    let trial = try_matchers(&[".*".into()], b"x").unwrap();
    assert!(trial.times.is_empty(), "no engine is needed");
    assert!(try_matchers(&["(".into()], b"x").is_err());
}

/// Makes patterns over a small alphabet, so that they match often.
fn pattern() -> impl Strategy<Value = String> {
    let atom = prop_oneof![
        6 => "[abc ]",
        1 => Just(".".to_string()),
        1 => Just("[^a]".to_string()),
        1 => Just("[ab]".to_string()),
        1 => Just(r"\w".to_string()),
        1 => Just(r"\s".to_string()),
        1 => Just(r"\b".to_string()),
        1 => Just("^".to_string()),
        1 => Just("$".to_string()),
        1 => Just(r"\n".to_string()),
    ];
    atom.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            1 => prop::collection::vec(inner.clone(), 1..4)
                .prop_map(|parts| format!("({})", parts.join("|"))),
            2 => (inner, "[*+?]|\\{2\\}|\\{1,3\\}|\\{2,\\}")
                .prop_map(|(node, count)| format!("(?:{node}){count}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn literals_with_gaps_agree_on_any_text(
        patterns in prop::collection::vec("(\\^|\\.)?([abc]{1,2}(\\.\\*|\\.\\+|\\.|\\.\\{2,\\}|c\\?)){1,4}[ab]?", 1..4),
        text in prop::collection::vec(prop::sample::select(b"aaabbbccx\n".to_vec()), 0..200),
    ) {
        assert_eq!(matching_agrees(&patterns, &text), engines().len() + 1);
    }

    #[test]
    fn any_patterns_agree_on_any_text(
        patterns in prop::collection::vec(pattern(), 1..4),
        text in prop::collection::vec(prop::sample::select(b"aabbc  \nX\xff".to_vec()), 0..120),
    ) {
        matching_agrees(&patterns, &text);
    }
}
