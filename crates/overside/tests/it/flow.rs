//! `overside flow` as users call it.

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub(crate) const COMMAND: &str = env!("CARGO_BIN_EXE_overside");

/// Directory in which a user calls `overside flow`.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Returns the names of the files in a directory; none if it does not exist.
    pub(crate) fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(directory)).into_iter().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Returns a command whose words are separated by spaces. A word in double quotes may have some.
    pub(crate) fn command(&self, line: &str) -> Command {
        let words = line.split('"').enumerate().flat_map(|(number, part)| match number % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        });
        let mut command = Command::new(COMMAND);
        command.arg("flow").args(words).current_dir(self.0.path()).env_remove("COLUMNS");
        command
    }

    pub(crate) fn run_with(&self, line: &str, input: &[u8]) -> Output {
        let mut child = self
            .command(line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The command may stop reading early.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    /// Runs a command, which must succeed without a message on stderr. Returns its stdout.
    pub(crate) fn done(&self, line: &str) -> String {
        out(&self.run_with(line, b""))
    }

    /// Runs a command, which must succeed. Returns its JSON.
    pub(crate) fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.done(&format!("{line} --json"))).unwrap()
    }

    /// Runs a command, which must fail with exit code 2 and without a result. Returns its message.
    pub(crate) fn refused(&self, line: &str) -> String {
        let output = self.run_with(line, b"");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{line}");
        err(&output)
    }
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

/// Returns a report without the stage times, which differ from run to run.
fn without_times(mut report: Value) -> Value {
    for stage in ["unpack", "partition", "repack"] {
        assert!(report[stage]["wall_ns"].as_u64().unwrap() > 0, "{report}");
        report[stage] = Value::Null;
    }
    report
}

const CSV: &str = "id,what\n5,a\n2,b\n,c\n1,d\n6,e\n2,f\n";

#[test]
fn rows_go_to_their_partitions_in_order() {
    let place = Place::new();
    place.write("rows.csv", CSV);
    let line = "partition rows.csv --key id --bits 2 --format csv --out parts";
    insta::assert_json_snapshot!(without_times(place.json(line)));
    assert_eq!(place.names("parts"), ["part-1.csv", "part-2.csv", "part-null.csv"]);
    assert_eq!(place.read("parts/part-1.csv"), "id,what\n5,a\n1,d\n");
    assert_eq!(place.read("parts/part-2.csv"), "id,what\n2,b\n6,e\n2,f\n");
    assert_eq!(place.read("parts/part-null.csv"), "id,what\n,c\n");
    // Existing output is not replaced without the option.
    assert_contains(&place.refused(line), &["parts/part-1.csv exists", "--force"]);
    assert_contains(
        &place.done(&format!("{line} --force")),
        &["6 rows in 4 partitions (id by bits:2)", "rows without a key: 1", "repack"],
    );
}

#[test]
fn rows_of_a_partition_are_sorted_if_asked() {
    let place = Place::new();
    place.write("rows.csv", CSV);
    let line = "partition rows.csv --key id --bits 2 --format csv --force --out parts --sort";
    let text = place.done(&format!(r#"{line} "id,what desc""#));
    assert_contains(&text, &["6 rows in 4", "sort"]);
    assert_eq!(place.read("parts/part-1.csv"), "id,what\n1,d\n5,a\n");
    assert_eq!(place.read("parts/part-2.csv"), "id,what\n2,f\n2,b\n6,e\n");
    assert_eq!(place.read("parts/part-null.csv"), "id,what\n,c\n");
    place.done(&format!(r#"{line} "id desc""#));
    // Equal rows keep their order.
    assert_eq!(place.read("parts/part-2.csv"), "id,what\n6,e\n2,b\n2,f\n");
    assert_contains(&place.refused(&format!("{line} id,clock")), &["clock", "id, what"]);
}

#[test]
fn formats_codecs_and_placements_give_the_same_rows() {
    let place = Place::new();
    place.done("generate ships ships.arrow --rows 5000 --seed 3");
    let split = |options: &str, out: &str| {
        let line = format!("partition ships.arrow --key MMSI --hash 4 --out {out} {options}");
        let report = place.json(&line);
        assert_eq!(report["rows"], 5000);
        let files = report["files"].as_array().unwrap().iter();
        for file in files.clone() {
            let path = place.path(file["file"].as_str().unwrap());
            assert_eq!(file["file_bytes"], fs::metadata(path).unwrap().len(), "{options}");
        }
        files.map(|file| file["rows"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let first = split("", "plain");
    let cases = [
        "--codec lz4",
        "--codec zstd:3 --format arrow-stream",
        "--codec zstd --format parquet",
        "--codec lz4 --format parquet",
        "--format parquet",
        "--outer deflate --threads 1",
        "--outer zstd:5 --format arrow-stream",
        "--outer deflate --device emulated:bf2 --placement split:50",
        "--format csv",
    ];
    for (case, options) in cases.into_iter().enumerate() {
        let parts = format!("parts-{case}");
        assert_eq!(split(options, &parts), first, "{options}");
        // Splitting all parts together by the same key gives the same parts.
        let names = place.names(&parts).into_iter();
        let inputs: Vec<String> = names.map(|name| format!("{parts}/{name}")).collect();
        let (inputs, again) = (inputs.join(" "), format!("again-{case}"));
        place.done(&format!("partition {inputs} --key MMSI --hash 4 --format csv --out {again}"));
        for name in place.names(&again) {
            let read = |parts: &str| place.read(&format!("{parts}/{name}"));
            assert!(read(&again) == read("again-0"), "{options}: {name}");
        }
    }
}

#[test]
fn streams_are_read_from_stdin() {
    let place = Place::new();
    place.done("generate particles p.arrows --rows 300 --format arrow-stream");
    let stream = fs::read(place.path("p.arrows")).unwrap();
    let line = "partition - --key x --ranges 64,128,192 --json --out";
    let report = out(&place.run_with(&format!("{line} parts"), &stream));
    assert_eq!(serde_json::from_str::<Value>(&report).unwrap()["rows"], 300);
    // A truncated stream leaves no output.
    let cut = place.run_with(&format!("{line} cut"), &stream[..stream.len() / 2]);
    assert_contains(&err(&cut), &["overside flow partition: stdin: "]);
    assert_eq!((cut.status.code(), place.names("cut").len()), (Some(2), 0));
}

#[test]
fn a_killed_run_leaves_nothing() {
    let place = Place::new();
    let mut command = place.command("partition - --key n --bits 1 --out parts");
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // More rows than the type detection samples, so outputs are already open.
    let rows = "n\n".to_owned() + &"1\n2\n".repeat(2 << 20);
    stdin.write_all(rows.as_bytes()).unwrap();
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_eq!(place.names("parts"), [""; 0]);
}

#[test]
fn a_sample_is_enlarged() {
    let place = Place::new();
    place.done("generate ships sample.parquet --rows 1000 --format parquet");
    place.done("enlarge sample.parquet more.arrow --rows 2500 --id MMSI --time BaseDateTime");
    let report = place.json("partition more.arrow --key MMSI --bits 1 --out parts");
    assert_eq!(report["rows"], 2500);
    let wrong = place.refused("enlarge sample.parquet x --rows 1 --id LAT");
    assert_contains(&wrong, &["sample.parquet: ", "\"LAT\"", "Float64"]);
    assert!(!place.path("x").exists());
}

/// Commands that are refused, and parts of their messages.
const REFUSED: &[(&str, &[&str])] = &[
    ("partition rows.csv --out p --key id", &["--bits", "--hash", "--ranges"]),
    (
        "partition rows.csv --out p --key ids --bits 2",
        &["no column \"ids\"", "mean \"id\"?", "id, what"],
    ),
    (
        r#"partition rows.csv --out p --key id --hash 2 --sort "what dsc""#,
        &["\"dsc\" is no order of column \"what\"", "asc or desc"],
    ),
    (
        "partition rows.csv --out p --key id --hash 2 --sort id,,what",
        &["name of a column is missing"],
    ),
    ("partition rows.csv --out p --key id --hash 2 --sort clock", &["no column \"clock\""]),
    ("partition rows.csv --out p --key id --ranges 1,x", &["bound \"x\" is no Int64", "ascending"]),
    ("partition rows.csv --out p --key id --hash 1", &["between 2 and 1024 partitions", "not 1"]),
    (
        "partition rows.csv --out p --key id --bits 99",
        &["between 2 and 1024 partitions", "not 2^64 or more"],
    ),
    // Files that are not tables, or are empty.
    ("partition empty --out p --key id --bits 1", &["empty: the file is empty"]),
    (
        "partition header.csv --out p --key id --bits 1",
        &["header.csv: column \"id\" ", "tables without rows"],
    ),
    (
        "partition twice.csv --out p --key id --bits 1",
        &["twice.csv: 2 columns are called \"id\"", "rename all but one"],
    ),
    ("partition cut.parquet --out p --key id --bits 1", &["cut.parquet: ", "written to its end?"]),
    (
        "partition noise --out p --key id --bits 1",
        &["noise: neither Arrow IPC nor Parquet, nor CSV", "UTF-8"],
    ),
    ("partition packed --out p --key id --bits 1", &["packed: ", "gzip"]),
    ("suggest-key header.csv", &["header.csv: the table has no rows"]),
    (
        "partition rows.csv --out rows.csv --key id --bits 1",
        &["rows.csv: a file; name a directory"],
    ),
    ("partition rows.csv --out p --key what --bits 2", &["what", "Utf8", "hash"]),
    ("partition rows.csv --out p --key id --bits 30", &["1024"]),
    ("partition rows.csv --out p --key id --hash x", &["no number"]),
    ("partition rows.csv --out p --key id --hash 2 --format csv --codec lz4", &["csv"]),
    ("partition rows.csv --out p --key id --hash 2 --codec gzip", &["none, lz4, zstd"]),
    ("partition rows.csv --out p --key id --hash 2 --format parquet --outer deflate", &["parquet"]),
    ("generate particles x --format xlsx", &["\"xlsx\"", "parquet"]),
    (
        "partition rows.csv other.csv --out q --key id --hash 2",
        &["other.csv", "no column \"id\", there is no column \"what\", column \"a\" is new"],
    ),
    ("partition absent --out p --key id --hash 2", &["absent", "No such file"]),
    ("generate planes x", &["particles, ships"]),
    // Object stores, of which a local directory would be made.
    ("partition rows.csv --key id --hash 2 --out gs://b/x", &["://b/x", "only local files"]),
    ("partition s3://b/x.csv --key id --hash 2 --out p", &["://b/x", "only local files"]),
    ("suggest-key gs://b/x.csv", &["://b/x", "only local files"]),
    ("generate particles s3://b/x.arrow", &["://b/x", "only local files"]),
    ("tree add s3://b/x rows.csv --id id --time what", &["://b/x", "only local files"]),
    // Expressions, and columns that they leave out.
    (r#"partition rows.csv --out p --key id --hash 2 --filter "id +""#, &["expression"]),
    (
        r#"partition rows.csv --out p --key id --hash 2 --filter "nobody = 1""#,
        &["nobody", "id, what"],
    ),
    ("partition rows.csv --out p --key id --hash 2 --filter sleep(id)", &["sleep"]),
    ("partition rows.csv --out p --key id --hash 2 --select what", &["\"id\"", "what"]),
    ("suggest-key rows.csv -n 1", &["rows.csv: ", "between 2 and 1024"]),
    ("suggest-key rows.csv --key none", &["no column \"none\""]),
    ("bench rows.csv --bits 2", &["--key"]),
    ("bench rows.csv --key id", &["--bits"]),
    ("bench rows.csv --key x --bits 2", &["\"x\""]),
];

#[test]
fn what_cannot_be_done_is_said() {
    let place = Place::new();
    place.write("rows.csv", CSV);
    place.write("other.csv", "a\n1\n");
    place.write("empty", "");
    place.write("header.csv", "id,what\n");
    place.write("twice.csv", "id,id\n1,2\n");
    place.write("cut.parquet", "PAR1 and then nothing");
    place.write("noise", [0xff, 0xfe, 7, 200, 3]);
    place.write("packed", [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0]);
    for (line, parts) in REFUSED {
        assert_contains(&place.refused(line), parts);
    }
    assert!(!place.path("s3:").exists());
    assert_eq!(place.names("q"), [""; 0]);
}

#[test]
fn rows_are_filtered_and_columns_computed() {
    let place = Place::new();
    place.write("rows.csv", CSV);
    let sql = r#"--filter "id > 1 AND what <> 'e'" --select "id, id * 2 AS twice""#;
    place.done(&format!("partition rows.csv --key id --hash 2 --format csv --out parts {sql}"));
    let mut rows: Vec<String> = Vec::new();
    for name in place.names("parts") {
        let part = place.read(&format!("parts/{name}"));
        let mut lines = part.lines();
        assert_eq!(lines.next(), Some("id,twice"));
        rows.extend(lines.map(str::to_owned));
    }
    rows.sort();
    assert_eq!(rows, ["2,4", "2,4", "5,10"]);
}

#[test]
fn a_key_is_suggested_that_divides_evenly() {
    let place = Place::new();
    // The lowest three bits are always zero, and half of the rows share one value in the other column.
    let rows = (0..4096).map(|row| format!("{},{}\n", row * 8, if row % 2 == 0 { 1 } else { row }));
    place.write("rows.csv", "id,kind\n".to_owned() + &rows.collect::<String>());
    let text = place.done("suggest-key rows.csv -n 8");
    let best = "--key id --bits 3..6: the largest of 8 partitions has 1.00 times";
    assert!(text.starts_with(best), "{text}");
    let json = place.json("suggest-key rows.csv -n 8 --key kind");
    let mut candidates = json["candidates"].as_array().unwrap().iter();
    assert!(candidates.all(|one| one["key"] == "kind" && one["imbalance"].as_f64() > Some(2.0)));
}

#[test]
fn stages_are_measured_and_verified() {
    let place = Place::new();
    place.done("generate particles p.arrow --rows 20000");
    let line = "bench p.arrow --passes 2 -p 2 --key id --hash 3 --codec zstd";
    let parts = ["unpack", "partition", "repack", "2 passes, all verified"];
    assert_contains(&place.done(line), &parts);
    let report = place.json(line);
    assert_eq!(report["table_bytes"], 20_000 * 80);
    assert_eq!(report["passes"].as_array().unwrap().len(), 2);
    let rows = report["parts"].as_array().unwrap().iter();
    assert_eq!(rows.map(|part| part["rows"].as_u64().unwrap()).sum::<u64>(), 20_000);
    let idle = "bench p.arrow --codec zstd --device emulated:bf3 --placement device";
    let idle = place.run_with(idle, b"");
    assert_eq!(idle.status.code(), Some(3));
    assert_contains(&err(&idle), &["no job"]);
}
