//! Workload files: what is wrong is named with its key and what is allowed.

use overside_model::{Task, Workload};
use proptest::prelude::*;

const GOOD: &str = "schema = \"workload/1\"\nrate = \"1 GB/s\"\n";
const STAGE: &str = "[[stages]]\ndo = \"copy\"\n";

fn refused(text: &str) -> String {
    Workload::parse("w.toml", text).unwrap_err().to_string()
}

#[test]
fn what_is_wrong_is_named_with_what_is_allowed() {
    for (text, said) in [
        ("schema = 1", "schema: not such a text"),
        ("schema = \"box/1\"", "it is \"workload/1\""),
        ("nonsense", "no TOML"),
        (GOOD, "stages: missing"),
        (&format!("{GOOD}stages = []"), "1 to 16 stages"),
        (&format!("{GOOD}stages = [1]"), "stages.0: no table"),
        (
            &format!("rat = 1\n{GOOD}{STAGE}"),
            "rat: no such key; did you mean \"rate\"?",
        ),
        (
            &format!("schema = \"workload/1\"\nrate = \"-4 Gb/s\"\n{STAGE}"),
            "rate: not \"-4 Gb/s\"",
        ),
        (
            &format!("schema = \"workload/1\"\nrate = \"4 MiB\"\n{STAGE}"),
            "as \"40 Gb/s\"",
        ),
        (
            &format!("schema = \"workload/1\"\nrate = \"1e99 Gb/s\"\n{STAGE}"),
            "from 1000 to",
        ),
        (
            &format!("schema = \"workload/1\"\nrate = \"nan Gb/s\"\n{STAGE}"),
            "rate: not",
        ),
        (
            &format!("schema = \"workload/1\"\nrate = [\"2 GB/s\", \"1 GB/s\"]\n{STAGE}"),
            "low end is above",
        ),
        (
            &format!("schema = \"workload/1\"\n{STAGE}"),
            "rate: missing",
        ),
        (
            &format!("{GOOD}[[stages]]\ndo = \"decompres-zstd\""),
            "did you mean \"decompress-zstd\"?",
        ),
        (
            &format!("{GOOD}{STAGE}ratio = 0.5"),
            "stages.0.ratio: copy has none",
        ),
        (
            &format!("{GOOD}{STAGE}keep = 1.5"),
            "stages.0.keep: not 1.5; from 0 to 1",
        ),
        (&format!("{GOOD}{STAGE}keep = 0"), "nothing goes on"),
        (
            &format!("{GOOD}[[stages]]\ndo = \"match-count\""),
            "stages.0.patterns: missing",
        ),
        (
            &format!("{GOOD}[[stages]]\ndo = \"match-count\"\nlike = \"a\"\npatterns = [\"b\"]"),
            "one of the two",
        ),
        (
            &format!("{GOOD}[[stages]]\ndo = \"match-count\"\npatterns = []"),
            "1 to 64",
        ),
        (
            &format!("{GOOD}{STAGE}[host]\ncores = 0"),
            "host.cores: not 0; a whole number from 1",
        ),
        (
            &format!("{GOOD}{STAGE}[host]\ncores = 2.5"),
            "host.cores: not 2.5",
        ),
        (&format!("cards = -1\n{GOOD}{STAGE}"), "cards: not -1"),
        (&format!("host = 3\n{GOOD}{STAGE}"), "host: no table"),
        (
            &format!("{GOOD}{STAGE}[network]\nrate = \"1 GB/s\""),
            "no stage sends",
        ),
        (
            &format!("{GOOD}{STAGE}[prices]\nenergy_kwh = 0.3"),
            "nothing takes any",
        ),
        (
            &format!("{GOOD}{STAGE}[prices]\nyears = 0"),
            "from 0.1 to 30",
        ),
        (
            &format!("{GOOD}{STAGE}[watts]\ncard = 1e6"),
            "watts.card: not 1000000",
        ),
    ] {
        let error = refused(text);
        assert!(error.contains(said), "{text}\n  {error}");
        assert!(error.starts_with("w.toml: "), "{error}");
    }
    assert!(refused(&"#".repeat(300_000)).contains("at most 262144 bytes"));
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
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
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
