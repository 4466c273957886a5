//! `overside flow run` as users call it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::agent::{Running, User};

const COMMAND: &str = env!("CARGO_BIN_EXE_overside");

fn command(directory: &Path) -> Command {
    let mut command = Command::new(COMMAND);
    command.current_dir(directory).env_remove("COLUMNS");
    command
}

fn flow(directory: &Path, arguments: &[&str]) -> Output {
    command(directory).arg("flow").args(arguments).output().unwrap()
}

/// Returns the stdout of a command, which must have succeeded without a message on stderr.
fn out(output: &Output) -> String {
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert_eq!((complaints.as_ref(), output.status.code()), ("", Some(0)));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the error message of a command, which must have failed with exit code 2.
fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr.clone()).unwrap()
}

const HEAD: &str = "schema = \"flow-pipeline/1\"\nname = \"test\"\nthreads = 2\n";

/// Writes a pipeline with a node in place of another machine.
fn pipeline(directory: &Path, name: &str, rest: &str) {
    let node = "[nodes.dpu0]\naddress = \"in-process\"\n";
    fs::write(directory.join(name), format!("{HEAD}{node}{rest}")).unwrap();
}

fn made(directory: &Path) {
    let table = ["generate", "ships", "ships.arrow", "--rows", "200000", "--seed", "3"];
    out(&flow(directory, &table));
}

#[test]
fn a_pipeline_writes_what_partition_writes_wherever_it_runs() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    made(place);
    out(&flow(
        place,
        &[
            "partition",
            "ships.arrow",
            "--filter",
            "SOG > 5",
            "--key",
            "MMSI",
            "--hash",
            "3",
            "--format",
            "csv",
            "--out",
            "expected",
        ],
    ));
    for (number, placement) in ["host", "dpu0", "split:40", "adaptive"].into_iter().enumerate() {
        let node = if number > 1 { "node = \"dpu0\"\n" } else { "" };
        let stage = |text: &str| format!("[[stages]]\n{text}\nplacement = \"{placement}\"\n{node}");
        let filter = stage("filter = \"SOG > 5\"");
        let partition = stage("partition = { key = \"MMSI\", by = \"hash:3\" }");
        let outputs = "[outputs.some]\nto = \"some\"\nformat = \"csv\"\npartitions = \"0,null\"\n\
                       [outputs.all]\nto = \"all\"\nformat = \"csv\"\n";
        let input = "[input]\nfiles = [\"ships.arrow\"]\nrows = 10000\n";
        pipeline(place, "p.toml", &format!("{input}{filter}{partition}{outputs}"));
        let report = out(&flow(place, &["run", "p.toml", "--json", "--force"]));
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!((&report["schema"], &report["batches"]), (&"flow-run/1".into(), &20.into()));
        let is_host = placement == "host";
        let provenance = if is_host { "measured" } else { "emulated" };
        assert_eq!(report["provenance"], provenance, "{report}");
        for stage in report["stages"].as_array().unwrap() {
            let node = stage["node"]["batches"].as_u64().unwrap_or(0);
            assert_eq!(stage["host"]["batches"].as_u64().unwrap() + node, 20, "{stage}");
            assert!(stage["busy_ns"].as_u64().unwrap() > 0);
            assert_eq!(node == 0, is_host, "{stage}");
        }
        // A file is read, and rows of both outputs are written.
        let (unpack, repack) = (&report["unpack"], &report["repack"]);
        // The first line's time includes everything.
        for stage in [unpack, repack] {
            assert!(stage["busy_ns"].as_u64() <= report["elapsed_ns"].as_u64());
        }
        let rows = |stage: &Value| stage["rows_out"].as_u64().unwrap();
        assert_eq!(rows(unpack), 200_000);
        assert!(rows(repack) > rows(&report["stages"][1]), "{report}");
        for stage in [unpack, repack] {
            assert_eq!(stage["placement"], "host");
            assert!(stage["throughput_bytes_per_s"].as_f64().unwrap() > 0.0);
            assert!(stage["host"]["cpu_ns"].as_u64().unwrap() > 0);
        }
        for part in 0..3 {
            let read = |folder: &str| {
                fs::read_to_string(place.join(folder).join(format!("part-{part}.csv"))).unwrap()
            };
            let expected = read("expected");
            assert!(read("all") == expected, "{placement}, partition {part}");
            assert_eq!(place.join(format!("some/part-{part}.csv")).exists(), part == 0);
        }
        let text = out(&flow(place, &["run", "p.toml", "--force", "-p", "1"]));
        for part in
            ["of 200,000 rows in", "unpack", "filter", "repack", "queue delay", "part-0.csv"]
        {
            overside_testkit::assert_contains(&text, part);
        }
        assert_eq!(text.contains("say nothing about a DPU"), !is_host, "{text}");
    }
}

#[test]
fn a_device_packs_and_unpacks_and_the_report_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    made(place);
    let device = "placement = \"device\"\ndevice = \"emulated:bf2\"\n";
    let sort = "[[stages]]\nfilter = \"SOG > 5\"\n";
    let packed = format!("{sort}[outputs.all]\nto = \"packed\"\nouter = \"deflate\"\n");
    pipeline(place, "pack.toml", &format!("[repack]\n{device}{packed}"));
    let plain = "[outputs.all]\nto = \"csv\"\nformat = \"csv\"\n";
    pipeline(place, "unpack.toml", &format!("[unpack]\n{device}{plain}"));
    let run = |words: &[&str]| -> Value {
        let words = [&["run"], words, &["--json"]].concat();
        serde_json::from_str(&out(&flow(place, &words))).unwrap()
    };
    let jobs = |stage: &Value, operation: &str| {
        let devices = stage["devices"].as_array().unwrap();
        let of_device = devices.iter().find(|one| one["operation"] == operation);
        let of_device = of_device.unwrap_or_else(|| panic!("{stage}"));
        assert_eq!(of_device["device"], "emulated:bf2");
        of_device["jobs"].as_u64().unwrap()
    };
    let report = run(&["pack.toml", "ships.arrow"]);
    let repack = &report["repack"];
    assert!(jobs(repack, "compress-deflate") > 0);
    assert_eq!(repack["placement"], "device");
    assert!(repack["bytes_out"].as_u64() < repack["bytes_in"].as_u64());
    assert_eq!(report["provenance"], "emulated", "{report}");
    assert_eq!(report["unpack"]["devices"], serde_json::json!([]));
    let report = run(&["unpack.toml", "packed/part.arrow"]);
    assert!(jobs(&report["unpack"], "decompress-deflate") > 0);
    assert_eq!(report["rows_in"], repack["rows_out"]);
    let expected = format!("{sort}{}", plain.replace("\"csv\"\nf", "\"expected\"\nf"));
    pipeline(place, "plain.toml", &expected);
    run(&["plain.toml", "ships.arrow"]);
    let read = |folder: &str| fs::read_to_string(place.join(folder).join("part.csv")).unwrap();
    assert!(read("csv") == read("expected"));
    // Missing files are reported before anything runs.
    pipeline(place, "none.toml", &format!("[unpack]\n{}{plain}", device.replace("bf2", "bf9")));
    let message = refusal(&flow(place, &["run", "none.toml", "ships.arrow"]));
    overside_testkit::assert_contains(&message, "stage \"unpack\"");
    overside_testkit::assert_contains(&message, "bf9");
}

/// The node packs and unpacks through its agent; nothing listens at its own address.
#[test]
fn a_pipelines_node_packs_and_unpacks_by_its_agent() {
    let user = User::new();
    let place = user.path("");
    let agent =
        Running::start(&user, &["--insecure", "--device", "emulated:bf2", "--device", "cpu"]);
    user.done(&["agents", "add", "dpu0", &agent.address]);
    made(&place);
    let node = "[nodes.dpu0]\naddress = \"grpc://127.0.0.1:1\"\n";
    let write = |name: &str, rest: &str| {
        fs::write(place.join(name), format!("{HEAD}{node}{rest}")).unwrap();
    };
    let run = |words: &[&str]| -> Value {
        let words = [&["flow", "run"], words, &["--json"]].concat();
        serde_json::from_str(&user.done(&words)).unwrap()
    };
    let jobs = |stage: &Value, device: &str| {
        let devices = stage["devices"].as_array().unwrap();
        let of_device = devices.iter().find(|one| one["device"] == device);
        of_device.unwrap_or_else(|| panic!("{stage}"))["jobs"].as_u64().unwrap()
    };
    write("plain.toml", "[outputs.all]\nto = \"expected\"\n");
    run(&["plain.toml", "ships.arrow"]);
    let packed = "[outputs.all]\nto = \"packed\"\nouter = \"deflate\"\n";
    let unpacked = "[outputs.all]\nto = \"unpacked\"\n";
    for (codec, device) in [
        ("placement = \"dpu0\"\ndevice = \"emulated:bf2\"\n", "dpu0/emulated:bf2"),
        ("placement = \"device\"\ndevice = \"dpu0/emulated:bf2\"\n", "dpu0/emulated:bf2"),
        (
            "placement = \"split:50\"\nnode = \"dpu0\"\ndevice = \"emulated:bf2\"\n",
            "dpu0/emulated:bf2",
        ),
        // The node's cores.
        ("placement = \"dpu0\"\n", "dpu0/cpu"),
    ] {
        write("pack.toml", &format!("[repack]\n{codec}{packed}"));
        write("unpack.toml", &format!("[unpack]\n{codec}{unpacked}"));
        let report = run(&["pack.toml", "ships.arrow", "--force"]);
        assert!(jobs(&report["repack"], device) > 0, "{report}");
        let report = run(&["unpack.toml", "packed/part.arrow", "--force"]);
        assert!(jobs(&report["unpack"], device) > 0, "{report}");
        assert_eq!(report["rows_in"], 200_000);
        let read = |folder: &str| fs::read(place.join(folder).join("part.arrow")).unwrap();
        assert!(read("unpacked") == read("expected"), "{codec}");
    }
    user.done(&["agents", "remove", "dpu0"]);
    let message = user.fails(2, &["flow", "run", "unpack.toml", "ships.arrow", "--force"]);
    overside_testkit::assert_contains(&message, "stage \"unpack\"");
    overside_testkit::assert_contains(&message, "overside agents add");
}

#[test]
fn one_table_without_partitions_has_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    fs::write(place.join("a.csv"), "id,what\n5,a\n2,b\n").unwrap();
    fs::write(place.join("b.csv"), "id,what\n7,c\n").unwrap();
    pipeline(
        place,
        "p.toml",
        "[[stages]]\nselect = \"what\"\n[outputs.all]\nto = \"out\"\nformat = \"csv\"\n",
    );
    let text = out(&flow(place, &["run", "p.toml", "a.csv", "b.csv"]));
    overside_testkit::assert_contains(&text, "3 of 3 rows");
    assert_eq!(fs::read_to_string(place.join("out/part.csv")).unwrap(), "what\na\nb\nc\n");
    // Existing output is not replaced without the option.
    let again = refusal(&flow(place, &["run", "p.toml", "a.csv"]));
    overside_testkit::assert_contains(&again, "out/part.csv exists; --force replaces it");
    pipeline(
        place,
        "none.toml",
        "[[stages]]\nfilter = \"id > 100\"\n[outputs.all]\nto = \"none\"\nformat = \"csv\"\n",
    );
    out(&flow(place, &["run", "none.toml", "a.csv"]));
    assert_eq!(fs::read_to_string(place.join("none/part.csv")).unwrap(), "");
}

#[test]
fn an_output_is_a_tree_that_each_run_adds_to() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    made(place);
    let outputs = "[outputs.tracks]\nto = \"tracks\"\npartitions = \"0,1\"\n\
                   tree = { id = \"MMSI\", time = \"BaseDateTime\", capacity = \"1 MiB\", levels = 1 }\n\
                   [outputs.others]\nto = \"others\"\npartitions = \"2..4,null\"\n\
                   tree = { id = \"MMSI\", time = \"BaseDateTime\" }\n";
    let stages = "[[stages]]\npartition = { key = \"MMSI\", by = \"bits:2\" }\n";
    let text = |rest: &str| format!("[input]\nfiles = [\"ships.arrow\"]\n{rest}{stages}{outputs}");
    pipeline(place, "p.toml", &text(""));
    let report: Value =
        serde_json::from_str(&out(&flow(place, &["run", "p.toml", "--json"]))).unwrap();
    let rows: u64 =
        report["files"].as_array().unwrap().iter().map(|file| file["rows"].as_u64().unwrap()).sum();
    assert_eq!(rows, 200_000, "{report}");
    let query = |select: &str| {
        out(&flow(place, &["tree", "query", "tracks", "others", "--select", select]))
    };
    let all = "[[stages]]\nselect = \"MMSI, BaseDateTime\"\n[outputs.all]\nto = \"all\"\nformat = \"csv\"\n";
    pipeline(place, "all.toml", all);
    out(&flow(place, &["run", "all.toml", "ships.arrow"]));
    let found = query("MMSI, BaseDateTime");
    let mut rows: Vec<(i64, &str)> = (found.lines().skip(1))
        .map(|row| row.split_once(',').unwrap())
        .map(|(id, time)| (id.parse().unwrap(), time))
        .collect();
    assert!(rows.is_sorted());
    let all = fs::read_to_string(place.join("all/part.csv")).unwrap();
    let mut all: Vec<(i64, &str)> = (all.lines().skip(1))
        .map(|row| row.split_once(',').unwrap())
        .map(|(id, time)| (id.parse().unwrap(), time))
        .collect();
    rows.sort_unstable();
    all.sort_unstable();
    assert!(rows == all);
    // A failed run appends nothing; a repeated successful one appends everything again.
    fs::write(place.join("other.csv"), "id\n5\n").unwrap();
    let failed = refusal(&flow(place, &["run", "p.toml", "ships.arrow", "other.csv"]));
    overside_testkit::assert_contains(
        &failed,
        "other.csv: the columns are not those of ships.arrow: ",
    );
    assert_eq!(query("MMSI").lines().count(), 200_001);
    out(&flow(place, &["run", "p.toml"]));
    assert_eq!(query("MMSI").lines().count(), 400_001);
    let others = out(&flow(place, &["tree", "show", "tracks", "--json"]));
    let others: Value = serde_json::from_str(&others).unwrap();
    assert_eq!(others["levels"].as_array().unwrap().len(), 2, "{others}");
    // Missing columns are reported before anything runs.
    pipeline(place, "wrong.toml", &text("").replace("BaseDateTime", "clock"));
    let wrong = refusal(&flow(place, &["run", "wrong.toml", "ships.arrow", "--check"]));
    overside_testkit::assert_contains(&wrong, "output \"others\": ");
    overside_testkit::assert_contains(&wrong, "clock");
}

#[test]
fn what_cannot_run_says_why_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    fs::write(place.join("a.csv"), "id,what\n5,a\n2,b\n").unwrap();
    fs::write(place.join("other.csv"), "id\n5\n").unwrap();
    let outputs = "[outputs.all]\nto = \"out\"\n";
    let cases = [
        (
            format!("[[stages]]\nfiltre = \"x\"\n{outputs}"),
            "a.csv",
            "p.toml:7:1: stages.0.filtre: no such key",
        ),
        (
            format!("[[stages]]\nfilter = \"nope > 1\"\n{outputs}"),
            "a.csv",
            "a.csv: stage \"filter\": ",
        ),
        (outputs.into(), "none.csv", "none.csv: No such file"),
        ("[outputs.all]\nto = \"a.csv\"\n".into(), "a.csv", "a.csv: a file; name a directory"),
        (String::new(), "a.csv", "outputs: there is none; add [outputs.NAME]"),
        (
            outputs.into(),
            "other.csv",
            "other.csv: the columns are not those of a.csv: there is no column \"what\"",
        ),
        (
            format!("[[stages]]\nselect = \"CAST(what AS int) AS n\"\n{outputs}"),
            "a.csv",
            "stage \"select\"",
        ),
        ("[outputs.all]\nto = \"subscribers\"\n".into(), "a.csv", "only `overside flow serve`"),
    ];
    for (rest, table, expected) in cases {
        pipeline(place, "p.toml", &rest);
        let tables = if table == "other.csv" { vec!["a.csv", table] } else { vec![table] };
        let message = refusal(&flow(place, &[&["run", "p.toml"], &tables[..]].concat()));
        overside_testkit::assert_contains(&message, expected);
        let left = fs::read_dir(place.join("out")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{expected}");
    }
    pipeline(place, "p.toml", outputs);
    assert_eq!(out(&flow(place, &["run", "p.toml", "--check", "a.csv"])), "OK\n");
    overside_testkit::assert_contains(refusal(&flow(place, &["run", "p.toml"])), "no table");
}

#[test]
fn a_file_that_cannot_grow_fails_the_run_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    made(place);
    let rest = "[[stages]]\npartition = { key = \"MMSI\", by = \"hash:2\" }\n[outputs.all]\nto = \"out\"\n";
    pipeline(place, "p.toml", rest);
    // Like a full disk: writes beyond the limit fail, here with an error instead of a signal.
    let script = format!("trap '' XFSZ; ulimit -f 500; exec {COMMAND} flow run p.toml ships.arrow");
    let output = Command::new("sh").args(["-c", &script]).current_dir(place).output().unwrap();
    let message = refusal(&output);
    overside_testkit::assert_contains(&message, "out/part-");
    overside_testkit::assert_contains(&message, "File too large");
    assert_eq!(fs::read_dir(place.join("out")).unwrap().count(), 0);
}
