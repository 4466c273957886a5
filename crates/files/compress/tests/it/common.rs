//! Helpers that several tests share: contents, compression and decompression, and runs of other
//! programs.
#![allow(dead_code)]

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

use overside_compress::{Container, Error, Options, Summary, compress, decompress};
pub(crate) use overside_testkit::data::noise;

/// Options for one container, with small chunks, so that there are many.
pub(crate) fn options(container: Container) -> Options {
    Options { container: Some(container), chunk_bytes: 16 << 10, threads: 2, ..Options::default() }
}

pub(crate) fn compressed(content: &[u8], options: &Options) -> (Vec<u8>, Summary) {
    let mut out = Vec::new();
    let summary = compress(content, &mut out, options).unwrap();
    assert_eq!(summary.bytes_in, content.len() as u64);
    assert_eq!(summary.bytes_out, out.len() as u64);
    (out, summary)
}

pub(crate) fn decompressed(bytes: &[u8]) -> Result<(Vec<u8>, Summary), Error> {
    let options = Options { threads: 2, ..Options::default() };
    let mut out = Vec::new();
    let summary = decompress(bytes, &mut out, &options)?;
    assert_eq!(summary.bytes_in, bytes.len() as u64);
    assert_eq!(summary.bytes_out, out.len() as u64);
    Ok((out, summary))
}

/// Makes a text of `len` bytes.
pub(crate) fn text(len: usize) -> Vec<u8> {
    overside_testkit::data::text(1, len)
}

/// Contents that differ in properties that frames depend on.
pub(crate) fn contents() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("nothing", Vec::new()),
        ("one byte", b"x".to_vec()),
        ("one chunk", text(16 << 10)),
        ("a byte more", text((16 << 10) + 1)),
        ("text", text(300_000)),
        ("noise", noise(200_000)),
        ("zeros", vec![0; 500_000]),
        ("mixed", [noise(50_000), text(50_000), noise(20_000), vec![7; 90_000]].concat()),
    ]
}

/// Runs a program on `input` and returns its output. Returns `None`, after a note on stderr, if the
/// program is not installed.
pub(crate) fn tool(
    program: &str,
    arguments: &[&str],
    input: &[u8],
) -> Option<Result<Vec<u8>, String>> {
    let spawned = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            eprintln!("skipped: {program}: {error}");
            return None;
        }
    };
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // It may stop reading when it has seen enough.
    let writer = thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Some(match output.status.success() {
        true => Ok(output.stdout),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    })
}
