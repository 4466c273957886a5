//! Tables to partition.

use std::fs::File;
use std::path::Path;

use arrow_array::{Array, RecordBatch};
use arrow_ipc::writer::FileWriter;
use arrow_schema::SchemaRef;
use overside_flow::enlarge::{Enlarger, Roles};
use overside_flow::generate::Generated;
use overside_flow::operators::parts;
use overside_testkit::data::shared;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

const BATCH_ROWS: usize = 64 << 10;

/// Batches with their partition key.
pub(crate) struct Table {
    pub name: &'static str,
    pub key: &'static str,
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
    pub bytes: usize,
}

impl Table {
    /// Takes whole batches from `all` until they have at least `bytes` bytes, or until there are no
    /// more.
    fn new(
        name: &'static str,
        key: &'static str,
        all: impl Iterator<Item = RecordBatch>,
        bytes: usize,
    ) -> Self {
        let size = |batch: &RecordBatch| -> usize {
            let columns = batch.columns().iter();
            columns.map(|one| one.to_data().get_slice_memory_size().expect("flat")).sum()
        };
        let (mut batches, mut taken) = (Vec::new(), 0);
        for batch in all {
            taken += size(&batch);
            batches.push(batch);
            if taken >= bytes {
                break;
            }
        }
        Self { name, key, schema: batches[0].schema(), bytes: taken, batches }
    }

    pub(crate) fn write(&self, folder: &Path) {
        let path = folder.join(format!("{}.arrow", self.name));
        let file = File::create(&path).expect("a file");
        let mut writer = FileWriter::try_new_buffered(file, &self.schema).expect("a writer");
        for batch in &self.batches {
            writer.write(batch).expect("a batch");
        }
        writer.finish().expect("the end");
        println!("{}: {} batches, {} bytes", path.display(), self.batches.len(), self.bytes);
    }
}

/// Makes a table of an int64 id and nine floats.
pub(crate) fn particles(bytes: usize) -> Table {
    generated(Generated::Particles, "id", bytes)
}

/// Makes a table of ship positions: a day of real ones, enlarged; without that file, generated ones with the
/// same columns.
pub(crate) fn ships(bytes: usize) -> Table {
    match sample() {
        Some(sample) => enlarged(&sample, bytes),
        None => generated(Generated::Ships, "MMSI", bytes),
    }
}

fn generated(what: Generated, key: &'static str, bytes: usize) -> Table {
    let name = match what {
        Generated::Particles => "particles",
        Generated::Ships => "ships",
    };
    Table::new(name, key, what.snapshots(BATCH_ROWS, 5), bytes)
}

fn enlarged(sample: &[RecordBatch], bytes: usize) -> Table {
    let roles = Roles { id: Some("MMSI".into()), time: Some("BaseDateTime".into()), values: None };
    let enlarger = Enlarger::new(sample[0].schema_ref(), sample, &roles, 6).expect("roles");
    let batches = enlarger.flat_map(|batch| {
        let batch = batch.expect("rows");
        parts(&batch, BATCH_ROWS).collect::<Vec<_>>()
    });
    Table::new("ships", "MMSI", batches, bytes)
}

fn sample() -> Option<Vec<RecordBatch>> {
    let file = File::open(shared("data/ais/ais_2022-01-03_99999.parquet")?).ok()?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).ok()?.build().ok()?;
    reader.collect::<Result<_, _>>().ok()
}
