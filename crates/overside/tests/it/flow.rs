//! `overside flow` as users call it.

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub(crate) const COMMAND: &str = env!("CARGO_BIN_EXE_overside");

pub(crate) fn run_with(directory: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(COMMAND)
        .arg("flow")
        .args(arguments)
        .current_dir(directory)
        .env_remove("COLUMNS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command may stop reading early.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

pub(crate) fn run(directory: &Path, arguments: &[&str]) -> Output {
    run_with(directory, arguments, b"")
}

/// Returns the stdout of a command, which must have succeeded without a message on stderr.
pub(crate) fn out(output: &Output) -> String {
    assert_eq!(err(output), "");
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(crate) fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        overside_testkit::assert_contains(text, part);
    }
}

/// Returns the JSON report of a command without the stage times, which differ from run to run.
fn report(output: &Output) -> Value {
    let mut report: Value = serde_json::from_str(&out(output)).unwrap();
    for stage in ["unpack", "partition", "repack"] {
        assert!(report[stage]["wall_ns"].as_u64().unwrap() > 0, "{report}");
        report[stage] = Value::Null;
    }
    report
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const CSV: &str = "id,what\n5,a\n2,b\n,c\n1,d\n6,e\n2,f\n";

#[test]
fn rows_go_to_their_partitions_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    fs::write(place.join("rows.csv"), CSV).unwrap();
    let arguments = [
        "partition",
        "rows.csv",
        "--key",
        "id",
        "--bits",
        "2",
        "--format",
        "csv",
        "--out",
        "parts",
    ];
    let json = report(&run(place, &[&arguments[..], &["--json"]].concat()));
    insta::assert_json_snapshot!(json);
    assert_eq!(names(&place.join("parts")), ["part-1.csv", "part-2.csv", "part-null.csv"]);
    let part = |name: &str| fs::read_to_string(place.join("parts").join(name)).unwrap();
    assert_eq!(part("part-1.csv"), "id,what\n5,a\n1,d\n");
    assert_eq!(part("part-2.csv"), "id,what\n2,b\n6,e\n2,f\n");
    assert_eq!(part("part-null.csv"), "id,what\n,c\n");
    // Existing output is not replaced without the option.
    let again = run(place, &arguments);
    assert_contains(&err(&again), &["parts/part-1.csv exists", "--force"]);
    assert_eq!(again.status.code(), Some(2));
    let text = out(&run(place, &[&arguments[..], &["--force"]].concat()));
    assert_contains(
        &text,
        &["6 rows in 4 partitions (id by bits:2)", "rows without a key: 1", "repack"],
    );
}

#[test]
fn rows_of_a_partition_are_sorted_if_asked() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    fs::write(place.join("rows.csv"), CSV).unwrap();
    let sorted = |columns: &str| {
        let arguments = [
            "partition",
            "rows.csv",
            "--key",
            "id",
            "--bits",
            "2",
            "--format",
            "csv",
            "--force",
            "--out",
            "parts",
            "--sort",
            columns,
        ];
        run(place, &arguments)
    };
    let part = |name: &str| fs::read_to_string(place.join("parts").join(name)).unwrap();
    assert_contains(&out(&sorted("id,what desc")), &["6 rows in 4", "sort"]);
    assert_eq!(part("part-1.csv"), "id,what\n1,d\n5,a\n");
    assert_eq!(part("part-2.csv"), "id,what\n2,f\n2,b\n6,e\n");
    assert_eq!(part("part-null.csv"), "id,what\n,c\n");
    out(&sorted("id desc"));
    // Equal rows keep their order.
    assert_eq!(part("part-2.csv"), "id,what\n6,e\n2,b\n2,f\n");
    assert_contains(&err(&sorted("id,clock")), &["clock", "id, what"]);
}

#[test]
fn formats_codecs_and_placements_give_the_same_rows() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    out(&run(place, &["generate", "ships", "ships.arrow", "--rows", "5000", "--seed", "3"]));
    let split = |input: &str, more: &[&str], out: &str| {
        let arguments =
            ["partition", input, "--key", "MMSI", "--hash", "4", "--json", "--out", out];
        report(&run(place, &[&arguments[..], more].concat()))
    };
    let rows = |report: &Value| {
        let files = report["files"].as_array().unwrap().iter();
        files.map(|file| file["rows"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let first = split("ships.arrow", &[], "plain");
    assert_eq!(first["rows"], 5000);
    let cases: [&[&str]; 6] = [
        &["--codec", "lz4"],
        &["--codec", "zstd:3", "--format", "arrow-stream"],
        &["--codec", "zstd", "--format", "parquet"],
        &["--outer", "deflate", "--threads", "1"],
        &["--outer", "deflate", "--device", "emulated:bf2", "--placement", "split:50"],
        &["--format", "csv"],
    ];
    for (case, more) in cases.into_iter().enumerate() {
        let parts = format!("parts-{case}");
        assert_eq!(rows(&split("ships.arrow", more, &parts)), rows(&first), "{more:?}");
        // Splitting all parts together by the same key gives the same parts.
        let inputs: Vec<String> =
            names(&place.join(&parts)).iter().map(|name| format!("{parts}/{name}")).collect();
        let mut arguments: Vec<&str> = vec!["partition"];
        arguments.extend(inputs.iter().map(String::as_str));
        let again = format!("again-{case}");
        arguments.extend(["--key", "MMSI", "--hash", "4", "--format", "csv", "--out", &again]);
        out(&run(place, &arguments));
        if case == 0 {
            continue;
        }
        for name in names(&place.join(&again)) {
            let read = |parts: &str| fs::read(place.join(parts).join(&name)).unwrap();
            assert!(read(&again) == read("again-0"), "{more:?}: {name}");
        }
    }
}

#[test]
fn streams_are_read_from_stdin() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let generate =
        ["generate", "particles", "p.arrows", "--rows", "300", "--format", "arrow-stream"];
    out(&run(place, &generate));
    let stream = fs::read(place.join("p.arrows")).unwrap();
    let arguments =
        ["partition", "-", "--key", "x", "--ranges", "64,128,192", "--out", "parts", "--json"];
    let output = run_with(place, &arguments, &stream);
    assert_eq!(report(&output)["rows"], 300);
    // A truncated stream leaves no output.
    let cut = run_with(
        place,
        &["partition", "-", "--key", "x", "--ranges", "64", "--out", "cut"],
        &stream[..stream.len() / 2],
    );
    assert_contains(&err(&cut), &["overside flow partition: stdin: "]);
    assert_eq!((cut.status.code(), names(&place.join("cut")).len()), (Some(2), 0));
}

#[test]
fn a_killed_run_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let mut child = Command::new(COMMAND)
        .args(["flow", "partition", "-", "--key", "n", "--bits", "1", "--out", "parts"])
        .current_dir(place)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // More rows than the type detection samples, so outputs are already open.
    let rows = "n\n".to_owned() + &"1\n2\n".repeat(2 << 20);
    stdin.write_all(rows.as_bytes()).unwrap();
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_eq!(names(&place.join("parts")), [""; 0]);
}

#[test]
fn a_sample_is_enlarged() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    out(&run(
        place,
        &["generate", "ships", "sample.parquet", "--rows", "1000", "--format", "parquet"],
    ));
    let roles = ["--id", "MMSI", "--time", "BaseDateTime"];
    let enlarge = ["enlarge", "sample.parquet", "more.arrow", "--rows", "2500"];
    out(&run(place, &[&enlarge[..], &roles].concat()));
    let count =
        ["partition", "more.arrow", "--key", "MMSI", "--bits", "1", "--out", "parts", "--json"];
    assert_eq!(report(&run(place, &count))["rows"], 2500);
    let wrong = run(place, &["enlarge", "sample.parquet", "x", "--rows", "1", "--id", "LAT"]);
    assert_contains(&err(&wrong), &["sample.parquet: ", "\"LAT\"", "Float64"]);
    assert!(!place.join("x").exists());
}

#[test]
fn what_cannot_be_done_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    fs::write(place.join("rows.csv"), CSV).unwrap();
    fs::write(place.join("other.csv"), "a\n1\n").unwrap();
    let refused = |arguments: &[&str], words: &[&str]| {
        let output = run(place, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_contains(&err(&output), words);
    };
    let partition =
        |more: &[&'static str]| [&["partition", "rows.csv", "--out", "p"][..], more].concat();
    refused(&partition(&["--key", "id"]), &["--bits", "--hash", "--ranges"]);
    refused(
        &partition(&["--key", "ids", "--bits", "2"]),
        &["no column \"ids\"", "mean \"id\"?", "id, what"],
    );
    let by_hash =
        |more: &[&'static str]| partition(&[&["--key", "id", "--hash", "2"][..], more].concat());
    refused(
        &by_hash(&["--sort", "what dsc"]),
        &["\"dsc\" is no order of column \"what\"", "asc or desc"],
    );
    refused(&by_hash(&["--sort", "id,,what"]), &["name of a column is missing"]);
    refused(
        &partition(&["--key", "id", "--ranges", "1,x"]),
        &["bound \"x\" is no Int64", "ascending"],
    );
    refused(
        &partition(&["--key", "id", "--hash", "1"]),
        &["between 2 and 1024 partitions", "not 1"],
    );
    refused(
        &partition(&["--key", "id", "--bits", "99"]),
        &["between 2 and 1024 partitions", "not 2^64 or more"],
    );
    // Files that are not tables, or are empty.
    fs::write(place.join("empty"), "").unwrap();
    fs::write(place.join("header.csv"), "id,what\n").unwrap();
    fs::write(place.join("twice.csv"), "id,id\n1,2\n").unwrap();
    fs::write(place.join("cut.parquet"), "PAR1 and then nothing").unwrap();
    fs::write(place.join("noise"), [0xff, 0xfe, 7, 200, 3]).unwrap();
    for (table, words) in [
        ("empty", ["empty: the file is empty", ""]),
        ("header.csv", ["header.csv: column \"id\" ", "tables without rows"]),
        ("twice.csv", ["twice.csv: 2 columns are called \"id\"", "rename all but one"]),
        ("cut.parquet", ["cut.parquet: ", "written to its end?"]),
        ("noise", ["noise: neither Arrow IPC nor Parquet, nor CSV", "UTF-8"]),
    ] {
        let words_of = ["partition", table, "--out", "p", "--key", "id", "--bits", "1"];
        refused(&words_of, &words);
    }
    refused(&["suggest-key", "header.csv"], &["header.csv: the table has no rows"]);
    let onto_a_file = ["partition", "rows.csv", "--out", "rows.csv", "--key", "id", "--bits", "1"];
    refused(&onto_a_file, &["rows.csv: a file; name a directory"]);
    refused(&partition(&["--key", "what", "--bits", "2"]), &["what", "Utf8", "hash"]);
    refused(&partition(&["--key", "id", "--bits", "30"]), &["1024"]);
    refused(&partition(&["--key", "id", "--hash", "x"]), &["no number"]);
    refused(
        &partition(&["--key", "id", "--hash", "2", "--format", "csv", "--codec", "lz4"]),
        &["csv"],
    );
    refused(&partition(&["--key", "id", "--hash", "2", "--codec", "gzip"]), &["none, lz4, zstd"]);
    let refused = |line: &str, words: &[&str]| refused(&line.split(' ').collect::<Vec<_>>(), words);
    refused(
        "partition rows.csv other.csv --out q --key id --hash 2",
        &["other.csv", "no column \"id\", there is no column \"what\", column \"a\" is new"],
    );
    refused("partition absent --out p --key id --hash 2", &["absent", "No such file"]);
    refused("generate planes x", &["particles, ships"]);
    // Object stores, of which a local directory would be made.
    for arguments in [
        "partition rows.csv --key id --hash 2 --out s3://b/x",
        "partition s3://b/x.csv --key id --hash 2 --out p",
        "suggest-key gs://b/x.csv",
        "generate particles s3://b/x.arrow",
        "tree add s3://b/x rows.csv --id id --time what",
    ] {
        refused(arguments, &["://b/x", "only local files"]);
    }
    assert!(!place.join("s3:").exists());
    assert_eq!(names(&place.join("q")), [""; 0]);
}

#[test]
fn rows_are_filtered_and_columns_computed() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    fs::write(place.join("rows.csv"), CSV).unwrap();
    let partition = |more: &[&'static str]| {
        let words = [
            "partition",
            "rows.csv",
            "--key",
            "id",
            "--hash",
            "2",
            "--format",
            "csv",
            "-f",
            "--out",
            "parts",
        ];
        run(place, &[&words[..], more].concat())
    };
    let sql = ["--filter", "id > 1 AND what <> 'e'", "--select", "id, id * 2 AS twice"];
    out(&partition(&sql));
    let mut rows: Vec<String> = Vec::new();
    for name in names(&place.join("parts")) {
        let part = fs::read_to_string(place.join("parts").join(name)).unwrap();
        let mut lines = part.lines();
        assert_eq!(lines.next(), Some("id,twice"));
        rows.extend(lines.map(str::to_owned));
    }
    rows.sort();
    assert_eq!(rows, ["2,4", "2,4", "5,10"]);
    for (sql, words) in [
        (["--filter", "id +"], &["expression"][..]),
        (["--filter", "nobody = 1"], &["nobody", "id, what"]),
        (["--filter", "sleep(id)"], &["sleep"]),
        (["--select", "what"], &["\"id\"", "what"]),
    ] {
        let output = partition(&sql);
        assert_eq!(output.status.code(), Some(2), "{sql:?}");
        assert_contains(&err(&output), words);
    }
}

#[test]
fn a_key_is_suggested_that_divides_evenly() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    // The lowest three bits are always zero, and half of the rows share one value in the other column.
    let rows = (0..4096).map(|row| format!("{},{}\n", row * 8, if row % 2 == 0 { 1 } else { row }));
    let table = "id,kind\n".to_owned() + &rows.collect::<String>();
    fs::write(place.join("rows.csv"), table).unwrap();
    let text = out(&run(place, &["suggest-key", "rows.csv", "-n", "8"]));
    assert!(
        text.starts_with("--key id --bits 3..6: the largest of 8 partitions has 1.00 times"),
        "{text}"
    );
    let json = run(place, &["suggest-key", "rows.csv", "-n", "8", "--key", "kind", "--json"]);
    let json: Value = serde_json::from_str(&out(&json)).unwrap();
    let candidates = json["candidates"].as_array().unwrap();
    assert!(
        candidates.iter().all(|one| one["key"] == "kind" && one["imbalance"].as_f64() > Some(2.0))
    );
    let wrong = run(place, &["suggest-key", "rows.csv", "-n", "1"]);
    assert_contains(&err(&wrong), &["rows.csv: ", "between 2 and 1024"]);
    let wrong = run(place, &["suggest-key", "rows.csv", "--key", "none"]);
    assert_contains(&err(&wrong), &["no column \"none\""]);
}

#[test]
fn stages_are_measured_and_verified() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let made = run(place, &["generate", "particles", "p.arrow", "--rows", "20000"]);
    out(&made);
    let bench = ["bench", "p.arrow", "--passes", "2", "-p", "2"];
    let words = ["--key", "id", "--hash", "3", "--codec", "zstd"];
    let text = out(&run(place, &[&bench[..], &words[..]].concat()));
    let parts = ["unpack", "partition", "repack", "2 passes, all verified"];
    assert_contains(&text, &parts);
    let json = out(&run(place, &[&bench[..], &words[..], &["--json"]].concat()));
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["table_bytes"], 20_000 * 80);
    assert_eq!(report["passes"].as_array().unwrap().len(), 2);
    let rows = report["parts"].as_array().unwrap().iter();
    assert_eq!(rows.map(|part| part["rows"].as_u64().unwrap()).sum::<u64>(), 20_000);
    for (words, code, message) in [
        (&["--bits", "2"][..], 2, "--key"),
        (&["--key", "id"], 2, "--bits"),
        (&["--key", "x", "--bits", "2"], 2, "\"x\""),
        (&["--codec", "zstd", "--device", "emulated:bf3", "--placement", "device"], 3, "no job"),
    ] {
        let output = run(place, &[&["bench", "p.arrow"][..], words].concat());
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        assert_contains(&err(&output), &[message]);
    }
}
