//! Workload files: errors name the key and the allowed values.

use overside_model::{Task, Workload};
use proptest::prelude::*;

use crate::ask::refusals;

const GOOD: &str = "schema = \"workload/1\"\nrate = \"1 GB/s\"\n";
const STAGE: &str = "[[stages]]\ndo = \"copy\"\n";

fn refused(text: &str) -> String {
    Workload::parse("w.toml", text).unwrap_err().to_string()
}

#[test]
fn what_is_wrong_is_named_with_what_is_allowed() {
    let cases = [
        "schema = 1",
        "schema = \"box/1\"",
        "nonsense",
        GOOD,
        &format!("{GOOD}stages = []"),
        &format!("{GOOD}stages = [1]"),
        &format!("rat = 1\n{GOOD}{STAGE}"),
        &format!("schema = \"workload/1\"\nrate = \"-4 Gb/s\"\n{STAGE}"),
        &format!("schema = \"workload/1\"\nrate = \"4 MiB\"\n{STAGE}"),
        &format!("schema = \"workload/1\"\nrate = \"1e99 Gb/s\"\n{STAGE}"),
        &format!("schema = \"workload/1\"\nrate = \"nan Gb/s\"\n{STAGE}"),
        &format!("schema = \"workload/1\"\nrate = [\"2 GB/s\", \"1 GB/s\"]\n{STAGE}"),
        &format!("schema = \"workload/1\"\n{STAGE}"),
        &format!("{GOOD}[[stages]]\ndo = \"decompres-zstd\""),
        &format!("{GOOD}{STAGE}ratio = 0.5"),
        &format!("{GOOD}{STAGE}keep = 1.5"),
        &format!("{GOOD}{STAGE}keep = 0"),
        &format!("{GOOD}[[stages]]\ndo = \"match-count\""),
        &format!("{GOOD}[[stages]]\ndo = \"match-count\"\nlike = \"a\"\npatterns = [\"b\"]"),
        &format!("{GOOD}[[stages]]\ndo = \"match-count\"\npatterns = []"),
        &format!("{GOOD}{STAGE}[host]\ncores = 0"),
        &format!("{GOOD}{STAGE}[host]\ncores = 2.5"),
        &format!("cards = -1\n{GOOD}{STAGE}"),
        &format!("host = 3\n{GOOD}{STAGE}"),
        &format!("{GOOD}{STAGE}[network]\nrate = \"1 GB/s\""),
        &format!("{GOOD}{STAGE}[prices]\nenergy_kwh = 0.3"),
        &format!("{GOOD}{STAGE}[prices]\nyears = 0"),
        &format!("{GOOD}{STAGE}[watts]\ncard = 1e6"),
    ];
    let cases = cases.map(|text| (text.to_owned(), refused(text)));
    insta::assert_snapshot!(refusals(cases));
    let long = refused(&"#".repeat(300_000));
    assert!(long.contains("longer than 262144 bytes; at most 256 KiB are read"));
}

#[test]
fn like_becomes_an_expression() {
    let patterns = |like: &str| {
        let text = format!("{GOOD}[[stages]]\ndo = \"match-count\"\nlike = '{like}'");
        Workload::parse("w", &text).unwrap().stages[0].patterns[0].clone()
    };
    assert_eq!(patterns("%green%"), "green");
    assert_eq!(patterns("a.b%"), "^a\\.b");
    assert_eq!(patterns("%x_y"), "x.y$");
    assert_eq!(patterns("special%requests"), "^special.*requests$");
}

#[test]
fn the_workloads_that_come_with_it_are_right() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../workloads");
    let mut seen = 0;
    for entry in std::fs::read_dir(here).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let workload = Workload::parse(&path.display().to_string(), &text).unwrap();
        assert!(workload.stages.iter().any(|stage| stage.task != Task::Send));
        seen += 1;
    }
    assert!(seen >= 3);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}", key in "[a-z_]{1,8}", value in "\\PC{0,40}") {
        let _ = Workload::parse("w", &text);
        let _ = Workload::parse("w", &format!("{GOOD}{key} = {value}\n{STAGE}"));
        let _ = Workload::parse("w", &format!("{GOOD}{STAGE}{key} = {value}\n"));
    }
}
