//! Options, names and behavior of gzip that scripts and tar rely on.

use std::os::unix::fs::symlink;

use super::*;

/// Makes a tree of files: text, one that is already compressed, a link, and one in a directory.
fn tree() -> Directory {
    let directory = Directory::new();
    fs::create_dir_all(directory.path("d/below")).unwrap();
    directory.write("d/a", &words(5000, 1));
    directory.write("d/below/b", &words(7000, 2));
    directory.write("d/old.gz", &directory_gzip(b"old"));
    symlink("a", directory.path("d/link")).unwrap();
    directory
}

fn directory_gzip(content: &[u8]) -> Vec<u8> {
    Directory::with("x", content).other("gzip -nc x")
}

fn below(directory: &Directory) -> String {
    let found = directory.other("find d -not -type d -printf %P\\n");
    let mut names: Vec<&str> = std::str::from_utf8(&found).unwrap().lines().collect();
    names.sort_unstable();
    names.join(" ")
}

#[test]
fn tar_packs_and_unpacks_with_it() {
    let directory = tree();
    directory.other("cp -r d before");
    for program in [
        "overside",
        "overside compress",
        "overside compress -9 --format zstd",
        "overside compress --format lz4",
    ] {
        let program = program.replace("overside", COMMAND);
        let tar = |arguments: &[&str]| {
            let mut tar = directory.command("tar");
            let output = tar.args(["-I", &program]).args(arguments).output().unwrap();
            assert!(output.status.success(), "{program}: {}", err(&output));
            output.stdout
        };
        tar(&["-cf", "archive", "d"]);
        let listed = tar(&["-tf", "archive"]);
        assert_contains(String::from_utf8(listed).unwrap(), "d/below/b");
        fs::remove_dir_all(directory.path("d")).unwrap();
        tar(&["-xf", "archive"]);
        directory.other("diff -r --no-dereference before d");
    }
    // Other programs unpack the output of tar with this command.
    let packed = directory.shell("tar -I \"${O#timeout 120 }\" -cf - d | tar -tzf -");
    assert_contains(String::from_utf8(packed.stdout).unwrap(), "d/below/b");
}

#[test]
fn without_a_verb_it_is_a_filter_between_pipes_only() {
    let directory = Directory::with("a", &words(10_000, 3));
    let both = directory.shell(
        "cat a | $O | gzip -d | cmp - a && gzip -c a | $O -d | cmp - a && $O -9 <a | gzip -t",
    );
    assert!(both.status.success(), "{}", err(&both));
    // There is nothing to compress, so the help is printed.
    let help = directory.run("");
    assert_eq!(code(&help), 2);
    assert_contains(err(&help), "Usage:");
}

#[test]
fn names_of_other_programs_do_what_those_do() {
    let directory = Directory::with("a", &words(10_000, 4));
    let plain = directory.read("a");
    fs::create_dir(directory.path("bin")).unwrap();
    for name in ["gzip", "gunzip", "zcat", "zstd", "unzstd", "zstdcat", "lz4cat", "unlz4"] {
        symlink(COMMAND, directory.path("bin").join(name)).unwrap();
    }
    let run = |line: &str| {
        let output = directory.shell(&format!("PATH=$PWD/bin:$PATH; {line}"));
        assert!(output.status.success(), "{line}: {}", err(&output));
        (output.stdout, directory.names().replace(" bin", ""))
    };
    assert_eq!(run("gzip -9 a").1, "a.gz");
    assert!(run("zcat a.gz").0 == plain && run("gzip -dc <a.gz").0 == plain);
    assert_contains(String::from_utf8(run("gzip -l a.gz").0).unwrap(), "uncompressed_name");
    assert_eq!(run("gunzip a.gz").1, "a");
    // These commands keep their input.
    assert_eq!(run("zstd -q a").1, "a a.zst");
    assert!(run("zstdcat a.zst").0 == plain);
    assert_eq!(run("rm a; unzstd a.zst").1, "a a.zst");
    assert_eq!(run("/usr/bin/lz4 -q a a.lz4; rm a; unlz4 a.lz4").1, "a a.lz4 a.zst");
    assert!(run("lz4cat a.lz4").0 == plain);
    assert_contains(String::from_utf8(run("gzip -V").0).unwrap(), env!("CARGO_PKG_VERSION"));
}

#[test]
fn directories_are_gone_into() {
    let directory = tree();
    let left = directory.run("compress d");
    assert_eq!((code(&left), err(&left).contains("-r")), (2, true));
    directory.quietly("compress -r d");
    assert_eq!(below(&directory), "a.gz below/b.gz link old.gz");
    // gunzip decompresses its output, and the other way round.
    directory.other("gunzip -rq d/below");
    assert_eq!(below(&directory), "a.gz below/b link old.gz");
    directory.quietly("decompress -r d");
    assert_eq!(below(&directory), "a below/b link old");
    assert_eq!(directory.read("d/old"), b"old");
    assert!(fs::symlink_metadata(directory.path("d/link")).unwrap().is_symlink());
    let refused = directory.run("compress -r -o out d");
    assert_eq!(code(&refused), 1);
}

#[test]
fn a_suffix_of_ones_own_is_gzips() {
    let directory = Directory::with("a", b"text");
    directory.quietly("compress -S .own a");
    assert_eq!(directory.names(), "a.own");
    let again = directory.run("compress -S .own a.own");
    assert_eq!(code(&again), 2);
    assert_contains(err(&again), "already ends with .own");
    assert_eq!(code(&directory.run("decompress a.own")), 2);
    directory.other("gzip -d -S .own a.own");
    assert_eq!(directory.names(), "a");
    directory.other("gzip -S -old a");
    directory.quietly("decompress -S -old a-old");
    assert_eq!(directory.read("a"), b"text");
    // Without the option the suffix is recognized, as is .gz.
    directory.quietly("compress -S .own a");
    directory.quietly("decompress -S .own a");
    assert_eq!(directory.names(), "a");
    assert_eq!(code(&directory.run("compress -S a/b a")), 1);
}

/// Returns the lines of a list without the spaces between columns.
fn columns(list: &[u8]) -> Vec<String> {
    let list = String::from_utf8_lossy(list);
    let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    list.lines().map(line).collect()
}

#[test]
fn lists_are_those_of_gzip() {
    let directory = Directory::with("a", &words(100_000, 5));
    directory.write("b", &words(1000, 6));
    directory.write("c", b"");
    directory.other("gzip -k a b c");
    // gzip subtracts its header in the ratio, which is the third column.
    let without_ratio = |list: &[u8]| -> Vec<String> {
        let cut = |line: String| {
            let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            words.remove(2);
            words.join(" ")
        };
        columns(list).into_iter().map(cut).collect()
    };
    let ours = directory.quietly("compress -l a.gz b.gz c.gz");
    let theirs = directory.other("gzip -l a.gz b.gz c.gz");
    assert_eq!(without_ratio(&ours), without_ratio(&theirs));
    // The lengths of members are added, in every format.
    for (format, ending) in [("gzip", "gz"), ("zlib", "zz"), ("lz4", "lz4"), ("zstd", "zst")] {
        directory.quietly(&format!("compress -kf --format {format} --chunk 16k a"));
        let list = directory.quietly(&format!("decompress -lv a.{ending}"));
        let line = columns(&list).remove(1);
        let stored = directory.read(&format!("a.{ending}")).len();
        let members = match format {
            "gzip" | "zstd" => 7,
            _ => 1,
        };
        assert!(
            line.starts_with(&format!("{format} {members} {stored} 100000 "))
                && line.ends_with("% a"),
            "{line}"
        );
    }
    directory.write("bad.gz", &directory.read("a.gz")[..500]);
    let bad = directory.run("decompress -l bad.gz b.gz");
    assert_eq!(code(&bad), 1);
    assert_contains(err(&bad), "bad.gz: gzip member 1, at byte 0: truncated");
    assert_eq!(columns(&bad.stdout).len(), 2);
    assert_eq!(
        directory.quietly("decompress -lq b.gz").len(),
        directory.quietly("decompress -l b.gz").len() - columns_header()
    );
    let full = directory.shell("$O decompress -l b.gz >/dev/full");
    assert_eq!(code(&full), 1);
    assert_contains(err(&full), "stdout: No space left");
}

fn columns_header() -> usize {
    "         compressed        uncompressed  ratio uncompressed_name\n".len()
}

#[test]
fn a_truncated_file_yields_what_was_there() {
    let plain = words(3 * MIB, 7);
    let directory = Directory::with("a", &plain);
    // gzip and zstd write one member or one frame.
    for (maker, reader, ending) in [
        ("gzip -c a", "gzip -dc", "gz"),
        ("zstd -qc a", "zstd -qdc", "zst"),
        ("lz4 -qcB4 a", "lz4 -qdc", "lz4"),
    ] {
        let whole = directory.other(maker);
        let name = format!("cut.{ending}");
        directory.write(&name, &whole[..whole.len() / 2]);
        let theirs = directory.shell(&format!("{reader} {name}"));
        let ours = directory.run(&format!("decompress -c {name}"));
        assert_eq!(code(&ours), 1, "{name}");
        assert_ne!(code(&theirs), 0, "{name}");
        assert_contains(err(&ours), "truncated");
        assert!(plain.starts_with(&ours.stdout), "{name}");
        assert!(ours.stdout.len() >= theirs.stdout.len(), "{name}: {}", theirs.stdout.len());
        assert!(ours.stdout.len() > MIB, "{name}: {}", ours.stdout.len());
        // Without an output file there is no partial one, as with gzip.
        let names = directory.names();
        assert_eq!(code(&directory.run(&format!("decompress {name}"))), 1);
        assert_eq!(directory.names(), names);
    }
    // The members contain their lengths, and the last one is truncated.
    for format in ["gzip", "zstd"] {
        let whole = directory.quietly(&format!("compress -c --format {format} a"));
        let cut = whole.len() * 5 / 6;
        directory.write("cut", &whole[..cut]);
        let ours = directory.run("decompress -c cut");
        assert_eq!(code(&ours), 1);
        assert!(plain.starts_with(&ours.stdout), "{format}");
        let third = ours.stdout.len().saturating_sub(2 * MIB);
        assert!(third > MIB / 4, "{format}: {third} of the last member");
    }
}

#[test]
fn the_level_and_the_version_are_told() {
    let directory = Directory::with("a", &words(10_000, 8));
    for (line, level) in [
        ("compress -kfv a", ", level 1;"),
        ("compress -kfv -7 a", ", level 7;"),
        ("compress -kfv --format zstd a", ", level 3;"),
    ] {
        assert_contains(err(&directory.run(line)), level);
    }
    for verb in ["compress", "decompress", "match"] {
        let said = directory.quietly(&format!("{verb} -V"));
        let expected = format!("overside {verb} {}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(String::from_utf8(said).unwrap(), expected);
    }
}
