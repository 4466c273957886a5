//! Tests that compressed content comes back, from this library and from programs that others use.

use crate::common;

use common::{compressed, contents, decompressed, options, text, tool};
use overside_compress::{Compressor, Container, Decompressor, Options};
use overside_device::ExternalBytes;

/// Programs that decompress from stdin to stdout.
fn readers(container: Container) -> &'static [(&'static str, &'static [&'static str])] {
    const INFLATE: &str = "import sys,zlib
d=zlib.decompressobj()
sys.stdout.buffer.write(d.decompress(sys.stdin.buffer.read())+d.flush())
sys.exit(not d.eof or bool(d.unused_data))";
    const GUNZIP: &str = "import sys,gzip
sys.stdout.buffer.write(gzip.decompress(sys.stdin.buffer.read()))";
    match container {
        Container::Gzip => &[
            ("gunzip", &["-c"]),
            ("pigz", &["-dc"]),
            ("igzip", &["-dc"]),
            ("python3", &["-c", GUNZIP]),
        ],
        Container::Zlib => &[("python3", &["-c", INFLATE]), ("pigz", &["-dcz"])],
        Container::Lz4 => &[("lz4", &["-dc"])],
        Container::Zstd => &[("zstd", &["-dcq"])],
    }
}

#[test]
fn everything_comes_back() {
    for container in Container::ALL {
        for (what, content) in contents() {
            let (bytes, made) = compressed(&content, &options(container));
            let (back, read) = decompressed(&bytes).unwrap();
            assert!(back == content, "{container} of {what}");
            assert_eq!(read.container, container, "{what}");
            assert_eq!(read.members, made.members, "{container} of {what}");
            assert_eq!(read.ignored, None);
        }
    }
}

#[test]
fn the_programs_of_others_read_it() {
    for container in Container::ALL {
        for (what, content) in contents() {
            let (bytes, _) = compressed(&content, &options(container));
            for (program, arguments) in readers(container) {
                let Some(back) = tool(program, arguments, &bytes) else {
                    continue;
                };
                let back = back.unwrap_or_else(|e| panic!("{container} of {what}, {program}: {e}"));
                assert!(back == content, "{container} of {what} by {program}");
            }
        }
    }
}

#[test]
fn every_level_is_read_by_others() {
    let content = text(100_000);
    for (container, levels) in [
        (Container::Gzip, 0..=12),
        (Container::Zlib, 0..=9),
        (Container::Lz4, 1..=12),
        (Container::Zstd, 1..=12),
    ] {
        for level in levels {
            let options = Options { level: Some(level), ..options(container) };
            let (bytes, summary) = compressed(&content, &options);
            let (program, arguments) = readers(container)[0];
            if let Some(back) = tool(program, arguments, &bytes) {
                assert!(back.unwrap() == content, "{container} {level}");
            }
            let applied = summary.report.unwrap().cpu.unwrap().applied.unwrap();
            if container == Container::Gzip {
                let expected = if level <= 3 { "isal" } else { "libdeflate" };
                assert_eq!(applied.variant, expected, "level {level}");
            }
        }
    }
}

#[test]
fn memory_that_is_lent_makes_the_same_file_and_is_read_where_it_is() {
    for container in Container::ALL {
        for (what, content) in contents() {
            let options = options(container);
            let (expected, _) = compressed(&content, &options);
            let mut compressor = Compressor::new(Vec::new(), &options).unwrap();
            compressor.lend(ExternalBytes::new(content.clone())).unwrap();
            let (bytes, summary) = compressor.finish().unwrap();
            assert!(bytes == expected, "{container} of {what}");
            assert_eq!(summary.bytes_in, content.len() as u64);

            // At once, and in two halves.
            for middle in [0, bytes.len() / 2] {
                let mut decompressor = Decompressor::new(Vec::new(), &options).unwrap();
                for part in [&bytes[..middle], &bytes[middle..]] {
                    decompressor.lend(ExternalBytes::new(part.to_vec())).unwrap();
                }
                let (back, summary) = decompressor.finish().unwrap();
                assert!(back == content, "{container} of {what} {middle}");
                assert_eq!(summary.bytes_in, bytes.len() as u64);
            }
        }
    }
}
