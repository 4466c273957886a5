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
        ("schema = 1", "w.toml:1:1: schema: 1 is not known"),
        ("schema = \"box/1\"", "write schema = \"workload/1\""),
        ("nonsense", "not TOML"),
        (GOOD, "stages: missing"),
        (
            &format!("{GOOD}stages = []"),
            "stages: 0 stages; 1 to 16 stages",
        ),
        (&format!("{GOOD}stages = [1]"), "stages.0: not 1; a table"),
        (
            &format!("rat = 1\n{GOOD}{STAGE}"),
            "w.toml:1:1: rat: no such key; there are: ",
        ),
        (
            &format!("schema = \"workload/1\"\nrate = \"-4 Gb/s\"\n{STAGE}"),
            "w.toml:2:1: rate: -500 MB/s is out of range; from 1.00 kB/s to 10.0 TB/s",
        ),
        (
            &format!("schema = \"workload/1\"\nrate = \"4 MiB\"\n{STAGE}"),
            "not \"4 MiB\"; text as in \"40 Gb/s\", or two",
        ),
        (
            &format!("schema = \"workload/1\"\nrate = \"1e99 Gb/s\"\n{STAGE}"),
            "from 1.00 kB/s to 10.0 TB/s",
        ),
        (
            &format!("schema = \"workload/1\"\nrate = \"nan Gb/s\"\n{STAGE}"),
            "rate: not \"nan Gb/s\"",
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
            "w.toml:5:1: stages.0.keep: 1.5 is out of range; from 0 to 1",
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
            "1 to 64 regular expressions",
        ),
        (
            &format!("{GOOD}{STAGE}[host]\ncores = 0"),
            "host.cores: 0 is out of range; from 1 to 65536",
        ),
        (
            &format!("{GOOD}{STAGE}[host]\ncores = 2.5"),
            "host.cores: not 2.5; a whole number, 0 or more",
        ),
        (
            &format!("cards = -1\n{GOOD}{STAGE}"),
            "cards: not -1; a whole number, 0 or more",
        ),
        (&format!("host = 3\n{GOOD}{STAGE}"), "host: not 3; a table"),
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
            "watts.card: 1000000 is out of range; from 0 to 5000",
        ),
    ] {
        let error = refused(text);
        assert!(error.contains(said), "{text}\n  {error}");
        assert!(error.starts_with("w.toml:"), "{error}");
    }
    assert!(
        refused(&"#".repeat(300_000))
            .contains("longer than 262144 bytes; at most 256 KiB are read")
    );
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
