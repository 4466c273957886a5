//! Tests of tables in files of every format.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use overside_flow::files::{FileFormat, FileWriter, OutputFile, WriteOptions};
use overside_flow::generate::Generated;
use overside_flow::pack::CodecPool;

fn pool() -> Arc<CodecPool> {
    Arc::new(CodecPool::new(NonZeroUsize::new(2).unwrap()).unwrap())
}

/// Output that accepts nothing.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::new(ErrorKind::StorageFull, "the disk is full"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn why_an_output_takes_no_more_is_said_whatever_the_format_is() {
    let batch = Generated::Particles.snapshots(1000, 1).next().unwrap();
    for format in FileFormat::ALL {
        let options = WriteOptions { format, ..WriteOptions::default() };
        let writer = FileWriter::new(Full, batch.schema_ref(), options, &pool());
        let written = writer.and_then(|mut writer| {
            writer.write(&batch)?;
            writer.finish().map(|_| ())
        });
        let error = written.unwrap_err();
        assert_eq!(error.io_kind(), Some(ErrorKind::StorageFull), "{format}: {error}");
        assert_eq!(error.to_string(), "the disk is full", "{format}");
    }
}

#[test]
fn what_is_no_file_is_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let _socket = UnixListener::bind(at("socket")).unwrap();
    symlink(at("socket"), at("link")).unwrap();
    for (path, expected) in [
        (at("socket"), "a pipe or a device"),
        (at("link"), "a pipe or a device"),
        (directory.path().into(), "a directory"),
    ] {
        for replace in [false, true] {
            let error = OutputFile::create(&path, replace).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
    assert!(fs::metadata(at("socket")).unwrap().file_type().is_socket());
    // A file is protected, also by another name.
    fs::write(at("file"), "old").unwrap();
    let mut file = OutputFile::create(&at("file"), true).unwrap();
    file.write_all(b"new").unwrap();
    file.finish(false).unwrap();
    assert_eq!(fs::read_to_string(at("file")).unwrap(), "new");
}
