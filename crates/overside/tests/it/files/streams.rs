//! Standard input and output, pipes and terminals.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;

use super::*;

#[test]
fn stdin_goes_to_stdout() {
    let bytes = mixed();
    let directory = Directory::with("a", &bytes);
    for line in [
        "$O compress <a | $O decompress",
        "cat a | $O compress - | gzip -dc",
        "cat a | $O compress --format lz4 -c | cat | $O decompress -c -",
        "cat a | $O compress -o b && $O decompress -o - b",
    ] {
        let output = directory.shell(line);
        assert!(output.stdout == bytes && output.stderr.is_empty(), "{line}: {}", err(&output));
        assert_eq!(code(&output), 0);
    }
    assert_eq!(directory.names(), "a b");
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let directory = Directory::with("a", &noise(2 * MIB));
    directory.quietly("compress -k --chunk 8k a");
    for line in ["compress -c a", "decompress -c a.gz"] {
        let mut child = (directory.command(COMMAND).args(line.split(' ')))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0]).unwrap();
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(13), "{line}: {:?}", output.status);
        assert_eq!(err(&output), "", "{line}");
    }
    assert_eq!(directory.names(), "a a.gz");
}

#[test]
fn output_that_is_there_already_is_written_to_and_not_replaced() {
    let directory = Directory::with("a", b"text");
    directory.other("mkfifo fifo");
    let output = directory.shell("$O compress -o fifo a & gzip -dc <fifo; wait");
    assert_eq!((output.stdout.as_slice(), err(&output).as_str()), (&b"text"[..], ""));
    directory.quietly("compress -o /dev/null a");
    assert_eq!(directory.names(), "a fifo");
}

/// Runs a line on a terminal with an empty input. Returns the exit code and the terminal's content.
fn on_terminal(directory: &Directory, line: &str) -> (i32, String) {
    let mut script = directory.command("script");
    script.env("O", COMMAND).args(["-qec", line, "/dev/null"]);
    let output = script.output().unwrap();
    (code(&output), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn compressed_bytes_go_to_no_terminal_unless_forced() {
    let directory = Directory::with("a", b"text");
    directory.quietly("compress -k a");
    let (exit, shown) = on_terminal(&directory, "$O compress -c a");
    assert_eq!(exit, 1);
    assert_contains(&shown, "not writing compressed data to a terminal");
    let (exit, shown) = on_terminal(&directory, "$O decompress");
    assert_eq!(exit, 1);
    assert_contains(&shown, "not read from a terminal; -f does");
    let (exit, shown) = on_terminal(&directory, "$O compress -cf a | wc -c; $O decompress -c a.gz");
    assert_eq!(exit, 0);
    assert!(shown.contains("text"), "{shown}");
    let (exit, shown) = on_terminal(&directory, "$O compress -cf --format zlib a");
    assert_eq!((exit, shown.starts_with('x')), (0, true), "{shown}");
}

#[test]
fn what_takes_long_shows_progress_on_a_terminal_only() {
    let directory = Directory::with("a", b"text");
    let slow = "(cat a; sleep 0.8; cat a)";
    let (_, shown) = on_terminal(&directory, "(cat a; sleep 2; cat a) | $O compress -o b");
    // The second part may come before the first line is due, or behind the last one.
    assert!(["stdin: 4 B, ", "stdin: 8 B, "].iter().any(|line| shown.contains(line)), "{shown}");
    // The progress line is cleared at the end.
    assert!(shown.ends_with("\r\x1b[K"), "{shown:?}");
    let (_, shown) = on_terminal(&directory, &format!("{slow} | $O compress -q -o c"));
    assert_eq!(shown, "");
    let output = directory.shell(&format!("{slow} | $O compress -o d"));
    assert_eq!(err(&output), "");
    assert_eq!(directory.names(), "a b c d");
}

#[test]
fn what_is_not_compressed_is_copied_if_forced() {
    let directory = Directory::with("a", b"neither compressed nor short");
    assert_eq!(code(&directory.run("decompress -c a")), 1);
    assert_eq!(directory.quietly("decompress -cf a"), directory.read("a"));
    directory.write("b", b"abc");
    assert_eq!(directory.quietly("decompress -cf b"), b"abc");
    directory.quietly("compress b");
    assert_eq!(directory.quietly("decompress -cf b.gz"), b"abc");
}

#[test]
fn input_that_comes_in_drops_is_the_same() {
    let directory = Directory::new();
    let mut child = (directory.command(COMMAND).args(["compress", "--chunk", "4k"]))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let bytes = words(20_000, 9);
    let mut stdin = child.stdin.take().unwrap();
    for part in bytes.chunks(777) {
        stdin.write_all(part).unwrap();
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    directory.write("a.gz", &output.stdout);
    assert_eq!(directory.other("gzip -dc a.gz"), bytes);
}
