//! The command as users call it.

use clap::Subcommand;
use overside_testkit::assert_contains;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const COMMAND: &str = env!("CARGO_BIN_EXE_overside");
/// `true` if all optional verbs are built in, as the snapshots expect.
const ALL_VERBS: bool = cfg!(all(feature = "flow", feature = "kv", feature = "measure"));

fn run(arguments: &[&str]) -> Output {
    Command::new(COMMAND)
        .args(arguments)
        .env_remove("OVERSIDE_PYTHON")
        .env("OVERSIDE_AGENTS", "/there/is/none.toml")
        // Sets the width of the help.
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn version_and_help_go_to_stdout() {
    let version = run(&["--version"]);
    assert!(version.status.success());
    assert_eq!(out(&version), format!("overside {}\n", env!("CARGO_PKG_VERSION")));
    let help = run(&["--help"]);
    assert!(help.status.success());
    assert_eq!(out(&help), out(&run(&["help"])));
    if ALL_VERBS {
        insta::assert_snapshot!(out(&help));
    }
}

#[test]
fn a_verb_that_is_not_built_in_says_how_to_get_it() {
    let help = out(&run(&["--help"]));
    for (verb, is_built_in) in [("flow", cfg!(feature = "flow")), ("kv", cfg!(feature = "kv"))] {
        assert_eq!(help.contains(&format!("\n  {verb} ")), is_built_in, "{help}");
        for line in [&[verb, "--help"][..], &["help", verb]] {
            let output = run(line);
            let code = if is_built_in { 0 } else { 3 };
            assert_eq!(output.status.code(), Some(code), "{}", err(&output));
            if !is_built_in {
                assert_contains(err(&output), "cargo build --release -p overside");
            }
        }
    }
}

#[test]
fn without_a_verb_help_goes_to_stderr() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(out(&output).is_empty() && err(&output).contains("Usage:"));
}

#[test]
fn a_stderr_that_nobody_reads_changes_no_exit_code() {
    for (arguments, code) in [(&["rnu"][..], 2), (&[], 2), (&["devices", "--bad"], 2)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = Command::new(COMMAND).args(arguments).stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn an_unknown_verb_is_refused_with_the_closest_one() {
    for (word, meant) in [("rnu", "'run'"), ("devcies", "'devices'"), ("--versoin", "'--version'")]
    {
        let output = run(&[word]);
        assert_eq!(output.status.code(), Some(2));
        assert_contains(err(&output), meant);
        assert!(out(&output).is_empty());
    }
    assert!(err(&run(&["frobnicate"])).contains("--help"));
}

#[test]
fn verbs_of_python_have_modules() {
    let commands = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/overside/commands");
    let verbs = overside_python_verbs::Verb::augment_subcommands(clap::Command::new("overside"));
    for verb in verbs.get_subcommands() {
        let module = commands.join(verb.get_name()).with_extension("py");
        assert!(module.is_file(), "{}", module.display());
    }
}

#[test]
fn verbs_list_their_options() {
    if !ALL_VERBS {
        return;
    }
    let verbs: &[(&str, &[&str])] = &[
        ("agent", &["agent", "--help"]),
        ("agent_keys", &["agent", "keys", "--help"]),
        ("advise", &["advise", "--help"]),
        ("agents", &["agents", "--help"]),
        ("agents_add", &["agents", "add", "--help"]),
        ("completions", &["completions", "--help"]),
        ("compress", &["compress", "file", "-h"]),
        ("data_make", &["help", "data", "make"]),
        ("decompress", &["help", "decompress"]),
        ("devices", &["devices", "--help"]),
        ("facts", &["facts", "--help"]),
        ("flow", &["flow", "--help"]),
        ("flow_bench", &["flow", "bench", "--help"]),
        ("flow_bench_service", &["flow", "bench-service", "--help"]),
        ("flow_enlarge", &["flow", "enlarge", "--help"]),
        ("flow_generate", &["flow", "generate", "--help"]),
        ("flow_partition", &["flow", "partition", "--help"]),
        ("flow_run", &["flow", "run", "--help"]),
        ("flow_serve", &["flow", "serve", "--help"]),
        ("flow_serve_table", &["flow", "serve-table", "--help"]),
        ("flow_suggest_key", &["flow", "suggest-key", "--help"]),
        ("flow_tree", &["flow", "tree", "--help"]),
        ("flow_tree_add", &["flow", "tree", "add", "--help"]),
        ("flow_tree_compact", &["flow", "tree", "compact", "--help"]),
        ("flow_tree_query", &["flow", "tree", "query", "--help"]),
        ("flow_tree_show", &["flow", "tree", "show", "--help"]),
        ("kv", &["kv", "--help"]),
        ("kv_bench", &["kv", "bench", "--help"]),
        ("kv_cluster", &["kv", "cluster", "--help"]),
        ("kv_cluster_move", &["kv", "cluster", "move", "--help"]),
        ("kv_cluster_share", &["kv", "cluster", "share", "--help"]),
        ("kv_cluster_status", &["kv", "cluster", "status", "--help"]),
        ("kv_endpoints", &["kv", "endpoints", "--help"]),
        ("kv_profile", &["kv", "profile", "--help"]),
        ("kv_serve", &["kv", "serve", "--help"]),
        ("manual", &["manual", "--help"]),
        ("match", &["match", "--help"]),
        ("run", &["run", "--help"]),
    ];
    for (name, arguments) in verbs {
        let output = run(arguments);
        assert!(output.status.success() && output.stderr.is_empty());
        insta::assert_snapshot!(format!("help_{name}"), out(&output));
    }
}

/// Removes the lines that differ between machines: the libraries that are installed.
fn without_libraries(text: &str) -> String {
    let strip = |line: &str| match line.split_once("B  ") {
        Some((left, _)) => format!("{left}B  LIBRARIES"),
        None => line.to_string(),
    };
    text.lines().map(strip).collect::<Vec<_>>().join("\n")
}

/// Removes the lines that only appear with DPDK or UCX.
fn without_dpdk_and_ucx(text: &str) -> String {
    let paragraphs = text.split("\n\n");
    let others = paragraphs.filter(|one| !one.starts_with("dpdk:") && !one.starts_with("ucx:"));
    others.collect::<Vec<_>>().join("\n\n")
}

#[test]
fn devices_are_listed_with_what_they_can_do() {
    let output = run(&["devices"]);
    assert!(output.status.success(), "{}", err(&output));
    insta::assert_snapshot!(without_libraries(&without_dpdk_and_ucx(&out(&output))));
}

#[test]
fn devices_are_listed_for_programs() {
    let output = run(&["devices", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(listed["schema"], "devices/1");
    let devices = listed["devices"].as_array().unwrap().clone();
    let dpdk = |device: &serde_json::Value| device["name"].as_str().unwrap().starts_with("dpdk:");
    assert!(devices.iter().any(dpdk), "DPDK's devices, or what is missing for them");
    let (links, devices): (Vec<_>, Vec<_>) = (devices.into_iter())
        .filter(|device| !dpdk(device))
        .partition(|device| ["shm", "ucx"].map(Some).contains(&device["name"].as_str()));
    links_are_listed_for_programs(&links);
    let names: Vec<_> = devices.iter().map(|device| device["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "cpu",
            "emulated:bf2",
            "emulated:bf2-cores",
            "emulated:bf2-cores:1",
            "emulated:bf2-older-doca",
            "emulated:bf2-soc",
            "emulated:bf3",
            "emulated:bf3-cores",
            "emulated:bf3-cores:1",
            "emulated:bf3-doca22",
            "emulated:bf3-soc"
        ]
    );
    for device in &devices {
        assert!(device["unavailable"].is_null(), "{device}");
        let provenance = if device["name"] == "cpu" { "measured" } else { "emulated" };
        assert_eq!(device["provenance"], provenance);
        let capabilities = device["capabilities"].as_array().unwrap();
        assert!(!capabilities.is_empty());
        assert!(capabilities.iter().all(|one| one["operation"].is_string()), "{device}");
    }
    assert_eq!(run(&["devices", "--jsno"]).status.code(), Some(2));
}

fn links_are_listed_for_programs(links: &[serde_json::Value]) {
    let names: Vec<_> = links.iter().map(|link| &link["name"]).collect();
    assert_eq!(names, ["shm", "ucx"]);
    for link in links {
        // Links run no jobs.
        assert_eq!(link["capabilities"], serde_json::json!([]));
        if let Some(reason) = link["unavailable"].as_str() {
            assert_eq!(link["name"], "ucx", "{reason}");
            continue;
        }
        assert_eq!(link["provenance"], "measured");
        assert!(link["link"]["read"]["max_bytes"].as_u64() >= Some(1 << 20));
        assert!(!link["carried_by"].as_str().unwrap().is_empty());
        assert_eq!(link["link"]["event"], !link["carried_by_events"].is_null());
    }
    assert_eq!(links[0]["link"]["write"]["mover"], "engine");
    if links[1]["unavailable"].is_null() {
        assert_eq!(links[1]["link"]["write"]["mover"], "nic");
        let transports = serde_json::json!(["tcp", "sm", "rc", "ud", "dc"]);
        assert_eq!(links[1]["variants"], transports);
    }
    assert_eq!(links[0]["variants"], serde_json::json!(["engine", "caller"]));
}

#[test]
fn a_broken_profile_is_named_and_the_cpu_still_listed() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("mine.toml"), "nonsense = 1").unwrap();
    let output =
        Command::new(COMMAND).arg("devices").env("OVERSIDE_PROFILES", directory.path()).output();
    let output = output.unwrap();
    assert!(output.status.success());
    let text = out(&output);
    assert!(text.starts_with("cpu: "), "{text}");
    assert_contains(&text, "not available");
    assert_contains(&text, "mine.toml");
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let pipe = Command::new("sh")
        .args(["-c", "\"$0\" devices | true; \"$0\" --help | head -1 >/dev/null", COMMAND])
        .output()
        .unwrap();
    assert!(pipe.status.success() && pipe.stderr.is_empty(), "{}", err(&pipe));
}

/// Writes a program instead of a Python interpreter that prints its arguments.
fn interpreter(path: &Path) {
    std::fs::write(path, "#!/bin/sh\nfor one in \"$@\"; do echo \"<$one>\"; done\nexit 103\n")
        .unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn other_verbs_are_handed_to_the_python_beside_the_command() {
    let directory = tempfile::tempdir().unwrap();
    let command = directory.path().join("overside");
    std::fs::copy(COMMAND, &command).unwrap();
    let start = |arguments: &[&str]| {
        loop {
            let output =
                Command::new(&command).args(arguments).env_remove("OVERSIDE_PYTHON").output();
            // A parallel test that forked during the copy keeps the file open until it executes its
            // own program.
            match output {
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => continue,
                output => return output.unwrap(),
            }
        }
    };

    let alone = start(&["run", "quick"]);
    assert_eq!(alone.status.code(), Some(3));
    assert_contains(err(&alone), "overside run: this verb needs Python");
    assert_contains(err(&alone), "pip install");

    interpreter(&directory.path().join("python"));
    let output = start(&["compare", "a b", "c", "--strict"]);
    assert_eq!(output.status.code(), Some(103));
    assert_eq!(out(&output), "<-P>\n<-m>\n<overside>\n<compare>\n<a b>\n<c>\n<--strict>\n");
}

#[test]
fn another_python_can_be_named() {
    let directory = tempfile::tempdir().unwrap();
    let python = directory.path().join("snake");
    let start = || {
        Command::new(COMMAND)
            .args(["list", "tasks"])
            .env("OVERSIDE_PYTHON", &python)
            .output()
            .unwrap()
    };
    let absent = start();
    assert_eq!(absent.status.code(), Some(3));
    assert_contains(err(&absent), "snake cannot be started");
    interpreter(&python);
    assert_eq!(out(&start()), "<-P>\n<-m>\n<overside>\n<list>\n<tasks>\n");
}
