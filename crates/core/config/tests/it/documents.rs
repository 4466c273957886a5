//! Files are bounded, and errors name the position and the allowed values.

use std::io::Write;

use overside_config::{
    Document, Error, Limits, Number, Rate, Size, Source, Value, parse_yaml, read_text,
};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Settings {
    name: String,
    kind: Option<Kind>,
    rate: Option<Rate>,
    buffer: Option<Size>,
    ratio: Option<Number>,
    count: Option<u32>,
    #[serde(default)]
    stages: Vec<Stage>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Static,
    Adaptive,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Stage {
    keep: f64,
}

const LIMITS: Limits = Limits::bytes(4096);

fn toml(text: &str) -> Result<Settings, Error> {
    Document::toml("s.toml", text, LIMITS)?.read()
}

fn json(text: &str) -> Result<Settings, Error> {
    let document = Document::json("s.json", text, LIMITS);
    document.map_err(|mut all| all.swap_remove(0))?.read()
}

#[test]
fn what_is_wrong_is_named_with_its_position_and_what_is_allowed() {
    for (text, said) in [
        ("name = 3", "s.toml:1:8: name: not 3; text in quotes"),
        ("nam = 'a'", "s.toml:1:1: nam: no such key; there are: name, kind, rate"),
        (
            "name = 'a'\nkind = 'adaptiv'",
            "s.toml:2:8: kind: \"adaptiv\" is not known; there are: static, adaptive; did you mean \"adaptive\"?",
        ),
        ("kind = 'static'", "s.toml:1:1: name: missing"),
        ("name = 'a'\nrate = 'fast'", "s.toml:2:8: rate: not \"fast\"; text as in \"40 Gb/s\""),
        ("name = 'a'\nrate = ['2 GB/s', '1 GB/s']", "rate: its low end is above its high end"),
        ("name = 'a'\nratio = [1, 2, 3]", "ratio: not a list of 3; a number, or two of them"),
        ("name = 'a'\nratio = [[1, 2], 3]", "s.toml:2:10: ratio.0: not a list; a number"),
        ("name = 'a'\nratio = inf", "ratio: not inf"),
        ("name = 'a'\ncount = -1", "s.toml:2:9: count: not -1; a whole number, 0 or more"),
        (
            "name = 'a'\n[[stages]]\nkeep = 1\n[[stages]]\nkep = 1",
            "s.toml:5:1: stages.1.kep: no such key; there are: keep; did you mean \"keep\"?",
        ),
        ("name = 'a'\nname = 'b'", "s.toml:2:1: not TOML: duplicate key"),
        ("name = 1979-05-27", "s.toml:1:8: a date"),
        ("é = ", "s.toml:1:1: not TOML"),
    ] {
        let error = toml(text).unwrap_err().to_string();
        assert!(error.contains(said), "{text}\n  {error}\n  {said}");
    }
    let error =
        json("{\"name\": \"a\",\n \"stages\": [{\"keep\": true}]}").unwrap_err().to_string();
    assert_eq!(error, "s.json:2:22: stages.0.keep: not true; a number");
}

#[test]
fn quantities_are_read_in_base_units() {
    let read =
        toml("name = 'a'\nrate = '40 Gb/s'\nbuffer = ['1 MiB', '4MiB']\nratio = [0, 2]").unwrap();
    assert_eq!(read.rate.unwrap().0.typ, 5e9);
    let buffer = read.buffer.unwrap().0;
    assert_eq!((buffer.low, buffer.typ, buffer.high), (1048576.0, 2097152.0, 4194304.0));
    assert_eq!(read.ratio.unwrap().0.typ, 1.0);
}

#[test]
fn json_keeps_its_order_and_notices_keys_that_stand_twice() {
    let document = Document::json("s.json", "{\"z\": 1, \"a\": [-2, 1.5, null]}", LIMITS).unwrap();
    let Value::Map(entries) = &document.root().value else {
        panic!("an object");
    };
    let keys: Vec<&str> = entries.iter().map(|(key, _)| key.text.as_str()).collect();
    assert_eq!(keys, ["z", "a"]);
    let twice = "{\"a\": {\"x/y\": 1, \"x/y\": 2}, \"a\": 3";
    let errors = Document::json("s.json", twice, LIMITS).unwrap_err();
    let said: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(said[0], "s.json:1:18: /a/x~1y: the key \"x/y\" stands here twice");
    assert_eq!(said[1], "s.json:1:29: /a: the key \"a\" stands here twice");
    assert!(said[2].contains("not JSON: the text ends inside an object"), "{}", said[2]);
}

#[test]
fn errors_find_the_place_of_their_key() {
    let text = "[values]\n\"tcp.rate\" = 1\n[[operations]]\ndoes = ['copy']\n[operations.rate]\nvalue = 2\n";
    let document = Document::toml("p.toml", text, LIMITS).unwrap();
    let line = |key: &str| document.error(key, "", "").position.unwrap().line;
    assert_eq!(line("values.tcp.rate"), 2);
    assert_eq!(line("operations.copy.rate.value"), 6);
    assert_eq!(line("operations.0.does"), 4);
    // What is not there is placed at the last key that is.
    assert_eq!(line("values.tcp.rate.low"), 2);
    let document = Document::json("b.json", "{\"tasks\":\n[{},\n{\"a/b\": 1}]}", LIMITS).unwrap();
    let line = |key: &str| document.error(key, "", "").position.unwrap().line;
    assert_eq!((line("/tasks/1/a~1b"), line("/tasks/0/x"), line("")), (3, 2, 1));
}

#[test]
fn everything_from_outside_is_bounded() {
    let long = "#".repeat(5000);
    for error in [
        toml(&long).unwrap_err(),
        json(&long).unwrap_err(),
        parse_yaml::<String>("y.yaml", &long, 4096).unwrap_err(),
    ] {
        assert!(error.problem.contains("longer than 4096 bytes"), "{error}");
        assert!(error.remedy.contains("4 KiB"), "{error}");
    }
    let deep = Limits::bytes(1 << 20);
    let nested = "[".repeat(100_000);
    let error = &Document::json("d", &nested, deep).unwrap_err()[0];
    assert!(error.problem.contains("nested more than 16 deep"), "{error}");
    let nested = format!("a = {}{}", "[".repeat(40), "]".repeat(40));
    let error = Document::toml("d", &nested, deep).unwrap_err();
    assert!(error.problem.contains("nested more than 16 deep"), "{error}");
    let few = Limits { values: 10, ..deep };
    let many = format!("a = [{}]", "1,".repeat(20));
    let error = Document::toml("d", &many, few).unwrap_err();
    assert!(error.problem.contains("more than 10 values"), "{error}");
    let error = &Document::json("d", &many[4..], few).unwrap_err()[0];
    assert!(error.problem.contains("more than 10 values"), "{error}");
}

#[test]
fn yaml_is_told_with_its_line() {
    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Facts {
        facts: Vec<Kind>,
    }
    let error = parse_yaml::<Facts>("f.yaml", "facts:\n- static\n- fixed\n", 100).unwrap_err();
    assert!(error.to_string().starts_with("f.yaml:3:3: facts[1]: unknown variant"), "{error}");
}

#[test]
fn files_are_read_up_to_a_length() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let read = |bytes_max| read_text(&path, bytes_max, Source::Regular);
    assert!(read(10).unwrap_err().problem.contains("cannot be read"));
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(b"0123456789").unwrap();
    assert_eq!(read(10).unwrap(), "0123456789");
    assert!(read(9).unwrap_err().problem.contains("longer than 9 bytes"));
    file.write_all(b"\n\xff").unwrap();
    assert!(read(20).unwrap_err().problem.contains("not UTF-8, line 2"));
    let error = read_text(directory.path(), 10, Source::Regular).unwrap_err();
    assert!(error.problem.contains("not a regular file"), "{error}");
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}", value in "[\\[\\]{}\",:0-9a-z .\\\\-]{0,60}") {
        let _ = toml(&text);
        let _ = json(&text);
        let _ = toml(&format!("name = {value}"));
        let _ = json(&format!("{{\"name\": {value}}}"));
    }

    #[test]
    fn json_is_what_the_library_takes(text in "[\\[\\]{}\",:0-9eE+.tru \\\\n-]{0,24}") {
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        match Document::json("j", &text, Limits::bytes(1000)) {
            Ok(document) => {
                let ours: serde_json::Value = document.read().unwrap();
                prop_assert_eq!(Some(ours), theirs.ok());
            }
            // Keys that stand twice are refused here alone.
            Err(errors) => prop_assert!(theirs.is_err() || errors[0].problem.contains("twice")),
        }
    }
}
