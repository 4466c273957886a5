//! Tables to partition.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, Int64Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, Float64Array, Int32Array, LargeStringArray, RecordBatch, UInt32Array,
};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use overside_base::Random;
use overside_testkit::data::shared;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

const BATCH_ROWS: usize = 64 << 10;

/// Batches, and what to partition them by.
pub struct Table {
    pub name: &'static str,
    pub key: &'static str,
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
    pub bytes: usize,
}

impl Table {
    fn new(name: &'static str, key: &'static str, batches: Vec<RecordBatch>) -> Self {
        let bytes = |batch: &RecordBatch| -> usize {
            let columns = batch.columns().iter();
            columns
                .map(|one| one.to_data().get_slice_memory_size().expect("flat"))
                .sum()
        };
        Self {
            name,
            key,
            schema: batches[0].schema(),
            bytes: batches.iter().map(bytes).sum(),
            batches,
        }
    }

    pub fn write(&self, folder: &Path) {
        let path = folder.join(format!("{}.arrow", self.name));
        let file = File::create(&path).expect("a file");
        let mut writer = FileWriter::try_new_buffered(file, &self.schema).expect("a writer");
        for batch in &self.batches {
            writer.write(batch).expect("a batch");
        }
        writer.finish().expect("the end");
        println!(
            "{}: {} batches, {} bytes",
            path.display(),
            self.batches.len(),
            self.bytes
        );
    }
}

/// An int64 id and nine floats.
pub fn particles(bytes: usize) -> Table {
    let mut random = Random::new(5);
    let mut fields = vec![Field::new("id", DataType::Int64, false)];
    fields.extend((0..9).map(|at| Field::new(format!("f{at}"), DataType::Float64, false)));
    let schema = Arc::new(Schema::new(fields));
    let batches = (0..bytes.div_ceil(80 * BATCH_ROWS)).map(|_| {
        let mut ids = Int64Builder::new();
        (0..BATCH_ROWS).for_each(|_| ids.append_value((random.next_u64() >> 1) as i64));
        let mut columns: Vec<ArrayRef> = vec![Arc::new(ids.finish())];
        for _ in 0..9 {
            let mut values = Float64Builder::new();
            (0..BATCH_ROWS).for_each(|_| values.append_value(random.uniform()));
            columns.push(Arc::new(values.finish()));
        }
        RecordBatch::try_new(schema.clone(), columns).expect("a batch")
    });
    Table::new("particles", "id", batches.collect())
}

/// Ship positions: rows drawn from a day of real ones, with other ships, times and places; where
/// they are not at hand, a table of the same columns.
pub fn ships(bytes: usize) -> Table {
    let mut random = Random::new(6);
    let sample = sample().unwrap_or_else(|| made(&mut random));
    let rows = sample.num_rows() as u64;
    let mut batches = Vec::new();
    for _ in 0..bytes.div_ceil(172 * BATCH_ROWS) {
        let drawn =
            UInt32Array::from_iter_values((0..BATCH_ROWS).map(|_| random.below(rows) as u32));
        let batch = take_record_batch(&sample, &drawn).expect("rows");
        let mut columns = batch.columns().to_vec();
        let ids = columns[0].as_primitive::<Int32Type>();
        let ids = ids
            .values()
            .iter()
            .map(|id| id.wrapping_add(random.below(1000) as i32));
        columns[0] = Arc::new(Int32Array::from_iter_values(ids));
        let times = (0..BATCH_ROWS).map(|_| {
            let second = random.below(86_400);
            let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
            format!("2022-01-03T{hour:02}:{minute:02}:{second:02}")
        });
        columns[1] = Arc::new(LargeStringArray::from_iter_values(times));
        for column in &mut columns[2..4] {
            let places = column.as_primitive::<Float64Type>();
            let places = places
                .values()
                .iter()
                .map(|at| at + random.uniform() / 10.0);
            *column = Arc::new(Float64Array::from_iter_values(places));
        }
        batches.push(RecordBatch::try_new(sample.schema(), columns).expect("a batch"));
    }
    Table::new("ships", "MMSI", batches)
}

fn sample() -> Option<RecordBatch> {
    let file = File::open(shared("data/ais/ais_2022-01-03_99999.parquet")?).ok()?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .ok()?
        .build()
        .ok()?;
    let batches: Vec<RecordBatch> = reader.collect::<Result<_, _>>().ok()?;
    let sample = concat_batches(batches.first()?.schema_ref(), &batches).ok()?;
    Some(sample)
}

/// Six columns of text and eleven of numbers, some with nulls.
fn made(random: &mut Random) -> RecordBatch {
    let rows = 1 << 16;
    let ids = Int32Array::from_iter_values((0..rows).map(|_| random.below(1 << 30) as i32));
    let mut columns: Vec<(String, ArrayRef)> = vec![("MMSI".into(), Arc::new(ids))];
    for at in 1..17 {
        let column: ArrayRef = if [1, 7, 8, 9, 16].contains(&at) {
            let text =
                (0..rows).map(|_| "ISLAND ADVENTURE"[..random.below(17) as usize].to_owned());
            Arc::new(LargeStringArray::from_iter_values(text))
        } else {
            let value = |_| (at < 4 || random.below(4) > 0).then(|| random.uniform());
            Arc::new((0..rows).map(value).collect::<Float64Array>())
        };
        columns.push((format!("c{at}"), column));
    }
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, one)| (name, one, true)),
    )
    .expect("a table")
}
