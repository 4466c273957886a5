//! Files are replaced as by gzip: completely and with their attributes, or not at all.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::process::Child;
use std::time::{Duration, UNIX_EPOCH};

use super::*;

/// Checks the exit code of a line, and its message after `overside VERB: `.
fn says(directory: &Directory, line: &str, exit: i32, said: &str) {
    let output = directory.run(line);
    let verb = line.split(' ').next().unwrap();
    let expected = format!("overside {verb}: {said}\n");
    assert_eq!((code(&output), err(&output)), (exit, expected), "{line}");
}

#[test]
fn a_file_is_replaced_or_kept_as_told() {
    let directory = Directory::with("a", b"text");
    directory.quietly("compress a");
    assert_eq!(directory.names(), "a.gz");
    directory.quietly("decompress -k a.gz");
    assert_eq!(directory.names(), "a a.gz");
    directory.quietly("compress -k --format zstd a");
    directory.quietly("compress -o other a");
    assert_eq!(directory.names(), "a a.gz a.zst other");
    assert_eq!(directory.quietly("decompress -c a.zst other"), b"texttext");
    // A symbolic link remains one when its target is written.
    symlink("other", directory.path("link")).unwrap();
    directory.quietly("compress -f --format lz4 -o link a");
    assert_eq!(directory.other("lz4 -dc other"), b"text");
    fs::remove_file(directory.path("link")).unwrap();
    directory.quietly("decompress -t a.zst a.gz other");
    assert_eq!(directory.names(), "a a.gz a.zst other");
}

#[test]
fn attributes_stay() {
    let directory = Directory::with("a", b"text");
    let path = directory.path("a");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let root = fs::metadata(&path).unwrap().uid() == 0;
    if root {
        chown(&path, Some(12345), Some(54321)).unwrap();
    }
    let time = UNIX_EPOCH + Duration::new(1_000_000_007, 123_456_789);
    fs::File::open(&path).unwrap().set_modified(time).unwrap();
    let before = fs::metadata(&path).unwrap();
    for (line, name) in [("compress a", "a.gz"), ("decompress a.gz", "a")] {
        directory.quietly(line);
        let after = fs::metadata(directory.path(name)).unwrap();
        assert_eq!(after.mode(), before.mode());
        assert_eq!(after.modified().unwrap(), time);
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    }
}

#[test]
fn endings_decide_what_files_are_called() {
    let directory = Directory::with("a", b"text");
    directory.quietly("compress a");
    for (from, to) in [("b.tgz", "b.tar"), ("c.GZ", "c"), ("d.e.zlib", "d.e")] {
        fs::copy(directory.path("a.gz"), directory.path(from)).unwrap();
        directory.quietly(&format!("decompress {from}"));
        assert_eq!(directory.read(to), b"text");
        fs::remove_file(directory.path(to)).unwrap();
    }
    // The file is found without its ending, as by gunzip.
    directory.quietly("decompress a");
    assert_eq!(directory.names(), "a");
    says(
        &directory,
        "decompress a",
        2,
        "a: unknown suffix; skipped (use -c or -o, or name it with -S)",
    );
    directory.write("a.gz", b"");
    says(&directory, "compress a.gz", 2, "a.gz already ends with .gz; skipped");
    directory.quietly("compress -f a.gz");
    assert_eq!(directory.names(), "a a.gz.gz");
}

#[test]
fn nothing_is_overwritten_unless_forced() {
    let directory = Directory::with("a", b"text");
    directory.write("a.gz", b"mine");
    says(&directory, "compress a", 2, "a.gz already exists; not overwritten (-f does)");
    says(&directory, "compress -o a.gz a", 2, "a.gz already exists; not overwritten (-f does)");
    assert_eq!(directory.read("a.gz"), b"mine");
    let quiet = directory.run("compress -q a");
    assert_eq!((code(&quiet), err(&quiet)), (2, String::new()));
    directory.quietly("compress -f a");
    assert_eq!(directory.names(), "a.gz");
    assert_eq!(directory.other("gzip -dc a.gz"), b"text");

    fs::create_dir(directory.path("b.gz")).unwrap();
    directory.write("b", b"text");
    assert_eq!(code(&directory.run("compress -f b")), 1);
    assert_eq!(directory.names(), "a.gz b b.gz");
    assert_eq!(code(&directory.run("compress -f -o b b")), 1);
    assert_eq!(directory.read("b"), b"text");
}

#[test]
fn the_other_files_are_done_when_one_cannot_be() {
    let directory = Directory::with("a", b"text");
    directory.write("b.gz", b"text");
    let output = directory.run("compress nothing b.gz a");
    assert_eq!(code(&output), 1);
    assert_eq!(
        err(&output),
        "overside compress: nothing: No such file or directory (os error 2)\n\
         overside compress: b.gz already ends with .gz; skipped\n"
    );
    assert_eq!(directory.names(), "a.gz b.gz");
}

#[test]
fn what_gzip_leaves_alone_is_left_alone() {
    let directory = Directory::with("a", b"text");
    let path = |name| directory.path(name);
    fs::create_dir(path("d")).unwrap();
    fs::hard_link(path("a"), path("linked")).unwrap();
    symlink("a", path("s")).unwrap();
    for (name, mode) in [("suid", 0o4755), ("sgid", 0o2755), ("sticky", 0o1644)] {
        directory.write(name, b"text");
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    directory.other("mkfifo fifo");
    let names = directory.names();
    for (name, exit, said) in [
        ("d", 2, "d is a directory (-r goes into it); skipped"),
        ("a", 2, "a has 1 other link(s) (-f goes on); skipped"),
        ("sticky", 2, "sticky has the sticky bit set (-f goes on); skipped"),
        ("fifo", 2, "fifo is a pipe and no regular file (-c reads it); skipped"),
        ("s", 1, "s is a symbolic link; -f follows it and removes it, -c only reads"),
    ] {
        says(&directory, &format!("compress {name}"), exit, said);
    }
    for name in ["suid", "sgid"] {
        let said =
            format!("{name} runs as another user or group (set-user-ID, set-group-ID); skipped");
        says(&directory, &format!("compress -f {name}"), 2, &said);
    }
    assert_eq!(directory.names(), names);

    directory.quietly("compress -f linked sticky s");
    assert_eq!(directory.names(), "a d fifo linked.gz s.gz sgid sticky.gz suid");
    assert_eq!(directory.read("a"), b"text");
    symlink("a", path("s")).unwrap();
    assert_eq!(directory.other("gzip -dc s.gz"), b"text");
    directory.write("b.gz", &directory.quietly("compress -c s"));
    assert_eq!(directory.quietly("decompress -c b.gz"), b"text");
}

#[test]
fn what_changes_while_it_is_read_is_kept() {
    use std::io::Write;
    let directory = Directory::with("a", &words(8 * MIB, 5));
    // This level takes long.
    let child = (directory.command(COMMAND).args(["compress", "--level", "12", "-p1", "a"]))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    failing::wait_for_unfinished(&directory);
    let mut file = fs::OpenOptions::new().append(true).open(directory.path("a")).unwrap();
    file.write_all(b"more").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("a: changed while it was read; kept"));
    assert_eq!(directory.names(), "a a.gz");
}

/// Returns a process that was stopped while it replaced the file `from`.
fn stopped_in_the_middle(line: &str, from: &str) -> (Directory, Child) {
    // On a busy machine it may finish before it is stopped, so several attempts are made.
    for _ in 0..20 {
        let directory = Directory::with("a", &words(16 * MIB, 5));
        if from == "a.gz" {
            directory.quietly("compress a");
        }
        let mut command = directory.command(COMMAND);
        let command = command.args(line.split(' ')).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        while child.try_wait().unwrap().is_none() {
            if directory.names().contains(".overside-") {
                directory.other(&format!("kill -STOP {}", child.id()));
                if directory.names().contains(".overside-") {
                    return (directory, child);
                }
                directory.other(&format!("kill -CONT {}", child.id()));
            }
        }
    }
    panic!("{line}: always over before it was seen");
}

#[test]
fn a_file_that_takes_the_name_during_work_stays() {
    for (line, from, to) in [
        ("compress --level 12 -p1 a", "a", "a.gz"),
        ("compress --level 12 -p1 -f a", "a", "a.gz"),
        ("decompress -p1 a.gz", "a.gz", "a"),
    ] {
        for taken in [true, false] {
            let (directory, child) = stopped_in_the_middle(line, from);
            let read = directory.read(from);
            fs::rename(directory.path(from), directory.path("rotated")).unwrap();
            if taken {
                directory.write(from, b"never read");
            }
            directory.other(&format!("kill -CONT {}", child.id()));
            let output = child.wait_with_output().unwrap();
            assert_eq!(code(&output), 2, "{line}: {}", err(&output));
            let verb = line.split(' ').next().unwrap();
            let said = match taken {
                true => "another file took its name while it was read; kept",
                false => "removed or renamed while it was read",
            };
            assert_eq!(err(&output), format!("overside {verb}: {from}: {said}\n"));
            assert!(directory.read("rotated") == read);
            directory.quietly(&format!("decompress -t {}", if to == "a" { "rotated" } else { to }));
            let mut names = vec!["rotated", to];
            if taken {
                assert_eq!(directory.read(from), b"never read");
                names.push(from);
            }
            names.sort_unstable();
            assert_eq!(directory.names(), names.join(" "));
        }
    }
}

#[test]
fn names_do_nothing_to_the_terminal() {
    let directory = Directory::new();
    let name = "a\x1b[31m\nb\u{202e}";
    let shown = r"a\x1b[31m\nb\u202e";
    let run = |arguments: &[&str]| {
        let output = directory.command(COMMAND).args(arguments).output().unwrap();
        (code(&output), err(&output))
    };
    let absent = "No such file or directory (os error 2)";
    for verb in ["compress", "decompress", "match"] {
        let said = format!("overside {verb}: {shown}: {absent}\n");
        let exit = if verb == "match" { 2 } else { 1 };
        let pattern: &[&str] = if verb == "match" { &["-e", "x"] } else { &[] };
        assert_eq!(run(&[&[verb], pattern, &[name]].concat()), (exit, said));
    }
    directory.write(name, b"text");
    let (_, said) = run(&["compress", "-v", name]);
    assert!(said.starts_with(&format!("{shown} -> {shown}.gz: ")), "{said}");
    let (_, said) = run(&["compress", "-f", "--stats", "json", &format!("{name}.gz")]);
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["input"], format!("{name}.gz"));
    // An unknown option is shown without its control characters.
    let (_, said) = run(&["compress", "--no\x1b[31m"]);
    assert!(said.contains(r"--no\x1b[31m"), "{said}");
}
