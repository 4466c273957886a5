//! `overside match` as users call it.

use overside_testkit::assert_contains;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const COMMAND: &str = env!("CARGO_BIN_EXE_overside");

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(COMMAND);
    command.arg("match").args(arguments);
    command
}

/// Runs the verb in `directory` with `input` on stdin.
fn run_in(directory: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = command(arguments)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command may stop reading early.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn run(arguments: &[&str], input: &[u8]) -> Output {
    run_in(Path::new("."), arguments, input)
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns stdout and the exit code of a command, which must not write to stderr.
fn answer(arguments: &[&str], input: &str) -> (String, i32) {
    let output = run(arguments, input.as_bytes());
    assert_eq!(err(&output), "", "{arguments:?}");
    (out(&output), output.status.code().unwrap())
}

fn files() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("one", "Accident on I-70 at Exit 41\nRoad closed\nRamp to I-77\n");
    write("two", "nothing here\nat Exit 1 of I-70");
    write("empty", "");
    write("patterns", "Ramp\nclosed$\n");
    write("rows.csv", "id,what\n1,\"closed\nsoon\"\n2,open\n3,closed\n");
    write("rows.tsv", "id\twhat\n1\tleft, closed\n");
    directory
}

#[test]
fn it_answers_as_grep_does() {
    let text = "abc\nxyz\nABC abc\nabc";
    let cases: [(&[&str], &str, i32); 17] = [
        (&["abc"], "abc\nABC abc\nabc\n", 0),
        (&["-e", "^abc$"], "abc\nabc\n", 0),
        (&["-e", "xyz", "-e", "ABC"], "xyz\nABC abc\n", 0),
        (&["-e", "xyz\nABC"], "xyz\nABC abc\n", 0),
        (&["-i", "^ABC$"], "abc\nabc\n", 0),
        (&["-v", "abc"], "xyz\n", 0),
        (&["-n", "abc"], "1:abc\n3:ABC abc\n4:abc\n", 0),
        (&["-nv", "^abc$"], "2:xyz\n3:ABC abc\n", 0),
        (&["-c", "abc"], "3\n", 0),
        (&["-cv", "abc"], "1\n", 0),
        (&["-c", "abcd"], "0\n", 1),
        (&["-o", "[bc]+|B"], "bc\nB\nbc\nbc\n", 0),
        (&["-on", "-i", "ab"], "1:ab\n3:AB\n3:ab\n4:ab\n", 0),
        (&["-q", "abc"], "", 0),
        (&["-q", "abcd"], "", 1),
        (&["-l", "abc"], "(standard input)\n", 0),
        (&["-H", "xyz"], "(standard input):xyz\n", 0),
    ];
    for (arguments, expected, code) in cases {
        assert_eq!(answer(arguments, text), (expected.into(), code), "{arguments:?}");
    }
    assert_eq!(answer(&["x"], ""), (String::new(), 1));
    assert_eq!(answer(&["-c", ""], "a\n\nb"), ("3\n".into(), 0));
}

#[test]
fn bytes_are_bytes() {
    let output = run(&["-an", r"\xff\x00"], b"\xfe\n\xff\0\n\r\n");
    assert_eq!(output.stdout, b"2:\xff\0\n");
    let output = run(&["--json", r"\xff"], b"\xff\n");
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["value"]["base64"], "/w==");
}

#[test]
fn files_are_named_and_what_cannot_be_read_is_said() {
    let directory = files();
    let run = |arguments: &[&str]| run_in(directory.path(), arguments, b"");
    let both = run(&["-c", "I-7", "one", "two", "empty"]);
    assert_eq!(out(&both), "one:2\ntwo:1\nempty:0\n");
    assert_eq!(out(&run(&["-ch", "I-7", "one", "two"])), "2\n1\n");
    assert_eq!(out(&run(&["-l", "Exit 1$|Ramp", "one", "two"])), "one\n");
    assert_eq!(out(&run(&["-f", "patterns", "one"])), "Road closed\nRamp to I-77\n");
    assert_eq!(run(&["-q", "Ramp", "one", "absent"]).status.code(), Some(0));

    fs::create_dir(directory.path().join("dir")).unwrap();
    let output = run(&["Ramp", "absent", "dir", "one"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(out(&output), "one:Ramp to I-77\n");
    assert_contains(err(&output), "absent: No such file");
    assert_contains(err(&output), "dir: it is a directory");
}

#[test]
fn objects_tell_where_a_record_is_and_what_matches() {
    let directory = files();
    let output = run_in(directory.path(), &["--json", "I-7[0-9]", "one"], b"");
    let objects: Vec<serde_json::Value> =
        (out(&output).lines()).map(|line| serde_json::from_str(line).unwrap()).collect();
    let first = serde_json::json!({
        "schema": "match/1", "file": "one", "record": 1, "offset": 0,
        "value": "Accident on I-70 at Exit 41", "matches": [[12, 16]],
    });
    assert_eq!(objects[0], first);
    assert_eq!(objects[1]["record"], 3);
    assert_eq!(objects[1]["offset"], 40);
    let output = run_in(directory.path(), &["--json", "-c", "I-7", "one"], b"");
    assert_eq!(out(&output), "{\"count\":2,\"file\":\"one\",\"schema\":\"match/1\"}\n");
}

#[test]
fn rows_of_a_column_are_records() {
    let directory = files();
    let run = |arguments: &[&str]| run_in(directory.path(), arguments, b"");
    let count = run(&["-c", "--column", "what", "closed", "rows.csv", "rows.tsv"]);
    assert_eq!(out(&count), "rows.csv:2\nrows.tsv:1\n");
    let json = out(&run(&["--json", "--column", "what", "^closed", "rows.csv"]));
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(
        first,
        serde_json::json!({
            "schema": "match/1", "file": "rows.csv", "record": 1, "value": "closed\nsoon",
            "matches": [[0, 6]],
        })
    );
    assert_eq!(out(&run(&["-n", "--column", "what", "open", "rows.csv"])), "2:open\n");
    let absent = run(&["--column", "where", "a", "rows.csv"]);
    assert_eq!(absent.status.code(), Some(2));
    assert_contains(err(&absent), "id, what");
    let piped = run_in(directory.path(), &["-c", "--column", "what", "closed"], b"what\nclosed\n");
    assert_eq!(out(&piped), "1\n");
}

#[test]
fn files_that_are_no_text_are_not_searched_silently() {
    let directory = files();
    let write = |name: &str, bytes: &[u8]| fs::write(directory.path().join(name), bytes).unwrap();
    write("table.parquet", b"PAR1 and so on");
    write("text.gz", b"\x1f\x8b\x08\0 and so on");
    let run = |arguments: &[&str]| run_in(directory.path(), arguments, b"");
    let table = run(&["so", "table.parquet"]);
    assert_eq!(table.status.code(), Some(2));
    assert_contains(err(&table), "--column");
    let damaged = run(&["--column", "a", "so", "table.parquet"]);
    assert_eq!(damaged.status.code(), Some(2));
    // The compressed content is searched, and nothing matches.
    for arguments in [&["-c", "so", "text.gz"][..], &["--column", "a", "so", "text.gz"]] {
        let damaged = run(arguments);
        assert_eq!(damaged.status.code(), Some(2));
        assert_contains(err(&damaged), "text.gz: gzip member 1, at byte 0");
    }
    write("text.xz", b"\xfd7zXZ\0 and so on");
    let compressed = run(&["-c", "so", "text.xz"]);
    assert_eq!(compressed.status.code(), Some(0));
    assert_contains(err(&compressed), "compressed by xz");
}

#[test]
fn a_device_finds_the_same_and_it_is_told_where_it_ran() {
    let text = (0..20_000)
        .map(|number| format!("Accident on I-{number} at Exit {}\n", number % 100))
        .collect::<String>();
    let expected = answer(&["-n", "at Exit 7$"], &text);
    assert_eq!(expected.0.lines().count(), 200);
    for placement in ["device", "split:50", "adaptive"] {
        let arguments = ["--device", "emulated:bf2", "--placement", placement, "--explain"];
        let output = run(&[&arguments[..], &["-n", "at Exit 7$"]].concat(), text.as_bytes());
        assert_eq!(out(&output), expected.0, "{placement}");
        let said = err(&output);
        assert!(said.contains(placement) && said.contains("cpu: "), "{said}");
        assert!(said.contains("emulated:bf2: "), "{said}");
    }
}

#[test]
fn what_is_not_understood_is_an_error() {
    let cases: [(&[&str], &str); 9] = [
        (&[], "no pattern"),
        (&["-e", "("], "unclosed group"),
        (&["--cuont", "a"], "'--count'"),
        (&["-Z", "a"], "'-Z'"),
        (&["--placement", "device", "a"], "--device"),
        (&["--placement", "gpu", "a"], "placement"),
        (&["--device", "bf2", "a"], "emulated:bf2"),
        (&["--engine", "grep", "a"], "hyperscan"),
        (&["--threads", "0", "a"], "--threads"),
    ];
    for (arguments, reason) in cases {
        let output = run(arguments, b"a\n");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(err(&output).contains(reason), "{arguments:?}: {}", err(&output));
        assert_eq!(out(&output), "");
    }
    let help = run(&["--help"], b"");
    assert!(help.status.success() && out(&help).contains("Usage: overside match"));
}

fn spawn(arguments: &[&str]) -> Child {
    command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_line_is_shown_when_it_comes() {
    let mut child = spawn(&["a"]);
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for text in ["ab\nb\n", "ba\n"] {
        input.write_all(text.as_bytes()).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), text.lines().next().unwrap());
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_file_that_becomes_shorter_is_an_error_and_no_crash() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    fs::write(&path, "a line\n".repeat(4 << 20)).unwrap();
    let file = path.to_str().unwrap();
    let mut child = spawn(&["line", file]);
    // It has begun, and waits for its reader.
    let mut printed = child.stdout.take().unwrap();
    printed.read_exact(&mut [0; 7]).unwrap();
    let shortened = fs::OpenOptions::new().write(true).open(&path);
    shortened.unwrap().set_len(4096).unwrap();
    printed.read_to_end(&mut Vec::new()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = "the file became shorter, or could not be read, while it was searched";
    assert!(err(&output).ends_with(&format!("overside match: {file}: {said}\n")));
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let mut child = spawn(&["a"]);
    let mut input = child.stdin.take().unwrap();
    let mut first = [0; 2];
    input.write_all(&b"a\n".repeat(1000)).unwrap();
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut first).unwrap();
    drop(output);
    let begin = Instant::now();
    while input.write_all(&b"a\n".repeat(1000)).is_ok() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it does not end");
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(err(&output), "");
}

#[test]
fn an_output_that_is_full_is_named_and_no_input() {
    let directory = files();
    for arguments in [
        &["I-7", "one", "two"][..],
        &["-c", "I-7", "one", "two"],
        &["-l", "I-7", "one", "two"],
        &["--json", "I-7", "one", "two"],
        &["--json", "--column", "what", "closed", "rows.csv"],
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let output = (command(arguments).current_dir(directory.path()))
            .stdout(full.unwrap())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(
            err(&output),
            "overside match: stdout: No space left on device (os error 28)\n",
            "{arguments:?}"
        );
    }
}

#[test]
fn a_damaged_table_is_refused_in_one_line() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/records");
    let mut refused = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        // The first byte belongs to the fuzzer.
        fs::write(directory.path().join("table"), &bytes[1..]).unwrap();
        let output = run_in(directory.path(), &["-c", "--column", "t", "a", "table"], b"");
        let said = err(&output);
        match output.status.code() {
            Some(0 | 1) => assert_eq!(said, ""),
            Some(2) => {
                refused += 1;
                assert_eq!(said.lines().count(), 1, "{said}");
                assert!(said.starts_with("overside match: table: "), "{said}");
            }
            other => panic!("{other:?} {said}"),
        }
    }
    assert!(refused > 3);
    let names = "x\x1b[2J,".repeat(400);
    let output = run(&["--column", "t", "a"], format!("{names}\n1\n").as_bytes());
    let said = err(&output);
    assert!(said.len() < 1500 && said.contains("more"), "{said}");
    assert!(!said.contains('\x1b') && said.lines().count() == 1, "{said}");
}
