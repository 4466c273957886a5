//! Compatibility with other programs in both directions.

use super::*;

/// Format, ending, a program that decompresses a file to stdout, and one that compresses it.
const FORMATS: [[&str; 4]; 4] = [
    ["gzip", "gz", "gzip -dc", "gzip -c"],
    ["zlib", "zz", "pigz -dc", "pigz -zc"],
    ["lz4", "lz4", "lz4 -dc", "lz4 -c"],
    ["zstd", "zst", "zstd -dc", "zstd -c"],
];

#[test]
fn others_read_what_is_compressed() {
    let (mixed, one) = (mixed(), [b'x']);
    for [format, ending, reader, _] in FORMATS {
        for bytes in [&mixed[..], &one, &[]] {
            let directory = Directory::with("a", bytes);
            directory.quietly(&format!("compress --format {format} a"));
            assert_eq!(directory.names(), format!("a.{ending}"));
            let back = directory.other(&format!("{reader} a.{ending}"));
            assert!(back == bytes, "{format}, {} bytes", bytes.len());
        }
    }
}

#[test]
fn what_others_compressed_is_read() {
    let bytes = mixed();
    for [_, ending, _, writer] in FORMATS {
        let directory = Directory::with("a", &bytes);
        let compressed = directory.other(&format!("{writer} a"));
        directory.write(&format!("b.{ending}"), &compressed);
        directory.quietly(&format!("decompress b.{ending}"));
        assert_eq!(directory.names(), "a b");
        assert!(directory.read("b") == bytes, "{writer}");
    }
}

#[test]
fn what_is_compressed_here_is_read_here_at_each_level_and_chunk() {
    let bytes = words(300_000, 3);
    for [format, ending, ..] in FORMATS {
        for options in ["-1", "-9", "--level 3 --chunk 64KiB", "--best -p1 --chunk 1k"] {
            let directory = Directory::with("a", &bytes);
            directory.quietly(&format!("compress --format {format} {options} a"));
            directory.quietly(&format!("decompress a.{ending}"));
            assert!(directory.read("a") == bytes, "{format} {options}");
        }
    }
}

#[test]
fn files_that_follow_each_other_are_one() {
    let directory = Directory::with("a", &words(5000, 1));
    directory.write("b", &words(70_000, 2));
    for format in ["gzip", "lz4", "zstd"] {
        let both = directory.quietly(&format!("compress -c --format {format} a b"));
        directory.write("c", &both);
        let back = directory.quietly("decompress -c c");
        assert!(back == [directory.read("a"), directory.read("b")].concat());
    }
}

#[test]
fn gzip_files_know_the_name_and_time_of_the_original() {
    let directory = Directory::with("some name", b"text");
    let path = directory.path("some name");
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_007);
    fs::File::open(&path).unwrap().set_modified(time).unwrap();
    let listed = |compressed: &[u8]| {
        directory.write("b.gz", compressed);
        String::from_utf8(directory.other("gzip -lvN b.gz")).unwrap()
    };
    let output = directory.command(COMMAND).args(["compress", "-c"]).arg(&path).output();
    let text = listed(&output.unwrap().stdout);
    assert_contains(&text, "some name");
    assert_contains(&text, "Sep  9");
    // The header has only the base name, or no name if that is requested.
    assert!(!text.contains('/'), "{text}");
    let output = directory.command(COMMAND).args(["compress", "-cn"]).arg(&path).output();
    let compressed = output.unwrap().stdout;
    assert!(listed(&compressed).contains("b"));
    assert_eq!(compressed[4..8], [0; 4]);
    assert!(!compressed.windows(4).any(|window| window == b"some"));
}
