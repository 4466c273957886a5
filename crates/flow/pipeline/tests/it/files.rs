//! Tests of tables in files of every format.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Seek, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use overside_flow::Repartition;
use overside_flow::files::{
    FileFormat, FileReader, FileWriter, OutputFile, ReadOptions, WriteOptions,
};
use overside_flow::generate::Generated;
use overside_flow::operators::{PartitionKey, sort};
use overside_flow::pack::CodecPool;

fn pool() -> Arc<CodecPool> {
    Arc::new(CodecPool::new(NonZeroUsize::new(2).unwrap()).unwrap())
}

fn read(mut file: File) -> RecordBatch {
    file.rewind().unwrap();
    let mut reader = FileReader::open(file, &ReadOptions::default(), &pool()).unwrap();
    let batches = reader.by_ref().collect::<Result<Vec<_>, _>>().unwrap();
    assert!(reader.time().bytes_in > 0);
    concat_batches(reader.schema(), &batches).unwrap()
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

#[test]
fn files_of_a_split_table_are_sorted_by_key_and_time() {
    let schema = Generated::Ships.schema();
    let key = PartitionKey::parse("MMSI", "hash:3").unwrap();
    let create = |_| Ok(tempfile::tempfile()?);
    let columns = ["MMSI", "BaseDateTime"].map(|name| name.parse().unwrap());
    let arrow = WriteOptions::default();
    let repartition = Repartition::new(&schema, &key, arrow, &pool(), create).unwrap();
    let mut repartition = repartition.sorted_by(columns.to_vec()).unwrap();
    let mut of_partitions = vec![Vec::new(); 3];
    let mut plain = Repartition::new(&schema, &key, arrow, &pool(), create).unwrap();
    // More than one batch in each.
    for batch in Generated::Ships.snapshots(100_000, 3).take(3) {
        repartition.push(&batch).unwrap();
        plain.push(&batch).unwrap();
    }
    for (partition, file) in plain.finish().unwrap().outputs {
        of_partitions[partition].push(read(file));
    }
    let done = repartition.finish().unwrap();
    assert!(done.sort.unwrap().bytes_in > 0);
    assert_eq!(done.outputs.len(), 3);
    for (partition, file) in done.outputs {
        let expected = sort(&of_partitions[partition], &columns).unwrap();
        assert!(expected.num_rows() > 64 << 10);
        assert!(read(file) == expected, "{partition}");
    }
    let repartition = Repartition::new(&schema, &key, arrow, &pool(), create).unwrap();
    assert!(repartition.sorted_by(vec!["clock".parse().unwrap()]).is_err());
}
