//! Failures: the final name never has a partial file, and the input stays.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use super::*;

/// Waits until there is an unfinished file.
pub(super) fn wait_for_unfinished(directory: &Directory) {
    let begin = Instant::now();
    while !directory.names().contains(".overside-") {
        assert!(begin.elapsed() < Duration::from_secs(60), "{}", directory.names());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns a command with the signals of a terminal: the background of a shell ignores some, and
/// its children inherit that.
fn heeding_signals(directory: &Directory) -> Command {
    let mut command = directory.command("env");
    command.args(["--default-signal=HUP,INT,TERM", COMMAND]);
    command
}

#[test]
fn a_signal_leaves_nothing_behind() {
    for (signal, number) in [("HUP", 1), ("INT", 2), ("TERM", 15)] {
        let directory = Directory::new();
        let child = heeding_signals(&directory)
            .args(["compress", "-o", "out"])
            .stdin(Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        wait_for_unfinished(&directory);
        directory.other(&format!("kill -{signal} {}", child.id()));
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(number), "{status:?}");
        assert_eq!(directory.names(), "");
    }
}

#[test]
fn a_signal_in_the_middle_of_work_keeps_the_input() {
    let directory = Directory::with("a", &words(8 * MIB, 5));
    let child = heeding_signals(&directory).args(["compress", "--level", "12", "a"]).spawn();
    let mut child = child.unwrap();
    wait_for_unfinished(&directory);
    directory.other(&format!("kill -INT {}", child.id()));
    assert_eq!(child.wait().unwrap().signal(), Some(2));
    assert_eq!(directory.names(), "a");
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let directory = Directory::new();
    let child = (directory.command("sh").env("O", COMMAND))
        .args(["-c", "trap '' HUP; exec $O compress -o out"])
        .stdin(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    wait_for_unfinished(&directory);
    directory.other(&format!("kill -HUP {}", child.id()));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(directory.names(), "out");
}

#[test]
fn a_full_device_is_named() {
    let directory = Directory::with("a", &noise(100_000));
    let output = directory.shell("$O compress -c a >/dev/full");
    assert_eq!(code(&output), 1);
    let said = "stdout: No space left on device (os error 28)\n";
    assert_eq!(err(&output), format!("overside compress: {said}"));
    directory.quietly("compress -k --chunk 1k a");
    let output = directory.shell("$O decompress -c a.gz >/dev/full");
    assert_eq!(err(&output), format!("overside decompress: {said}"));
    assert_eq!(directory.names(), "a a.gz");
}

#[test]
fn a_file_system_that_is_full_keeps_the_input() {
    let directory = Directory::with("big", &noise(MIB));
    directory.quietly("compress -k --chunk 8k big");
    fs::create_dir(directory.path("small")).unwrap();
    // A separate file system in a separate mount namespace.
    let line = "unshare --map-root-user --mount sh -c '
        mount -t tmpfs -o size=1536k none small || exit 99
        cp big small/a && $O compress small/a
        echo $? $(cd small; ls -A)
        rm small/*; cp big.gz small/a.gz && $O decompress small/a.gz
        echo $? $(cd small; ls -A)'";
    let output = directory.shell(line);
    if code(&output) != 0 {
        eprintln!("not tested, since this user cannot mount: {}", err(&output));
        return;
    }
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 a\n1 a.gz\n");
    assert_eq!(
        err(&output),
        "overside compress: small/a.gz: No space left on device (os error 28)\n\
         overside decompress: small/a: No space left on device (os error 28)\n"
    );
}

#[test]
fn a_file_that_may_not_grow_keeps_the_input() {
    let directory = Directory::with("a", &noise(MIB));
    directory.quietly("compress -k --format zstd a");
    let output =
        directory.shell("ulimit -f 100; $O compress a; echo $?; $O decompress -f a.zst; echo $?");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n1\n");
    let text = err(&output);
    assert!(text.contains("a.gz: File too large"), "{text}");
    assert!(text.contains("decompress: a: File too large"), "{text}");
    assert_eq!(directory.names(), "a a.zst");
    assert!(directory.read("a") == noise(MIB));
}

#[test]
fn a_directory_that_cannot_be_written_to_is_named() {
    let directory = Directory::with("a", b"text");
    let output = directory.run("compress -o nowhere/b a");
    assert_eq!(code(&output), 1);
    let said = "nowhere/b: No such file or directory (os error 2)";
    assert_eq!(err(&output), format!("overside compress: {said}\n"));
    assert_eq!(directory.names(), "a");
}

#[test]
fn damaged_files_are_refused_and_kept() {
    let directory = Directory::with("a", &mixed());
    for (format, ending) in [("gzip", "gz"), ("zlib", "zz"), ("lz4", "lz4"), ("zstd", "zst")] {
        let name = format!("b.{ending}");
        let whole = directory.quietly(&format!("compress -c --format {format} a"));
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        let cut = &whole[..whole.len() - 1];
        for (what, bytes) in [("flipped", &flipped[..]), ("cut", cut), ("short", &whole[..3])] {
            directory.write(&name, bytes);
            for line in ["decompress", "decompress -t", "decompress -c"] {
                let output = directory.run(&format!("{line} {name}"));
                let text = err(&output);
                assert_eq!(code(&output), 1, "{format} {what}: {text}");
                let said = format!("overside decompress: {name}: ");
                assert!(text.starts_with(&said) && text.lines().count() == 1, "{text}");
                assert_eq!(directory.names(), format!("a {name}"), "{format} {what}");
            }
        }
        fs::remove_file(directory.path(&name)).unwrap();
    }
    for bytes in [&b"plain text"[..], b""] {
        directory.write("b.gz", bytes);
        assert_eq!(code(&directory.run("decompress b.gz")), 1);
    }
    assert_eq!(directory.names(), "a b.gz");
}

#[test]
fn what_follows_the_data_is_a_warning() {
    let directory = Directory::with("a", b"text");
    let mut bytes = directory.quietly("compress -c a");
    bytes.extend([0; 512]);
    directory.write("b.gz", &bytes);
    directory.quietly("decompress -k b.gz");
    bytes.extend(b"junk");
    directory.write("b.gz", &bytes);
    let output = directory.run("decompress -fk b.gz");
    assert_eq!(code(&output), 2, "{}", err(&output));
    let said = "b.gz: ignored 516 bytes after the compressed data";
    assert_eq!(err(&output), format!("overside decompress: {said}\n"));
    assert_eq!(directory.names(), "a b b.gz");
}

#[test]
fn a_file_of_which_something_was_ignored_is_kept() {
    let directory = Directory::with("a", b"text");
    let gzip = directory.quietly("compress -c a");
    let zlib = directory.quietly("compress -c --format zlib a");
    let zstd = directory.quietly("compress -c --format zstd a");
    for (name, first, second) in [
        ("b.zz", &zlib, &zlib[..]),
        ("b.gz", &gzip, &zstd),
        ("b.gz", &gzip, b"junk"),
        ("b.gz", &gzip, b"\x1e"),
        // Zeros may be padding, or a member that was not written to the disk.
        ("b.gz", &gzip, &[0; 512]),
    ] {
        let bytes = [&first[..], second].concat();
        directory.write(name, &bytes);
        let output = directory.run(&format!("decompress {name}"));
        let ignored = second.len();
        let said = format!("{name}: ignored {ignored} bytes after the compressed data; kept");
        assert_eq!(err(&output), format!("overside decompress: {said}\n"));
        assert_eq!(code(&output), 2);
        assert_eq!(directory.names(), format!("a b {name}"));
        assert!(directory.read(name) == bytes && directory.read("b") == b"text");
        fs::remove_file(directory.path("b")).unwrap();
        fs::remove_file(directory.path(name)).unwrap();
    }
}

#[test]
fn a_member_of_which_only_the_beginning_is_there_is_an_error() {
    let directory = Directory::with("a", b"text");
    let whole = directory.quietly("compress -c a");
    for cut in 1..whole.len() {
        directory.write("b.gz", &[&whole[..], &whole[..cut]].concat());
        let output = directory.run("decompress b.gz");
        let said = format!("b.gz: gzip member 2, at byte {}: truncated", whole.len());
        assert_eq!(err(&output), format!("overside decompress: {said}\n"));
        assert_eq!(code(&output), 1);
        assert_eq!(directory.names(), "a b.gz");
    }
}

#[test]
fn what_a_killed_process_left_goes_with_the_next_one() {
    for line in ["compress --level 12 -p1 a", "compress --level 12 -p1 -o out a"] {
        let directory = Directory::with("a", &words(8 * MIB, 5));
        let mut child = directory.command(COMMAND).args(line.split(' ')).spawn().unwrap();
        wait_for_unfinished(&directory);
        // The file of a living process is not removed.
        let output = directory.run(line);
        assert_eq!(code(&output), 2, "{}", err(&output));
        assert_contains(err(&output), "is being written by another process; skipped");
        assert_contains(directory.names(), ".overside-");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_contains(directory.names(), ".overside-");
        directory.quietly(line);
        let done = if line.contains("out") { "a out" } else { "a.gz" };
        assert_eq!(directory.names(), done);
    }
}

#[test]
fn what_stands_in_the_way_of_an_unfinished_file_is_named() {
    let directory = Directory::with("a", b"text");
    let mut child = directory.command(COMMAND);
    let mut child = child.args(["compress", "-o", "b"]).stdin(Stdio::piped()).spawn().unwrap();
    wait_for_unfinished(&directory);
    let names = directory.names();
    let unfinished = names.split(' ').next().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(directory.path(unfinished)).unwrap();
    fs::create_dir(directory.path(unfinished)).unwrap();
    let output = directory.run("compress -o b a");
    let said = format!("b: {unfinished} is in the way: Is a directory (os error 21)");
    assert_eq!(err(&output), format!("overside compress: {said}\n"));
    assert_eq!(directory.names(), format!("{unfinished} a"));
}

#[test]
fn a_format_that_was_promised_must_come() {
    let directory = Directory::with("a", b"text");
    directory.quietly("compress a");
    assert_eq!(code(&directory.run("decompress --format zstd a.gz")), 1);
    assert_eq!(directory.names(), "a.gz");
    directory.quietly("decompress --format gzip a.gz");
}
