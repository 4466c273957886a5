//! Tests of tables in files of every format.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Seek, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use overside_flow::files::{
    FileFormat, FileReader, FileWriter, OutputFile, ReadOptions, WriteOptions,
};
use overside_flow::generate::Generated;
use overside_flow::operators::{PartitionKey, sort};
use overside_flow::pack::CodecPool;
use overside_flow::{Error, Repartition};

fn pool() -> Arc<CodecPool> {
    Arc::new(CodecPool::new(NonZeroUsize::new(2).unwrap()).unwrap())
}

fn options(format: &str, codec: &str, outer: Option<&str>) -> WriteOptions {
    WriteOptions {
        format: format.parse().unwrap(),
        codec: codec.parse().unwrap(),
        outer: outer.map(|outer| outer.parse().unwrap()),
        ..WriteOptions::default()
    }
}

fn read(mut file: File) -> Result<RecordBatch, Error> {
    file.rewind()?;
    let mut reader = FileReader::open(file, &ReadOptions::default(), &pool())?;
    let batches = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    assert!(reader.time().bytes_in > 0);
    Ok(concat_batches(reader.schema(), &batches)?)
}

#[test]
fn what_is_written_is_read_in_every_format() {
    for what in Generated::ALL {
        let batches: Vec<RecordBatch> = what.snapshots(700, 1).take(3).collect();
        let whole = concat_batches(&what.schema(), &batches).unwrap();
        for (format, codec, outer) in [
            ("arrow", "none", None),
            ("arrow", "lz4", None),
            ("arrow-stream", "zstd:3", None),
            ("arrow", "none", Some("deflate")),
            ("arrow-stream", "none", Some("zstd:5")),
            ("parquet", "none", None),
            ("parquet", "zstd", None),
            ("parquet", "lz4", None),
        ] {
            let file = tempfile::tempfile().unwrap();
            let options = options(format, codec, outer);
            let mut writer =
                FileWriter::new(file.try_clone().unwrap(), &what.schema(), options, &pool())
                    .unwrap();
            for batch in &batches {
                writer.write(batch).unwrap();
            }
            let (_, time) = writer.finish().unwrap();
            assert!(time.wall_ns > 0 && time.bytes_in > 0, "{format}: {time:?}");
            assert_eq!(time.bytes_out, file.metadata().unwrap().len(), "{format}");
            assert_eq!(read(file).unwrap(), whole, "{what} {format} {codec} {outer:?}");
        }
    }
}

#[test]
fn what_a_format_cannot_do_is_refused() {
    for (format, codec, outer) in [("csv", "lz4", None), ("parquet", "none", Some("deflate"))] {
        let schema = Generated::Particles.schema();
        let made = FileWriter::new(Vec::new(), &schema, options(format, codec, outer), &pool());
        let error = made.err().expect("an error").to_string();
        assert!(error.contains(format), "{error}");
    }
    let mut gzip = tempfile::tempfile().unwrap();
    gzip.write_all(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    let error = read(gzip).unwrap_err().to_string();
    assert!(error.contains("gzip"), "{error}");
    assert!("xlsx".parse::<FileFormat>().unwrap_err().contains("parquet"));
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
    for format in ["arrow", "arrow-stream", "parquet", "csv"] {
        let written =
            FileWriter::new(Full, batch.schema_ref(), options(format, "none", None), &pool())
                .and_then(|mut writer| {
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
fn a_table_is_split_into_files() {
    let schema = Generated::Ships.schema();
    let batches: Vec<RecordBatch> = Generated::Ships.snapshots(1000, 3).take(4).collect();
    let whole = concat_batches(&schema, &batches).unwrap();
    let key = PartitionKey::parse("MMSI", "hash:5").unwrap();
    let lz4 = options("arrow", "lz4", None);
    let create = |_| Ok(tempfile::tempfile()?);
    let mut repartition = Repartition::new(&schema, &key, lz4, &pool(), create).unwrap();
    for batch in &batches {
        repartition.push(batch).unwrap();
    }
    let done = repartition.finish().unwrap();
    assert_eq!(done.skew.rows(), whole.num_rows() as u64);
    assert!(done.times.partition.wall_ns > 0 && done.times.repack.bytes_out > 0);
    let mut rows = 0;
    for (partition, file) in done.outputs {
        let part = read(file).unwrap();
        assert_eq!(part.num_rows() as u64, done.skew.partitions[partition].rows);
        rows += part.num_rows();
        // When repeated, all rows of a part stay together.
        let mut again = Repartition::new(&schema, &key, lz4, &pool(), create).unwrap();
        again.push(&part).unwrap();
        let again = again.finish().unwrap();
        let [(same, _)] = again.outputs[..] else {
            panic!("{} partitions", again.outputs.len());
        };
        assert_eq!(same, partition);
    }
    assert_eq!(rows, whole.num_rows());
}

#[test]
fn files_of_a_split_table_are_sorted_by_key_and_time() {
    let schema = Generated::Ships.schema();
    let key = PartitionKey::parse("MMSI", "hash:3").unwrap();
    let create = |_| Ok(tempfile::tempfile()?);
    let columns = ["MMSI", "BaseDateTime"].map(|name| name.parse().unwrap());
    let arrow = options("arrow", "none", None);
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
        of_partitions[partition].push(read(file).unwrap());
    }
    let done = repartition.finish().unwrap();
    assert!(done.sort.unwrap().bytes_in > 0);
    assert_eq!(done.outputs.len(), 3);
    for (partition, file) in done.outputs {
        let expected = sort(&of_partitions[partition], &columns).unwrap();
        assert!(expected.num_rows() > 64 << 10);
        assert!(read(file).unwrap() == expected, "{partition}");
    }
    let repartition = Repartition::new(&schema, &key, arrow, &pool(), create).unwrap();
    assert!(repartition.sorted_by(vec!["clock".parse().unwrap()]).is_err());
}

#[test]
fn another_schema_in_the_middle_is_refused() {
    let key = PartitionKey::parse("MMSI", "bits:1").unwrap();
    let create = |_| Ok(Vec::new());
    let schema = Generated::Ships.schema();
    let arrow = WriteOptions::default();
    let mut repartition = Repartition::new(&schema, &key, arrow, &pool(), create).unwrap();
    let particles = Generated::Particles.snapshots(10, 1).next().unwrap();
    let error = repartition.push(&particles).unwrap_err().to_string();
    assert!(error.contains("schema") && error.contains("MMSI"), "{error}");
}
