//! What profiles may say in `[values]` and `[tables]`, and what they are told otherwise.

use overside_config::Error;
use overside_model::{Dimension, PARAMETERS, Parameter, Profile, Step, profiles_with};

/// A profile with these lines in `[values]` and `[tables]`.
fn with(values: &str, tables: &str) -> Result<Profile, Vec<Error>> {
    let text = format!(
        "schema = \"profile/1\"\nname = \"x\"\ncard = \"c\"\nhost_link = \"l\"\nmode = \"m\"\n\
         [sources]\n[facts]\n[device]\n[values]\n{values}\n[tables]\n{tables}\n"
    );
    Profile::check("x.toml", &text)
}

fn messages(values: &str, tables: &str) -> Vec<String> {
    let errors = with(values, tables).expect_err(values);
    errors.iter().map(ToString::to_string).collect()
}

const CORES: &str = r#""cpu.cores" = { value = 8, unit = "count", citation = "c" }"#;

#[test]
fn what_is_registered_is_taken() {
    let table = r#""stream.copy" = { by = "cores", at = [1, 8], value = [2, 6], unit = "GB/s", citation = "c" }"#;
    let profile = with(CORES, table).unwrap();
    assert!(profile.operations.is_empty());
    assert!(profile.evidence().get("stream.copy").is_some());
    assert!(profile.why_not_emulated().unwrap().contains('x'));
    // One number may stand for a table.
    with(
        r#""stream.copy" = { value = 2, unit = "GB/s", citation = "c" }"#,
        "",
    )
    .unwrap();
}

#[test]
fn each_mistake_is_named_with_its_key_and_what_is_allowed() {
    let number = |name: &str, rest: &str| format!("\"{name}\" = {{ {rest}, citation = \"c\" }}");
    let cases = [
        (
            number("cpu.croes", "value = 8, unit = \"count\""),
            "values.cpu.croes",
            "did you mean \"cpu.cores\"",
        ),
        (
            number("stream.copy.fast", "value = 8, unit = \"GB/s\""),
            "values.stream.copy.fast",
            "no parameter",
        ),
        (
            number("Cpu.cores", "value = 8, unit = \"count\""),
            "values.Cpu.cores",
            "no parameter",
        ),
        (
            number("cpu.cores", "value = 0, unit = \"count\""),
            "values.cpu.cores",
            "allowed: 1 to 10000",
        ),
        (
            number("cpu.cores", "value = -4, unit = \"count\""),
            "values.cpu.cores",
            "allowed: 1 to 10000",
        ),
        (
            number("cpu.cores", "value = 1e9, unit = \"count\""),
            "values.cpu.cores",
            "too large",
        ),
        (
            number("cpu.cores", "value = nan, unit = \"count\""),
            "values.cpu.cores",
            "not a positive number",
        ),
        (
            number("cpu.cores", "value = 8, unit = \"GB/s\""),
            "values.cpu.cores",
            "use count or %",
        ),
        (
            number("cpu.clock", "value = 3, unit = \"MHz\""),
            "values.cpu.clock",
            "too small; allowed: 10 million a second",
        ),
        (
            number("cpu.cores", "low = 9, value = 8, unit = \"count\""),
            "values.cpu.cores",
            "low <= value <= high",
        ),
        (
            number("cpu.cores", "low = 9, unit = \"count\""),
            "values.cpu.cores",
            "give value",
        ),
    ];
    for (values, key, remedy) in cases {
        let found = messages(&values, "");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(key), "{} should name {key}", found[0]);
        assert!(
            found[0].contains(remedy),
            "{} should say {remedy}",
            found[0]
        );
    }
}

#[test]
fn tables_depend_on_what_they_may_at_whole_increasing_points() {
    let table = |by: &str, at: &str, value: &str| {
        format!(
            "\"stream.copy\" = {{ by = \"{by}\", at = {at}, value = {value}, unit = \"GB/s\", citation = \"c\" }}"
        )
    };
    let cases = [
        (table("bytes", "[1, 2]", "[1, 2]"), "use by = cores"),
        (table("cores", "[2, 1]", "[1, 2]"), "sort the points"),
        (table("cores", "[0, 1]", "[1, 2]"), "whole numbers"),
        (table("cores", "[1.5]", "[1]"), "whole numbers"),
        (table("cores", "[1, 2]", "[1]"), "a value for each"),
        (table("cores", "[]", "[]"), "1 to 256 points"),
        (table("cores", "[1, 2]", "[1, -2]"), "not a positive number"),
        (
            table("cores", "[1, 2]", "[1, inf]"),
            "not a positive number",
        ),
    ];
    for (line, remedy) in cases {
        let found = messages("", &line);
        assert!(
            found.iter().any(|one| one.contains(remedy)),
            "{found:?} should say {remedy}"
        );
        assert!(found[0].contains("tables.stream.copy"), "{found:?}");
    }
    let clock =
        r#""cpu.clock" = { by = "cores", at = [1], value = [2], unit = "GHz", citation = "c" }"#;
    let found = messages("", clock);
    assert!(found[0].contains("give it in [values]"), "{found:?}");
}

#[test]
fn values_that_cannot_both_be_true_are_named() {
    let too_many = r#""stream.copy" = { by = "cores", at = [1, 16], value = [2, 6], unit = "GB/s", citation = "c" }"#;
    let found = messages(CORES, too_many);
    assert!(
        found[0].contains("16 cores at work where there are 8"),
        "{found:?}"
    );
    assert!(found[0].contains("allowed: 1 to 8"), "{found:?}");

    let threads =
        format!("{CORES}\n\"cpu.threads\" = {{ value = 4, unit = \"count\", citation = \"c\" }}");
    let found = messages(&threads, "");
    assert!(
        found[0].contains("values.cpu.threads: 4 threads on 8 cores"),
        "{found:?}"
    );

    let twice = r#""stream.copy" = { value = 2, unit = "GB/s", citation = "c" }"#;
    let table =
        r#""stream.copy" = { by = "cores", at = [1], value = [2], unit = "GB/s", citation = "c" }"#;
    let found = messages(twice, table);
    assert!(
        found[0].contains("tables.stream.copy says it too"),
        "{found:?}"
    );

    let cache = r#"
"memory.l3" = { value = 32, unit = "GB", citation = "c" }
"memory.size" = { value = 16, unit = "GB", citation = "c" }"#;
    let found = messages(cache, "");
    assert!(found[0].contains("values.memory.l3"), "{found:?}");
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let values = r#"
"cpu.croes" = { value = 8, unit = "count", citation = "c" }
"cpu.cores" = { value = 0, unit = "count" }
"cpu.clock" = { value = 1, unit = "GHz", facts = ["a.b"] }"#;
    let found = messages(values, "");
    assert_eq!(found.len(), 4, "{found:#?}");
    let many: String = (0..3000)
        .map(|at| {
            format!("\"compute.x{at}\" = {{ value = 1, unit = \"Gops/s\", citation = \"c\" }}\n")
        })
        .collect();
    assert!(messages(&many, "")[0].contains("at most 2000"));
}

#[test]
fn the_registry_is_sound() {
    for (at, one) in PARAMETERS.iter().enumerate() {
        assert!(
            !one.about.is_empty() && !one.dimensions.is_empty(),
            "{}",
            one.name
        );
        let name = one.name.replace("**", "some.thing").replace('*', "some");
        assert!(one.covers(&name), "{name}");
        // A line that an earlier one hides would never be used.
        let first = PARAMETERS
            .iter()
            .position(|other| other.covers(&name))
            .unwrap();
        assert_eq!(
            first, at,
            "{} is hidden by {}",
            one.name, PARAMETERS[first].name
        );
        if let Some((low, high)) = one.range {
            assert!(0.0 <= low && low < high, "{}", one.name);
        }
        // One way to get it, or another.
        assert_ne!(
            one.measured_by.is_some(),
            !one.otherwise.is_empty(),
            "{}",
            one.name
        );
    }
    assert!(
        Parameter::of("cpu.cores")
            .unwrap()
            .dimensions
            .contains(&Dimension::Count)
    );
    assert!(Parameter::of("cpu").is_none() && Parameter::of("").is_none());
    assert!(Parameter::of("job.cost.copy.poll").unwrap().measured_by == Some(Step::Jobs));
    assert!(Parameter::of("job.cost.copy").is_none());
}

#[test]
fn what_is_not_known_says_how_to_get_it_and_under_which_name() {
    for (name, tool, kind) in [
        ("bf9/dma.copy.latency.poll", "overside calibrate", "copies"),
        ("bf9/rdma.remote.rate", "ib_read_bw", "count or %"),
        ("bf9/rdma.onpath.send.small", "ib_send_lat", "count or %"),
        ("bf9/tcp.core.rate", "iperf3", "Gb/s"),
        ("bf9/pcie.payload", "lspci", "B, KiB"),
        ("bf9/storage.random-read", "fio", "MB/s"),
        ("bf9/kv.dpu-only.rate.ycsb-a", "YCSB", "Mops/s"),
        ("host/index.lookup", "LMDB", "Mops/s"),
    ] {
        let remedy = Parameter::remedy(name);
        let key = name.rsplit('/').next().unwrap();
        for part in [tool, kind, key] {
            assert!(remedy.contains(part), "{remedy} should say {part}");
        }
        assert!(!remedy.contains("bf9/"), "{remedy}");
    }
}

#[test]
fn a_profile_survives_being_written() {
    for profile in profiles_with(None).unwrap() {
        let text = profile.to_toml();
        let file = format!("{}.toml", profile.name);
        assert_eq!(Profile::parse(&file, &text).unwrap(), profile, "{text}");
    }
}

#[test]
fn what_is_missing_is_listed_with_what_measures_it() {
    let bf2 = overside_model::profile("bf2").unwrap();
    let gaps = bf2.gaps();
    let per_job = gaps
        .iter()
        .find(|gap| gap.key == "operations.compress-deflate.per_job")
        .unwrap();
    assert_eq!(per_job.measured_by, Some(Step::Jobs));
    assert!(
        !gaps.iter().any(|gap| gap.key == "cpu.cores"),
        "it is known"
    );
    // Where no engine was measured, there are no operations to lack anything.
    let host = overside_model::profile("host-bitar").unwrap().gaps();
    assert!(host.iter().all(|gap| !gap.key.starts_with("operations.")));
    assert!(host.iter().any(|gap| gap.key.starts_with("stream.")));
}

#[test]
fn a_path_is_taken_for_a_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mine.toml");
    std::fs::write(&path, include_str!("small.toml")).unwrap();
    let name = path.to_str().unwrap();
    assert_eq!(overside_model::profile(name).unwrap().name, "small");
    let absent = overside_model::profile("/nowhere/x.toml")
        .unwrap_err()
        .to_string();
    assert!(absent.contains("/nowhere/x.toml"), "{absent}");
    let meant = overside_model::profile("bf2-200").unwrap_err().to_string();
    assert!(meant.contains("did you mean \"bf2-200g\""), "{meant}");
}
