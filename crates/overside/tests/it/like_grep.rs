//! `overside match` compared with grep, ripgrep and zgrep: the same lines, the same exit codes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use overside_testkit::assert_contains;

const COMMAND: &str = env!("CARGO_BIN_EXE_overside");

const TEXT: &str = "one\nfoo bar\n  food\ntwo\nthree\na.b\naxb\nfour foo\nfive\nsix\nseven\nfoo_bar\n\
                    (foo)\nend foo";

/// Makes a directory with files of all kinds.
fn files() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let write = |name: &str, bytes: &[u8]| fs::write(path.join(name), bytes).unwrap();
    write("text", TEXT.as_bytes());
    write("other", b"nothing\nfoo once\n");
    write("empty", b"");
    write("binary", b"foo\n\0foo bar\n");
    write("zeros", b"foo\nbar\0bar\nfoo\0no");
    fs::create_dir_all(path.join("tree/below")).unwrap();
    write("tree/a", b"a foo\n");
    write("tree/below/b", b"b foo\nb bar\n");
    write("tree/.hidden", b"hidden foo\n");
    symlink("a", path.join("tree/link")).unwrap();
    directory
}

fn run(directory: &Path, program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.arg("60").arg(program).args(arguments);
    let command = command.current_dir(directory).stdin(Stdio::null());
    // In this locale grep matches bytes.
    let command = command.env("LC_ALL", "C").env_remove("NO_COLOR");
    command.output().unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// Returns stdout and the exit code of a command.
fn answer(output: &Output) -> (String, i32) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text, output.status.code().unwrap_or(-1))
}

/// Checks for each line of arguments that `overside match` prints the same as grep, with the same
/// exit code.
fn same_as_grep(directory: &Path, lines: &[&str]) {
    for line in lines {
        let arguments: Vec<&str> = line.split(' ').collect();
        let syntax: &[&str] = match line.contains('F') {
            true => &[],
            false => &["-E"],
        };
        let theirs = run(directory, "grep", &[syntax, &arguments[..]].concat());
        let ours = run(directory, COMMAND, &[&["match"], &arguments[..]].concat());
        assert_eq!(answer(&ours), answer(&theirs), "{line}");
        let theirs = String::from_utf8(theirs.stderr).unwrap();
        let said = theirs.replace("grep: ", "overside match: ");
        assert_eq!(String::from_utf8(ours.stderr).unwrap(), said, "{line}");
    }
}

#[test]
fn patterns_mean_the_same() {
    let directory = files();
    same_as_grep(
        directory.path(),
        &[
            "-F a.b text",
            "-F -e ( -e a.b text",
            "-Fi A.B text",
            "-Fc foo text",
            "-Fx axb text",
            "-x fo+.* text",
            "-w foo text",
            "-wn fo+d? text",
            "-wc foo text",
            "-wo foo text",
            "-wv foo text",
            "-Fw foo text other",
            "-w absent text",
            "-Fo o text",
        ],
    );
}

#[test]
fn no_pattern_matches_nothing() {
    let directory = files();
    // Without -v grep prints no count at all.
    let mut lines = vec!["-f empty text other".to_owned(), "-vc -f empty text other".into()];
    for option in ["v", "n", "vn", "o", "vo", "w", "vw", "vx", "vi", "vF", "l", "vl", "vm1", "vnC1"]
    {
        lines.push(format!("--color=always -{option} -f empty text other empty"));
        lines.push(format!("-{option} -f empty -e foo text"));
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    same_as_grep(directory.path(), &lines);
}

#[test]
fn limits_and_context_are_the_same() {
    let directory = files();
    let mut lines = vec![
        "-m 2 foo text other".to_owned(),
        "-m 0 foo text".into(),
        "-c -m 2 foo text other".into(),
        "-q -m 1 foo text".into(),
        "-vn -m 3 foo text".into(),
        "-m 1 -A 3 foo text".into(),
        "-m 2 -C 1 -n foo text".into(),
    ];
    for options in ["-A 1", "-B 2", "-C 1", "-A 1 -B 3", "-C 2 -A 0", "-A 100", "-B 100"] {
        for rest in ["foo text", "-n foo text", "-H foo text other", "-nv o text", "-n absent text"]
        {
            lines.push(format!("{options} {rest}"));
        }
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    same_as_grep(directory.path(), &lines);
}

#[test]
fn colors_are_the_same() {
    let directory = files();
    let mut lines = Vec::new();
    for rest in [
        "foo text",
        "-n foo text other",
        "-on fo+ text",
        "-C 1 -n foo text",
        "-c foo text other",
        "-l foo text other",
        "-v foo other",
        "-vn -C 1 foo other",
        "-wF foo text",
    ] {
        for when in ["always", "never", "auto"] {
            lines.push(format!("--color={when} {rest}"));
        }
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    same_as_grep(directory.path(), &lines);
}

/// Returns the output of `overside match` on a terminal.
fn on_terminal(directory: &Path, variable: (&str, &str), line: &str) -> String {
    let mut script = Command::new("script");
    script.args(["-qec", &format!("{COMMAND} match {line}"), "/dev/null"]);
    let script = script.current_dir(directory).stdin(Stdio::null());
    let script = script.env_remove("NO_COLOR").env("TERM", "xterm");
    let output = script.env(variable.0, variable.1).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn unasked_a_terminal_gets_colors_unless_nobody_wants_them() {
    let directory = files();
    let shown = |variable, line| on_terminal(directory.path(), variable, line);
    let is_colored = |text: &str| text.contains("\x1b[01;31m");
    assert!(is_colored(&shown(("A", "b"), "foo text")));
    assert!(!is_colored(&shown(("NO_COLOR", "1"), "foo text")));
    assert!(!is_colored(&shown(("TERM", "dumb"), "foo text")));
    assert!(is_colored(&shown(("NO_COLOR", "1"), "--color=always foo text")));
    assert!(!is_colored(&shown(("A", "b"), "--color=never foo text")));
}

#[test]
fn binary_files_are_not_printed() {
    let directory = files();
    same_as_grep(
        directory.path(),
        &[
            "foo binary",
            "-n foo binary text",
            "-o foo binary",
            "-C 1 foo binary",
            "absent binary",
            "-c foo binary",
            "-l foo binary",
            "-a foo binary",
            "-I foo binary text",
            "-Ic foo binary",
            "-q foo binary",
        ],
    );
    // The zero byte is behind the inspected beginning: printed records are text anyway.
    let mut late = b"foo\n".repeat(20_000);
    late.extend_from_slice(b"foo \0\nfoo\n");
    fs::write(directory.path().join("late"), late).unwrap();
    let output = run(directory.path(), COMMAND, &["match", "foo", "late"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with("foo\n") && !text.contains('\0'));
    assert_eq!(output.stderr, b"overside match: late: binary file matches\n");
}

#[test]
fn zero_bytes_end_records() {
    let directory = files();
    same_as_grep(
        directory.path(),
        &[
            "-z foo zeros",
            "-zc bar zeros",
            "-zn ^bar zeros",
            "-zo fo+ zeros",
            "-zv foo zeros",
            "-z -m 1 foo zeros",
        ],
    );
    let refused = run(directory.path(), COMMAND, &["match", "-z", "--column", "a", "b", "text"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn directories_are_searched_when_that_is_asked_for() {
    let directory = files();
    let sorted = |program: &str, arguments: &[&str]| {
        let (text, code) = answer(&run(directory.path(), program, arguments));
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        (lines, code)
    };
    for line in [
        "-r foo tree",
        "-rn foo tree text",
        "-rc foo tree",
        "-rl foo tree",
        "-rh foo tree",
        "-r foo text",
        "-r absent tree",
        "-r foo",
        "-rwF foo ./tree",
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let ours = sorted(COMMAND, &[&["match"], &arguments[..]].concat());
        assert_eq!(ours, sorted("grep", &arguments), "{line}");
    }
    // Sorted by name, independently of the file system.
    let output = run(directory.path(), COMMAND, &["match", "-r", "-l", "foo", "tree"]);
    assert_eq!(output.stdout, b"tree/.hidden\ntree/a\ntree/below/b\n");
    // ripgrep finds the same if it skips no files.
    let theirs = sorted("rg", &["-uu", "--no-heading", "-n", "foo", "tree"]);
    assert_eq!(sorted(COMMAND, &["match", "-rn", "foo", "tree"]), theirs);
    let refused = run(directory.path(), COMMAND, &["match", "foo", "tree"]);
    assert_eq!(refused.status.code(), Some(2));
    assert_contains(String::from_utf8(refused.stderr).unwrap(), "-r searches");
}

#[test]
fn pretty_is_what_ripgrep_prints() {
    let directory = files();
    let plain = |text: &str| -> String {
        // ripgrep has other colors.
        let mut parts = text.split("\x1b[");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| {
            text + part.split_once(['m', 'K']).map_or("", |(_, rest)| rest)
        })
    };
    for arguments in
        [&["foo", "text", "other"][..], &["-C", "1", "foo", "text", "other"], &["foo", "other"]]
    {
        let (ours, code) =
            answer(&run(directory.path(), COMMAND, &[&["match", "--pretty"], arguments].concat()));
        let theirs = run(directory.path(), "rg", &[&["-p", "-j", "1"], arguments].concat());
        let (theirs, their_code) = answer(&theirs);
        assert!(ours.contains("\x1b[01;31m\x1b[Kfoo"), "{ours}");
        assert_eq!((plain(&ours), code), (plain(&theirs), their_code), "{arguments:?}");
    }
}

#[test]
fn compressed_files_are_searched_inside() {
    let directory = files();
    let path = directory.path();
    for (compress, name) in
        [("gzip -c", "text.gz"), ("zstd -qc", "text.zst"), ("lz4 -qc", "text.lz4")]
    {
        let line = format!("{compress} text >{name} && cp {name} plain");
        assert!(run(path, "sh", &["-c", &line]).status.success());
        for rest in ["-n foo", "-c foo", "-w -C 1 foo", "-zc foo", "absent"] {
            let rest: Vec<&str> = rest.split(' ').collect();
            let search =
                |file| answer(&run(path, COMMAND, &[&["match"], &rest[..], &[file]].concat()));
            // The format is detected by the content, not by the name, also in a pipe.
            assert_eq!(search(name), search("text"), "{name} {rest:?}");
            assert_eq!(search("plain"), search("text"), "{name} {rest:?}");
        }
        let piped = format!("cat {name} | {COMMAND} match -n foo");
        let piped = answer(&run(path, "sh", &["-c", &piped]));
        assert_eq!(piped, answer(&run(path, COMMAND, &["match", "-n", "foo", "text"])));
        let rg = answer(&run(path, "rg", &["-z", "-n", "foo", name]));
        assert_eq!(answer(&run(path, COMMAND, &["match", "-n", "foo", name])), rg);
    }
    let zgrep = answer(&run(path, "zgrep", &["-n", "foo", "text.gz", "other"]));
    assert_eq!(answer(&run(path, COMMAND, &["match", "-n", "foo", "text.gz", "other"])), zgrep);
    // A compressed binary file counts as binary.
    assert!(run(path, "sh", &["-c", "gzip -c binary >binary.gz"]).status.success());
    let output = run(path, COMMAND, &["match", "foo", "binary.gz"]);
    let said = b"overside match: binary.gz: binary file matches\n";
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b""[..], &said[..]));
}

#[test]
fn a_compressed_file_that_is_cut_off_is_searched_as_far_as_it_goes() {
    let directory = files();
    let path = directory.path();
    let lines: String =
        (0..200_000u64).map(|number| format!("line {}\n", number * number)).collect();
    fs::write(path.join("long"), &lines).unwrap();
    for (compress, name) in
        [("gzip -c", "cut.gz"), ("zstd -qc", "cut.zst"), ("lz4 -qcB4", "cut.lz4")]
    {
        let line =
            format!("{compress} long >whole; head -c $(($(wc -c <whole) / 2)) whole >{name}");
        assert!(run(path, "sh", &["-c", &line]).status.success());
        let output = run(path, COMMAND, &["match", "line", name]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().count() > 50_000, "{name}: {}", text.lines().count());
        assert!(lines.starts_with(text.trim_end()), "{name}");
        assert_contains(String::from_utf8(output.stderr).unwrap(), &format!("{name}: "));
    }
}

#[cfg(feature = "flow")]
#[test]
fn tables_inside_compressed_files_are_tables() {
    let directory = files();
    let path = directory.path();
    fs::write(path.join("rows.tsv"), "id\twhat\n1\tleft, closed\n").unwrap();
    assert!(run(path, "gzip", &["rows.tsv"]).status.success());
    let output = run(path, COMMAND, &["match", "--column", "what", "closed", "rows.tsv.gz"]);
    assert_eq!(answer(&output), ("left, closed\n".into(), 0));
}
