//! Tests that files made by other programs are read.

use crate::common;

use common::{compressed, decompressed, noise, options, text, tool};
use overside_compress::{Container, Error, Options, TrailingData, decompress};

/// Compresses `content` with a program, and checks that it is read back. Returns the numbers of all
/// members and of streamed members; `None` if the program is not installed.
fn read_back(program: &str, arguments: &[&str], content: &[u8]) -> Option<(u64, u64)> {
    let bytes = tool(program, arguments, content)?.unwrap();
    let (back, summary) =
        decompressed(&bytes).unwrap_or_else(|error| panic!("{program} {arguments:?}: {error}"));
    assert!(back == content, "{program} {arguments:?}");
    Some((summary.members, summary.streamed))
}

#[test]
fn gzip_files_of_single_members_are_read_in_pieces() {
    for content in [Vec::new(), b"x".to_vec(), text(700_000), noise(300_000)] {
        for (program, arguments) in
            [("gzip", &["-c"][..]), ("gzip", &["-1c"]), ("pigz", &["-9c"]), ("igzip", &["-c"])]
        {
            if let Some(read) = read_back(program, arguments, &content) {
                assert_eq!(read, (1, 1), "{program}");
            }
        }
    }
}

#[test]
fn bgzf_members_are_read_side_by_side() {
    let content = [text(500_000), noise(300_000)].concat();
    if let Some((members, streamed)) = read_back("bgzip", &["-c"], &content) {
        // 64 KiB at most in each, and an empty one at the end.
        assert!(members > 10, "{members}");
        assert_eq!(streamed, 0);
    }
}

#[test]
fn members_of_all_kinds_follow_each_other() {
    let parts = [text(100_000), noise(50_000), Vec::new(), text(70_000)];
    let Some(foreign) = tool("gzip", &["-c"], &parts[0]) else {
        return;
    };
    let foreign = foreign.unwrap();
    let (own, made) = compressed(&parts[1], &options(Container::Gzip));
    let (empty, _) = compressed(&parts[2], &options(Container::Gzip));
    let (other, more) = compressed(&parts[3], &options(Container::Gzip));
    for order in [[0, 1, 2, 3], [1, 0, 3, 2], [3, 2, 0, 1]] {
        let all = [&foreign, &own, &empty, &other];
        let bytes = order.map(|index| &all[index][..]).concat();
        let (back, summary) = decompressed(&bytes).unwrap();
        assert!(back == order.map(|index| &parts[index][..]).concat());
        assert_eq!(summary.members, 2 + made.members + more.members);
        assert_eq!(summary.streamed, 1);
    }
}

#[test]
fn what_gzip_headers_may_hold_is_read() {
    let (bytes, _) = compressed(b"content", &Options::default());
    let rest = &bytes[24..];
    // Name, comment and a checksum of the header; an extra field of another program.
    let mut header = vec![0x1f, 0x8b, 8, 0b1_1110, 1, 2, 3, 4, 0, 255];
    header.extend([6, 0, b'A', b'p', 2, 0, 1, 2]);
    header.extend(b"name\0comment\0");
    let crc = overside_ops::checksum::crc32(0, &header) as u16;
    let good = [&header[..], &crc.to_le_bytes(), rest].concat();
    let (back, summary) = decompressed(&good).unwrap();
    assert_eq!(back, b"content");
    let original = summary.original.unwrap();
    assert_eq!(original.name.as_deref(), Some(&b"name"[..]));
    assert_eq!(original.mtime, 0x0403_0201);
    let bad = [&header[..], &(crc ^ 1).to_le_bytes(), rest].concat();
    let error = decompressed(&bad).unwrap_err().to_string();
    assert_eq!(error, "gzip member 1, at byte 0: its header has a wrong checksum");
}

#[test]
fn what_follows_the_last_gzip_member_is_ignored_and_said() {
    for container in [Container::Gzip, Container::Zlib] {
        let content = text(40_000);
        let (bytes, _) = compressed(&content, &options(container));
        for (more, padding) in [(&[0; 1000][..], true), (&b"garbage"[..], false), (&[9; 1], false)]
        {
            let (back, summary) = decompressed(&[&bytes, more].concat()).unwrap();
            assert!(back == content, "{container}");
            let bytes = more.len() as u64;
            assert_eq!(summary.ignored, Some(TrailingData { bytes, padding }), "{container}");
        }
    }
}

#[test]
fn zlib_streams_of_others_are_read() {
    const DEFLATE: &str = "import sys,zlib
sys.stdout.buffer.write(zlib.compress(sys.stdin.buffer.read(), 9))";
    for content in [Vec::new(), text(400_000), noise(100_000)] {
        read_back("python3", &["-c", DEFLATE], &content);
        read_back("pigz", &["-zc"], &content);
    }
}

#[test]
fn lz4_frames_of_others_are_read() {
    let content = [text(900_000), noise(300_000)].concat();
    for arguments in [
        &["-c"][..],
        &["-c", "-B4"],
        &["-c", "-B5", "-BX"],
        &["-c", "-B7", "-9"],
        &["-c", "--no-frame-crc"],
        &["-c", "-B4", "--content-size"],
    ] {
        if let Some(read) = read_back("lz4", arguments, &content) {
            assert_eq!(read, (1, 0), "{arguments:?}");
        }
    }
    // Blocks that refer to the ones before are read one after the other.
    if let Some(read) = read_back("lz4", &["-c", "-B4", "-BD"], &content) {
        assert_eq!(read, (1, 1));
    }
    read_back("lz4", &["-c"], b"");
}

#[test]
fn legacy_lz4_is_refused_with_a_word_of_what_helps() {
    let Some(bytes) = tool("lz4", &["-lc"], &text(10_000)) else {
        return;
    };
    let error = decompressed(&bytes.unwrap()).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("legacy"), "{error}");
}

#[test]
fn zstd_frames_of_others_are_read() {
    let content = [text(900_000), noise(300_000)].concat();
    // From a pipe the length is not known, so there is none in the frame.
    if let Some(read) = read_back("zstd", &["-qc"], &content) {
        assert_eq!(read, (1, 1));
    }
    let size = format!("--stream-size={}", content.len());
    if let Some(read) = read_back("zstd", &["-qc", &size], &content) {
        assert_eq!(read, (1, 0));
    }
    read_back("zstd", &["-qc", "--no-check", "-19", "--long=27"], &content);
    read_back("zstd", &["-qc"], b"");
}

#[test]
fn frames_and_skippable_frames_follow_each_other() {
    let skippable = |number: u8, bytes: &[u8]| {
        let len = (bytes.len() as u32).to_le_bytes();
        [&[0x50 | number, 0x2a, 0x4d, 0x18], &len[..], bytes].concat()
    };
    for container in [Container::Lz4, Container::Zstd] {
        let content = text(100_000);
        let (bytes, made) = compressed(&content, &options(container));
        let (empty, none) = compressed(&[], &options(container));
        let all = [
            skippable(0, b""),
            skippable(7, &noise(400_000)),
            bytes.clone(),
            skippable(15, b"between"),
            empty,
            bytes,
            skippable(1, b"behind"),
        ]
        .concat();
        let (back, summary) = decompressed(&all).unwrap();
        assert!(back == [&content[..], &content].concat(), "{container}");
        assert_eq!(summary.members, 2 * made.members + none.members);
        assert_eq!(summary.container, container);
        let cut = decompressed(&all[..all.len() - 1]).unwrap_err();
        assert!(matches!(cut, Error::Truncated { .. }), "{cut}");
        let garbage = [&all[..], b"garbage"].concat();
        let error = decompressed(&garbage).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    }
}

#[test]
fn what_is_asked_for_is_read_as_nothing_else() {
    let (gzip, _) = compressed(b"content", &options(Container::Gzip));
    for container in [Container::Zlib, Container::Lz4, Container::Zstd] {
        let error = decompress(&gzip[..], Vec::new(), &options(container)).unwrap_err();
        let name = container.to_string();
        let begin = format!("{name} member 1, at byte 0: ");
        assert!(error.to_string().starts_with(&begin), "{error}");
    }
    for unknown in [&b"plain text"[..], &[0; 100], b"x", b"PK\x03\x04"] {
        let error = decompressed(unknown).unwrap_err();
        assert!(matches!(error, Error::Unrecognized), "{error}");
    }
    assert!(matches!(decompressed(b"").unwrap_err(), Error::Empty));
}
