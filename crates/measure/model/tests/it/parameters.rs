//! Tests of the values that profiles may give in `[values]` and `[tables]`, and of the messages for
//! all others.

use overside_config::Error;
use overside_model::{Dimension, PARAMETERS, Parameter, Profile, Step, profiles_with};

use crate::ask::refusals;

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
    with(r#""stream.copy" = { value = 2, unit = "GB/s", citation = "c" }"#, "").unwrap();
}

#[test]
fn each_mistake_is_named_with_its_key_and_what_is_allowed() {
    let cases = [
        ("cpu.croes", "value = 8, unit = 'count'"),
        ("stream.copy.fast", "value = 8, unit = 'GB/s'"),
        ("Cpu.cores", "value = 8, unit = 'count'"),
        ("cpu.cores", "value = 0, unit = 'count'"),
        ("cpu.cores", "value = -4, unit = 'count'"),
        ("cpu.cores", "value = 1e9, unit = 'count'"),
        ("cpu.cores", "value = nan, unit = 'count'"),
        ("cpu.cores", "value = 8, unit = 'GB/s'"),
        ("cpu.clock", "value = 3, unit = 'MHz'"),
        ("cpu.cores", "low = 9, value = 8, unit = 'count'"),
        ("cpu.cores", "low = 9, unit = 'count'"),
    ];
    let found = cases.map(|(name, rest)| {
        let line = format!("\"{name}\" = {{ {rest}, citation = \"c\" }}");
        (line.clone(), messages(&line, "").join("\n    "))
    });
    insta::assert_snapshot!(refusals(found));
}

#[test]
fn tables_depend_on_what_they_may_at_whole_increasing_points() {
    let cases = [
        ("cpu.clock", "cores", "[1]", "[2]"),
        ("stream.copy", "bytes", "[1, 2]", "[1, 2]"),
        ("stream.copy", "cores", "[2, 1]", "[1, 2]"),
        ("stream.copy", "cores", "[0, 1]", "[1, 2]"),
        ("stream.copy", "cores", "[1.5]", "[1]"),
        ("stream.copy", "cores", "[1, 2]", "[1]"),
        ("stream.copy", "cores", "[]", "[]"),
        ("stream.copy", "cores", "[1, 2]", "[1, -2]"),
        ("stream.copy", "cores", "[1, 2]", "[1, inf]"),
    ];
    let found = cases.map(|(name, by, at, value)| {
        let unit = if name == "cpu.clock" { "GHz" } else { "GB/s" };
        let line = format!(
            "\"{name}\" = {{ by = \"{by}\", at = {at}, value = {value}, unit = \"{unit}\", citation = \"c\" }}"
        );
        (line.clone(), messages("", &line).join("\n    "))
    });
    insta::assert_snapshot!(refusals(found));
}

#[test]
fn values_that_cannot_both_be_true_are_named() {
    let table = |last: u32| {
        format!(
            "\"stream.copy\" = {{ by = \"cores\", at = [1, {last}], value = [2, 6], unit = \"GB/s\", citation = \"c\" }}"
        )
    };
    let number = |name: &str, value: u32, unit: &str| {
        format!("\"{name}\" = {{ value = {value}, unit = \"{unit}\", citation = \"c\" }}\n")
    };
    let cache = number("memory.l3", 32, "GB") + &number("memory.size", 16, "GB");
    let threads = format!("{CORES}\n{}", number("cpu.threads", 4, "count"));
    let found = [
        (CORES.to_owned(), table(16)),
        (threads, String::new()),
        (number("stream.copy", 2, "GB/s"), table(2)),
        (cache, String::new()),
    ]
    .map(|(values, tables)| {
        let found = messages(&values, &tables).join("\n    ");
        (format!("{values}\n{tables}"), found)
    });
    insta::assert_snapshot!(refusals(found));
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
        assert!(!one.about.is_empty() && !one.dimensions.is_empty(), "{}", one.name);
        let name = one.name.replace("**", "some.thing").replace('*', "some");
        assert!(one.covers(&name), "{name}");
        // A line that an earlier one hides would never be used.
        let first = PARAMETERS.iter().position(|other| other.covers(&name)).unwrap();
        assert_eq!(first, at, "{} is hidden by {}", one.name, PARAMETERS[first].name);
        if let Some((low, high)) = one.range {
            assert!(0.0 <= low && low < high, "{}", one.name);
        }
        // One way to get it, or another.
        assert_ne!(one.measured_by.is_some(), !one.otherwise.is_empty(), "{}", one.name);
    }
    assert!(Parameter::of("cpu.cores").unwrap().dimensions.contains(&Dimension::Count));
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
        let again = Profile::parse(&file, &text).unwrap();
        // Written are the numbers, and not which figures they are.
        assert_eq!(again.to_toml(), text);
        assert_eq!(Profile::parse(&file, &again.to_toml()).unwrap(), again, "{text}");
    }
}

#[test]
fn what_is_missing_is_listed_with_what_measures_it() {
    let bf2 = overside_model::profile("bf2").unwrap();
    let gaps = bf2.gaps();
    let per_job = gaps.iter().find(|gap| gap.key == "operations.compress-deflate.per_job").unwrap();
    assert_eq!(per_job.measured_by, Some(Step::Jobs));
    assert!(!gaps.iter().any(|gap| gap.key == "cpu.cores"), "it is known");
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
    let absent = overside_model::profile("/nowhere/x.toml").unwrap_err().to_string();
    assert!(absent.contains("/nowhere/x.toml"), "{absent}");
    let meant = overside_model::profile("bf2-200").unwrap_err().to_string();
    assert!(meant.contains("did you mean \"bf2-200g\""), "{meant}");
}
