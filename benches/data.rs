//! Input data of the benches.

use std::path::PathBuf;

use overside_device::{Operation, OperationConfig};
use overside_ops::{Format, prepare};
use overside_testkit::data::{shared, sources};

/// Returns `count` chunks of `bytes` bytes: files of the Silesia corpus, concatenated, if they
/// exist; otherwise this repository's own sources, repeated.
pub(crate) fn plain(bytes: usize, count: usize) -> Vec<Vec<u8>> {
    let all = silesia().unwrap_or_else(sources);
    // Spread over all of it.
    let step = all.len().saturating_sub(bytes) / count.max(1);
    (0..count)
        .map(|chunk| {
            let from = &all[chunk * step..];
            from.iter().cycle().take(bytes).copied().collect()
        })
        .collect()
}

/// Returns the input of an operation: compressed data for decompression.
pub(crate) fn compressed(operation: &OperationConfig, plain: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let Operation::Decompress(format) = operation.operation else {
        return plain.to_vec();
    };
    let compress = OperationConfig::new(Operation::Compress(format));
    let mut kernel = (prepare(&compress).and_then(|ready| ready.kernel())).expect("a compressor");
    (plain.iter())
        .map(|plain| {
            let mut out = vec![0; 2 * plain.len() + 1000];
            let done = kernel.run(&[plain], &mut out).expect("good input");
            out.truncate(done.written);
            out
        })
        .collect()
}

fn silesia() -> Option<Vec<u8>> {
    let folder = shared("data/silesia")?;
    let mut files: Vec<PathBuf> = (std::fs::read_dir(folder).ok()?.flatten())
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "zip"))
        .collect();
    files.sort();
    let files = files.iter().filter_map(|file| unzipped(&std::fs::read(file).ok()?));
    let all: Vec<u8> = files.flatten().collect();
    (!all.is_empty()).then_some(all)
}

/// The first file of a zip archive (APPNOTE.TXT, 4.3), found by the end of its directory.
fn unzipped(archive: &[u8]) -> Option<Vec<u8>> {
    let number = |at: usize, len: usize| {
        let bytes = archive.get(at..at + len)?;
        Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    };
    let end = (0..archive.len().saturating_sub(21))
        .rev()
        .find(|at| archive[*at..].starts_with(b"PK\x05\x06"))?;
    let entry = number(end + 16, 4)?;
    let (packed, len, local) =
        (number(entry + 20, 4)?, number(entry + 24, 4)?, number(entry + 42, 4)?);
    let begin = local + 30 + number(local + 26, 2)? + number(local + 28, 2)?;
    let mut out = vec![0; len];
    let inflate = OperationConfig::new(Operation::Decompress(Format::Deflate));
    let mut kernel = prepare(&inflate).and_then(|ready| ready.kernel()).ok()?;
    kernel.run(&[archive.get(begin..begin + packed)?], &mut out).ok()?;
    Some(out)
}
