//! Tests of the box format, through its public interface.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use overside_config::Error;
use overside_measure::boxes::{self, TESTS_MAX, TEXT_BYTES_MAX};
use proptest::prelude::*;
use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn problems(text: &str) -> Vec<Error> {
    boxes::parse(text).expect_err("this box is not valid")
}

/// The problems as a user would see them, one a line.
fn shown(text: &str) -> String {
    problems(text).iter().fold(String::new(), |mut lines, problem| {
        writeln!(lines, "{problem}").expect("a string takes all");
        lines
    })
}

/// Compares with `snapshots/boxes__NAME.snap`.
fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// A box of one task with these parameters.
fn with_parameters(parameters: &Value) -> String {
    json!({"schema": "box/1", "name": "b", "tasks": [{"task": "copy", "parameters": parameters}]})
        .to_string()
}

fn axis(parameters: &Value, name: &str) -> Value {
    let parsed = boxes::parse_json(&with_parameters(parameters)).expect("a valid box");
    let parsed: Value = serde_json::from_str(&parsed).expect("JSON");
    parsed["tasks"][0]["parameters"][name].clone()
}

const DEFLATE_SIZES: &str = r#"{"schema": "box/1", "name": "deflate-sizes", "seed": 7,
 "tasks": [{"task": "compress",
            "parameters": {"device": ["cpu", "emulated:bf2"], "variant": ["isal", "zlib"], "level": 1,
                           "buffer_size": {"pow2": [12, 24]}, "depth": 16, "batch": 16,
                           "setting": ["static", "reconfiguration"], "data": "silesia"},
            "exclude": [{"device": "emulated:bf2", "variant": "zlib"}],
            "metrics": ["throughput", "latency_p99"]}],
 "nodes": ["local"],
 "measure": {"rounds": 6, "warmup_s": 0.1, "sample_s": 0.2, "max_s": 60, "target_interval": 0.05}}"#;

#[test]
fn a_box_is_read_with_its_axes_as_lists_in_written_order() {
    snapshot("parsed", &boxes::parse_json(DEFLATE_SIZES).expect("a valid box"));
}

#[test]
fn what_a_box_leaves_out_has_its_default() {
    let least = r#"{"schema": "box/1", "name": "least", "tasks": [{"task": "copy"}]}"#;
    snapshot("defaults", &boxes::parse_json(least).expect("a valid box"));
}

#[test]
fn a_parsed_box_is_a_box_again() {
    let parsed = boxes::parse(DEFLATE_SIZES).expect("a valid box");
    let mut again = serde_json::to_value(&parsed).expect("JSON");
    again.as_object_mut().expect("an object").remove("warnings");
    // Through a `Value` the order of the parameters is lost, their values are not.
    let again = boxes::parse(&again.to_string()).expect("a valid box");
    assert_eq!(again.measure, parsed.measure);
    for (name, values) in &parsed.tasks[0].parameters.0 {
        assert!(again.tasks[0].parameters.0.contains(&(name.clone(), values.clone())), "{name}");
    }
}

#[test]
fn lists_mix_values_and_ranges_and_hold_lists_as_values() {
    let parameters = json!({
        "buffer_size": [1000, {"pow2": [10, 12]}, 1e6],
        "patterns": [["a", "b"], ["c"], []],
        "single": [["a", 1, true]],
    });
    assert_eq!(axis(&parameters, "buffer_size"), json!([1000, 1024, 2048, 4096, 1e6]));
    assert_eq!(axis(&parameters, "patterns"), json!([["a", "b"], ["c"], []]));
    assert_eq!(axis(&parameters, "single"), json!([["a", 1, true]]));
    assert_eq!(axis(&json!({"n": {"pow2": [40, 40]}}), "n"), json!([1_u64 << 40]));
}

#[test]
fn a_byte_order_mark_and_an_editors_schema_are_accepted() {
    let text = "\u{feff}{\"$schema\": \"../docs/measure/box.schema.json\", \"schema\": \"box/1\",
        \"name\": \"n\", \"tasks\": [{\"task\": \"copy\"}]}";
    assert_eq!(boxes::parse(text).expect("a valid box").name, "n");
}

#[test]
fn all_that_the_format_forbids_is_told_at_once() {
    snapshot(
        "forbidden",
        &shown(
            r#"{"schema": "box/2", "name": "two words", "sed": 7, "description": 1,
            "tasks": [
              {"task": "compress", "parmeters": {"device": "cpu"},
               "parameters": {"level": null, "size": {"pow3": [1, 2]}, "depth": {"pow2": [1]},
                              "batch": {"pow2": [0, 41]}, "variant": [], "mixed": ["a", null],
                              "deep": [["a", ["b"]]], "a/b~c": 1, "data": "é"},
               "metrics": ["throughput", "throughput", 3]},
              {"parameters": {}},
              "copy"
            ],
            "nodes": [],
            "measure": {"rounds": 0, "warmup_s": -1, "sample_s": 0, "max_s": 1e9,
                        "target_interval": "5 s", "treshold": 0.1, "round": 6.5}}"#,
        ),
    );
}

#[test]
fn what_the_parts_say_of_each_other_is_told_at_once() {
    snapshot(
        "contradictions",
        &shown(
            r#"{"schema": "box/1", "name": "n", "tasks": [
             {"task": "compress",
              "parameters": {"device": ["cpu", "cpu"], "depth": {"pow2": [4, 2]},
                             "size": [4096, {"pow2": [12, 13]}, 8192.0],
                             "patterns": [["a"], ["a"]]},
              "exclude": [{"devcie": "cpu"}, {}]},
             {"task": "copy",
              "parameters": {"a": {"pow2": [0, 40]}, "b": {"pow2": [0, 40]}, "c": {"pow2": [0, 40]},
                             "d": {"pow2": [0, 40]}}}]}"#,
        ),
    );
}

#[test]
fn the_json_of_problems_has_place_message_and_suggestion() {
    let text = r#"{"schema": "box/1", "name": "n", "tasks": [{"taks": "copy"}]}"#;
    snapshot("json", &boxes::parse_json(text).expect_err("not valid"));
}

#[test]
fn an_exclusion_that_meets_nothing_is_a_warning() {
    let text = r#"{"schema": "box/1", "name": "n", "tasks": [{"task": "copy",
        "parameters": {"device": ["cpu", "emulated:bf2"], "depth": [1, 2]},
        "exclude": [{"device": "emulated:bf3", "depth": 4}, {"depth": 1.0}]}]}"#;
    let warnings = boxes::parse(text).expect("a valid box").warnings;
    let shown: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    snapshot("warnings", &shown.join("\n"));
}

#[test]
fn syntax_errors_have_line_and_column() {
    let cases = [
        "",
        "{",
        "{\"schema\": \"box/1\",\n  \"name\": \"n\",\n}",
        "{\"schema\": \"box/1\"}\n{}",
        "{'schema': 1}",
        "[1, 2",
        "{\"seed\": 1e999}",
        "{\"name\": \"\\ud800\"}",
        "// a comment\n{}",
        "nan",
    ];
    let told: Vec<_> =
        cases.iter().map(|text| format!("{text:?}\n  {}", shown(text).trim_end())).collect();
    snapshot("syntax", &told.join("\n"));
}

#[test]
fn repeated_keys_are_told_with_their_places() {
    snapshot(
        "repeated",
        &shown(
            r#"{"schema": "box/1", "name": "n", "name": "m",
            "tasks": [{"task": "copy", "parameters": {"depth": 1, "depth": 2, "a/b": 1, "a/b": 1}}]}"#,
        ),
    );
}

#[test]
fn hostile_sizes_are_refused() {
    let keys: String = (0..100).map(|key| format!(r#""k{key}": 1,"#)).collect();
    let keys = format!(r#"{{"a": 1, {} "b": 1}}"#, keys);
    let keys = with_parameters(&serde_json::from_str(&keys).expect("JSON"));
    for (text, words) in [
        (
            format!("\"{}\"", "x".repeat(TEXT_BYTES_MAX as usize)),
            "longer than 4194304 bytes; at most 4 MiB are read",
        ),
        ("[".repeat(100_000), "nested more than 16 deep"),
        (r#"{"a":"#.repeat(100_000), "nested more than 16 deep"),
        (format!("[{}1]", "1,".repeat(600_000)), "more than 500000 values"),
        (keys, "102 keys are too many"),
    ] {
        let told = problems(&text)[0].to_string();
        assert!(told.contains(words), "{told}");
    }
    let wrong = vec![json!({}); 1000];
    let text = json!({"schema": "box/1", "name": "b", "tasks": wrong}).to_string();
    let all = problems(&text);
    assert_eq!(all.len(), 101);
    assert_eq!(all[100].problem, "and 900 more problems");
}

#[test]
fn the_number_of_tests_is_bounded_in_a_task_and_in_all() {
    let values: Vec<u64> = (0..TESTS_MAX).collect();
    assert!(boxes::parse(&with_parameters(&json!({"n": values}))).is_ok());
    let told = shown(&with_parameters(&json!({"n": values, "m": [1, 2]})));
    assert_eq!(
        told,
        "line 1, column 40: /tasks/0/parameters: 200000 tests are too many, the most is 100000\n"
    );
    let task = json!({"task": "copy", "parameters": {"n": &values[..60_000]}});
    let text = json!({"schema": "box/1", "name": "b", "tasks": [task, task]}).to_string();
    assert_eq!(
        shown(&text),
        "line 1, column 30: /tasks: 120000 tests in all are too many, the most is 100000\n"
    );
}

#[test]
fn suggestions_are_close_words_only() {
    let known = ["throughput", "latency_p99", "latency_p50", "ratio", "cpu_seconds"];
    let suggest = |word: &str| overside_config::suggest(word, &known);
    assert_eq!(suggest("troughput").as_deref(), Some("throughput"));
    assert_eq!(suggest("Latency-P99").as_deref(), Some("latency_p99"));
    assert_eq!(suggest("latency_p9").as_deref(), Some("latency_p99"));
    assert_eq!(suggest("thr").as_deref(), Some("throughput"));
    assert_eq!(suggest("latency"), None, "two begin with it");
    assert_eq!(suggest("bandwidth"), None);
    assert_eq!(suggest(""), None);
    assert_eq!(suggest(&"x".repeat(1_000_000)), None);
    assert_eq!(
        overside_config::suggest("a", &["b"]),
        None,
        "a word of one letter is close to any other"
    );
    assert_eq!(overside_config::suggest::<&str>("a", &[]), None);
}

#[test]
fn the_published_schema_is_up_to_date() {
    let path = root().join("docs/measure/box.schema.json");
    let schema = boxes::schema();
    if std::env::var_os("OVERSIDE_WRITE_SCHEMA").is_some() {
        std::fs::write(&path, &schema).expect("docs can be written");
    }
    let published = std::fs::read_to_string(&path).expect("docs/measure/box.schema.json");
    let value = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    assert_eq!(
        value(&published),
        value(&schema),
        "write it anew: OVERSIDE_WRITE_SCHEMA=1 cargo test -p overside-measure --test boxes"
    );
}

#[test]
fn the_boxes_that_are_shipped_are_valid_and_named_like_their_files() {
    let mut names = Vec::new();
    let folders = ["boxes", "boxes/figures"].map(|name| root().join(name));
    for entry in folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("boxes")) {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read_to_string(&path).expect("text");
            let parsed = boxes::parse(&text).unwrap_or_else(|all| panic!("{path:?}: {all:?}"));
            assert_eq!(parsed.warnings, [], "{path:?}");
            assert_eq!(Some(parsed.name.as_str()), path.file_stem().and_then(|stem| stem.to_str()));
            assert!(!parsed.description.is_empty(), "{path:?} says what it is for");
            names.push(parsed.name);
        }
    }
    assert!(names.contains(&"quick".to_string()), "{names:?}");
}

#[test]
fn the_fuzz_corpus_is_read_without_panic() {
    let corpus = root().join("fuzz/corpus/box");
    let mut count = 0;
    for entry in std::fs::read_dir(&corpus).expect("the corpus is in the repository") {
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("a file");
        let text = String::from_utf8_lossy(&bytes);
        if let Err(problems) = boxes::parse(&text) {
            assert!(!problems.is_empty());
        }
        count += 1;
    }
    assert!(count >= 10, "{count} files");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~é]{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["box/1", "copy", "cpu", "local"]).prop_map(Value::from),
    ];
    let key = prop_oneof![
        prop::sample::select(vec![
            "schema",
            "name",
            "seed",
            "tasks",
            "task",
            "parameters",
            "exclude",
            "metrics",
            "nodes",
            "measure",
            "rounds",
            "sample_s",
            "pow2",
            "device",
            "description",
        ])
        .prop_map(String::from),
        "[a-z~/]{0,6}",
    ];
    leaf.prop_recursive(8, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_box_or_a_list_of_problems(text in "\\PC{0,200}") {
        if let Err(problems) = boxes::parse(&text) {
            prop_assert!(!problems.is_empty());
        }
    }

    #[test]
    fn any_json_is_a_box_or_has_problems_at_places_that_exist(value in any_json()) {
        let text = json!({"schema": "box/1", "name": "n", "tasks": [{"task": "t", "parameters": value}],
                          "measure": value}).to_string();
        for text in [value.to_string(), text] {
            let whole: Value = serde_json::from_str(&text).expect("JSON");
            let told = boxes::parse(&text).err().unwrap_or_default();
            for problem in told {
                prop_assert!(whole.pointer(&problem.key).is_some(), "{problem:?} in {text}");
            }
        }
    }

    #[test]
    fn a_box_with_bytes_changed_never_panics(
        at in prop::collection::vec((0..DEFLATE_SIZES.len(), "[ -~]"), 1..4)
    ) {
        let mut text = DEFLATE_SIZES.to_owned();
        for (place, character) in at {
            text.replace_range(place..=place, &character);
        }
        if let Err(problems) = boxes::parse(&text) {
            prop_assert!(!problems.is_empty());
        }
    }

    #[test]
    fn the_product_of_the_axes_is_what_was_written(
        counts in prop::collection::vec(1_usize..9, 0..6)
    ) {
        let parameters: serde_json::Map<String, Value> = counts.iter().enumerate()
            .map(|(axis, count)| (format!("p{axis}"), (0..*count).collect()))
            .collect();
        let parsed = boxes::parse(&with_parameters(&parameters.into()));
        let product: usize = counts.iter().product();
        let parsed = if product as u64 > TESTS_MAX {
            prop_assert!(parsed.is_err());
            return Ok(());
        } else {
            parsed.expect("a valid box")
        };
        let expanded: usize = parsed.tasks[0].parameters.0.iter().map(|(_, all)| all.len()).product();
        prop_assert_eq!(expanded, product);
    }
}
