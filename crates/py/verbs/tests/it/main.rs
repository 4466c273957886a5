//! The verbs as they are typed, and what Python receives.

use std::ffi::OsString;

use clap::{Command, Subcommand};
use overside_python_verbs::{FlowVerb, Verb, parse};
use serde_json::{Value, json};

fn answer(line: &str) -> Value {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    parse(&words).1
}

fn values(line: &str) -> Value {
    let answer = answer(line);
    assert!(answer["values"].is_object(), "{line}: {answer}");
    answer["values"].clone()
}

#[test]
fn python_receives_each_value_under_its_name() {
    let run = values(
        "run quick --set a=1 --filter task=copy --set b=2 --node x,,y --timeout 2min --card-mode sm2 -qv",
    );
    let expected = json!({
        "verb": "run", "box": "quick", "set": ["a=1", "b=2"], "filter": [["task", "copy"]],
        "node": ["x", "y"], "resume": null, "out": {"$path": "results"}, "name": null,
        "json": false, "json_lines": false, "seed": null, "timeout": 120.0,
        "card_mode": "on-path-2", "strict": false, "allow_scripts": false, "sandbox": false,
        "quiet": true, "log": "warn", "log_format": null, "log_file": null,
    });
    assert_eq!(run, expected);
    let data = values("data make --seed 7 noise logs --again --log info,link=debug");
    assert_eq!(data["verb"], "data");
    assert_eq!(data["action"], "make");
    assert_eq!((&data["names"], &data["seed"]), (&json!(["noise", "logs"]), &json!(7)));
    assert_eq!(data["log"], "info,overside_link=debug");
    assert_eq!(values("report")["run"], json!({"$run": "@"}));
    assert_eq!(values("compare a --threshold 10%")["threshold"], 0.1);
    assert_eq!(values("facts deflate --json bf2")["words"], json!(["deflate", "bf2"]));
    let served = values("flow serve-table a=b --listen [::1]:80 --metrics 127.0.0.1 --memory 1GiB");
    assert_eq!((&served["verb"], &served["action"]), (&json!("flow"), &json!("serve-table")));
    assert_eq!(served["tables"], json!([["a", {"$path": "b"}]]));
    assert_eq!(served["listen"], json!(["::1", 80]));
    assert_eq!(served["metrics"], json!(["127.0.0.1", 31337]));
    assert_eq!(served["memory"], 1 << 30);
}

#[test]
fn wrong_values_are_refused_with_a_remedy() {
    for (line, said) in [
        ("run --filtr a=b", "a similar argument exists: '--filter'"),
        ("run a b", "unexpected argument 'b' found"),
        ("data maek x", "a similar subcommand exists: 'make'"),
        ("list taks", "possible values: tasks, variants, boxes, profiles, data"),
        ("run --name .x", "it is no name"),
        ("run --filter depth", "not KEY=GLOB"),
        ("run --card-mode SM6", "possible values: off-path, on-path-1"),
        ("run --json --json-lines", "cannot be used with '--json-lines'"),
        ("run --timeout 0", "from 0.001 to 604800 seconds"),
        ("run --seed -1", "'-1'"),
        ("run --seed 9007199254740992", "9007199254740992 is not in 0..=9007199254740991"),
        ("clean --older-than=nan", "not a number of days"),
        ("clean --older-than=-1", "not a number of days"),
        ("compare a b --threshold=-5%", "not a share"),
        ("advise --price-card 0", "not a price"),
        ("advise --size 0", "it is from 1 to"),
        ("flow serve-table 1a=b", "not NAME=PATH"),
        ("flow serve-table", "<NAME=PATH>..."),
        ("flow serve-table a=b --listen here:80", "not an address like"),
        ("list tasks --log wran", "is no log level"),
    ] {
        let answer = answer(line);
        let wrong = &answer["wrong"];
        let text = format!("{} {}", wrong["message"], wrong["remedy"]);
        assert!(text.contains(said), "{line}: {answer}");
        let verb = line.split(' ').next().unwrap_or_default();
        assert!(text.contains(&format!("`overside {verb} --help` lists")), "{line}: {answer}");
        assert!(!text.contains("\\n"), "{line}: {answer}");
    }
}

#[test]
fn help_and_its_absence_are_told_apart() {
    assert!(answer("run --help")["help"].as_str().is_some_and(|help| help.contains("--resume")));
    for (line, about) in [
        ("run --help", "Run a box and write its report\n"),
        ("facts --help", "Search published figures"),
        ("data make --help", "Make data sets from a seed\n"),
        ("flow serve-table --help", "Serve Parquet and Arrow files"),
    ] {
        let answer = answer(line);
        let help = answer["help"].as_str().unwrap_or_default();
        assert!(help.starts_with(about) && help.contains("\nLogging:\n"), "{help}");
    }
    assert!(answer("--version")["help"].is_string());
    assert!(answer("")["incomplete"].is_string());
    assert!(answer("data")["incomplete"].is_string());
    assert_eq!(parse(&["run".into()]).0.as_deref(), Some("run"));
    assert_eq!(parse(&["rum".into()]).0, None);
}

/// All verbs that do something, by the words that name them.
fn walk(name: &str, command: &Command, found: &mut Vec<(String, String)>) {
    let mut own = command.get_subcommands().peekable();
    if own.peek().is_none() {
        let examples = command.get_after_help().map(ToString::to_string);
        found.push((name.to_owned(), examples.unwrap_or_default()));
    }
    for verb in own {
        walk(&format!("{name} {}", verb.get_name()), verb, found);
    }
}

#[test]
fn every_verb_has_examples_that_can_be_typed() {
    let mut found = Vec::new();
    walk("overside", &Verb::augment_subcommands(Command::new("overside")), &mut found);
    walk("overside flow", &FlowVerb::augment_subcommands(Command::new("flow")), &mut found);
    assert!(found.len() > 25);
    for (verb, examples) in found {
        let mut lines = examples.lines();
        assert_eq!(lines.next(), Some("Examples:"), "{verb}");
        let mut count = 0;
        for line in lines {
            assert!(line.len() <= 80, "{line}");
            let command = line.trim().split("  ").next().unwrap_or_default();
            assert!(command.starts_with(&verb), "{line}");
            values(command.strip_prefix("overside").unwrap_or_default());
            count += 1;
        }
        assert!(count > 0, "{verb}");
    }
}
