//! Published facts are found by their subject, and come with notes for a reader.

use overside_model::Basis;
use overside_model::facts::{Facts, FigureText, Query, Use};

fn query(words: &str) -> Query {
    Query { words: words.split_whitespace().map(String::from).collect(), ..Query::default() }
}

#[test]
fn all_words_must_occur_somewhere() {
    let facts = Facts::published();
    let found = facts.search(&query("deflate COMPRESS asic"));
    assert!(found.facts.iter().any(|fact| fact.id == "coproc.comp.asic.bf2"));
    assert!(found.facts.iter().all(|fact| fact.id.starts_with("coproc")));
    assert!(facts.search(&query("deflate unicorn")).facts.is_empty());
    assert_eq!(facts.search(&Query::default()).facts.len(), facts.facts.len());
    // Words of a note and keys inside a fact count too.
    assert!(!facts.search(&query("notebook")).facts.is_empty());
    assert!(!facts.search(&query("SM4-5")).facts.is_empty());
}

#[test]
fn devices_studies_and_uses_narrow_the_search() {
    let facts = Facts::published();
    let of = |device: &str| {
        let asked = Query { device: Some(device.into()), ..query("STREAM copy") };
        facts.search(&asked).facts.len()
    };
    assert!(of("bf2") > 0);
    assert_eq!(of("bf2"), of("BF-2"));
    assert_eq!(of("octeon"), 0);
    let judging = facts.search(&Query {
        paper: Some("dpbento".into()),
        purpose: Some(Use::Validate),
        ..Query::default()
    });
    assert!(judging.facts.len() > 50);
    assert!(judging.facts.iter().all(|fact| fact.purpose == Use::Validate));
    assert!(judging.orderings.is_empty());
    assert!(!facts.search(&query("SM2")).orderings.is_empty());
}

#[test]
fn a_corrected_fact_says_what_is_right_and_what_is_printed() {
    let facts = Facts::published();
    let record = facts.record(facts.get("coproc.rx.q4.buf").unwrap());
    let first = |of: &[FigureText]| format!("{} {}", of[0].value, of[0].unit);
    assert_eq!(first(&record.figures), "51 Gb/s");
    assert_eq!(first(&record.printed), "50 GiB/s");
    assert_eq!(record.figures[0].bytes_per_s, Some([51.0 * 0.125e9; 2]));
    assert_eq!(record.flag, Some("printed wrongly; corrected"));
    assert!(!record.doubtful);
    assert!(record.conditions.starts_with("4096 and 16383 B buffers"));
    let doubtful = facts.record(facts.get("coproc.co.lz4.peak_arm").unwrap());
    assert!(doubtful.doubtful && doubtful.flag.unwrap().contains("orderings only"));
}

#[test]
fn the_side_that_a_rate_counts_is_told() {
    let facts = Facts::published();
    let basis = |id: &str| facts.get(id).unwrap().basis(&facts.meta);
    // Its own conditions.
    assert_eq!(basis("coproc.dec.asic.bf2"), Some(Basis::Compressed));
    assert_eq!(basis("coproc.stage.asic.bf2"), Some(Basis::Compressed));
    assert_eq!(basis("bitar.des.abs"), Some(Basis::Uncompressed));
    // The collection's note: sections 5.6 and 5.7 of the study, and 5.9.
    assert_eq!(basis("coproc.decall.hw.bf2"), Some(Basis::Compressed));
    assert_eq!(basis("coproc.co.dec.f100"), Some(Basis::Uncompressed));
    // What goes into compression is uncompressed whatever the note says of decompression.
    assert_eq!(basis("coproc.comp.asic.bf2"), Some(Basis::Uncompressed));
    assert_eq!(basis("dpbento.str.strcmp.10"), None);
    let record = facts.record(facts.get("coproc.decall.hw.bf2").unwrap());
    assert!(record.notes.iter().any(|(subject, _)| subject == "basis"));
    assert!(record.citation.contains("section 5.7") && record.citation.contains("PVLDB"));
}

#[test]
fn a_file_that_is_no_collection_is_refused() {
    let entry =
        "device: d\n  workload: w\n  metric: m\n  kind: measured\n  use: calibrate\n  paper: p";
    let fact = |id: &str| format!("- id: {id:?}\n  {entry}\n");
    let file = |facts: &str| Facts::parse("mine.yaml", &format!("meta: {{}}\nfacts:\n{facts}"));
    assert!(file(&fact("a.b")).is_ok());
    let refused = |facts: &str, what: &str| {
        let error = file(facts).unwrap_err().to_string();
        assert!(error.contains("mine.yaml") && error.contains(what), "{error}");
    };
    refused(&format!("{}{}", fact("a.b"), fact("a.b")), "\"a.b\" is there twice");
    refused(&fact("a b"), "letters, digits");
    refused(&fact(""), "letters, digits");
    refused(&fact(&"x".repeat(121)), "120");
    refused("- id: a\n", "missing field");
    refused("[[[[", "");
    // Each line holds the line before twenty times.
    let bomb: String = (1..9)
        .map(|at| format!("    k{at}: &a{at} [{}]\n", vec![format!("*a{}", at - 1); 20].join(", ")))
        .collect();
    refused(&format!("- id: a\n  {entry}\n  value:\n    k0: &a0 [1, 1]\n{bomb}"), "repetition");
    assert!(Facts::parse("mine.yaml", &" ".repeat(5 << 20)).is_err());
}

#[test]
fn numbers_that_are_none_are_refused() {
    for value in [".nan", ".inf", "'<nan'", "[1, .inf]", "1e999"] {
        let text = format!(
            "meta: {{}}\nfacts:\n- {{id: a, device: d, workload: w, metric: m, kind: measured, \
             use: calibrate, paper: p, values: {{x: {value}}}}}\n"
        );
        let error = Facts::parse("mine.yaml", &text).unwrap_err().to_string();
        assert!(error.contains("mine.yaml:3:") && error.contains("is no figure"), "{error}");
    }
}
