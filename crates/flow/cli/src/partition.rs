//! `overside flow partition`.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use arrow_array::RecordBatch;
use clap::ArgGroup;
use overside_base::raise_descriptor_limit;
use overside_flow::operators::{
    Filter, PartitionOptions, Partitioner, Piece, Projection, SortColumn, parts, sort,
};
use overside_flow::pack::{StageTime, StageTimes};
use overside_flow::{
    Destination, Error, FileOutput, FileOutputOptions, Packing, PartitionedBatch, operators,
};

use super::input::{CsvArguments, Input, output_place};
use super::method::MethodArguments;
use super::output::{self, BATCH_ROWS, OutputArguments};
use super::text::{self, Summary};
use overside_command::{logging::Verbosity, messages::shown, options::Placement, print_result};

/// Split tables into one table for each partition of a key
#[derive(clap::Args)]
#[command(
    group(ArgGroup::new("method").required(true).args(["bits", "hash", "ranges"])),
    after_help = "\
Tables are Arrow IPC files or streams, Parquet, or CSV with a header; the format is detected. All have \
one schema. Rows keep their order unless --sort gives them another. Rows whose key is null go into a partition of their own.

Example: overside flow partition positions.parquet --key mmsi --bits 2 --out parts"
)]
pub(super) struct Arguments {
    /// Tables to split; - is stdin
    #[arg(value_name = "TABLE", required = true)]
    tables: Vec<OsString>,
    /// The column that decides
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    key: String,
    #[command(flatten)]
    method: MethodArguments,
    /// Keep only rows for which an SQL condition is true, as in "speed > 10 AND name LIKE 'A%'"
    #[arg(long, value_name = "SQL", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Write only these columns or SQL expressions, the key among them, as in
    /// 'id, lat, speed * 1.852 AS kmh'
    #[arg(long, value_name = "SQL", allow_hyphen_values = true)]
    select: Option<String>,
    /// Sort the rows of each partition by these columns, as in 'id, time desc'; all rows are held in memory
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', allow_hyphen_values = true)]
    sort: Vec<SortColumn>,
    /// Directory for the partitions, which is made if absent, or s3://BUCKET/PREFIX
    #[arg(short = 'o', long = "out", value_name = "DIR", value_parser = output_place())]
    to: Destination,
    /// Print what was written, and the time of each stage, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    csv: CsvArguments,
    #[command(flatten)]
    placement: Placement,
    #[command(flatten)]
    pub verbosity: Verbosity,
}

/// File descriptors that may be open at once: one for each partition, and some more.
const DESCRIPTORS: u64 = 2048;

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let summary = arguments.partition()?;
    Ok(print_result(arguments.json, || text::json(&summary), || text::table(&summary)))
}

impl Arguments {
    fn partition(&self) -> Result<Summary, String> {
        let key = self.method.key(&self.key)?;
        let pool = output::pool(&self.placement)?;
        // A file for each partition may be open at once.
        raise_descriptor_limit(DESCRIPTORS);
        let mut inputs = self.tables.iter().map(|path| Input::open(path, &self.csv, &pool));
        let first = inputs.next().ok_or("no table")??;
        let columns = first.columns();
        let in_first = |error: Error| format!("{}: {error}", columns.of);
        let filter = self.filter.as_ref().map(|text| Filter::new(columns.schema.clone(), text));
        let filter = filter.transpose().map_err(in_first)?;
        let select = self.select.as_ref().map(|text| Projection::new(columns.schema.clone(), text));
        let select = select.transpose().map_err(in_first)?;
        let select_rows = |batch: RecordBatch| {
            let kept = filter.as_ref().map(|filter| filter.apply(&batch)).transpose()?;
            let batch = kept.unwrap_or(batch);
            let selected = select.as_ref().map(|select| select.apply(&batch)).transpose()?;
            Ok(selected.unwrap_or(batch))
        };
        let schema = select.as_ref().map_or(&columns.schema, Projection::schema).clone();
        let options = self.output.options();
        output::say_conversions(options, &schema, &self.verbosity).map_err(in_first)?;
        // Sorting an empty table checks the columns.
        let sorted = (!self.sort.is_empty())
            .then(|| sort(&[RecordBatch::new_empty(Arc::clone(&schema))], &self.sort));
        sorted.transpose().map_err(in_first)?;
        let partitioner = Partitioner::with_memory(
            Arc::clone(&schema),
            &key,
            PartitionOptions::default(),
            pool.memory(),
        );
        let mut partitioner = partitioner.map_err(in_first)?;
        let options = FileOutputOptions {
            write: options,
            prefix: "part".into(),
            replace: self.output.force,
            gather: None,
        };
        let count = partitioner.partitions();
        let packing = Arc::new(Packing::of_pool(&pool));
        let output = FileOutput::new(&self.to, &schema, Some(count as u32), options, &packing);
        let mut tables = Tables {
            output: output.map_err(output::said)?,
            sort: &self.sort,
            waiting: vec![Vec::new(); count + 1],
        };
        let (mut unpack, mut partition) = (StageTime::default(), StageTime::default());
        for input in std::iter::once(Ok(first)).chain(inputs) {
            let mut input = input?;
            columns.check(&input)?;
            for batch in &mut input.reader {
                let selected = batch.and_then(select_rows);
                let pushed = selected.and_then(|batch| {
                    partition.bytes_in += operators::values_bytes(&batch) as u64;
                    tables.write(partition.measure(|| partitioner.push(&batch))?)
                });
                pushed.map_err(|error| format!("{}: {}", input.name, output::said(error)))?;
            }
            unpack += input.reader.time();
        }
        let (pieces, skew) = partition.measure(|| partitioner.finish()).map_err(output::said)?;
        partition.bytes_out = skew.bytes();
        tables.write(pieces).map_err(output::said)?;
        let sort = tables.write_sorted().map_err(output::said)?;
        let mut repack = StageTime::default();
        let files = tables.output.finish(false).map_err(output::said)?.into_iter().map(|file| {
            repack += file.time;
            (file.partition.map_or(0, |number| number as usize), shown(&file.path), file.bytes)
        });
        let files = files.collect();
        Ok(Summary { key, skew, times: StageTimes { unpack, partition, repack }, sort, files })
    }
}

/// Tables of the partitions, which are written, or whose rows wait to be sorted until the input ends.
struct Tables<'a> {
    output: FileOutput,
    /// Columns to sort by; none if the rows keep their order.
    sort: &'a [SortColumn],
    /// Waiting batches by partition.
    waiting: Vec<Vec<RecordBatch>>,
}

impl Tables<'_> {
    fn write(&mut self, pieces: impl IntoIterator<Item = Piece>) -> Result<(), Error> {
        for (partition, batch) in pieces {
            if self.sort.is_empty() {
                let partition = Some(partition as u32);
                self.output.write(&PartitionedBatch { partition, batch })?;
            } else {
                self.waiting[partition].push(batch);
            }
        }
        Ok(())
    }

    /// Sorts and writes the waiting rows. Returns the time of sorting; `None` if the rows keep their order.
    fn write_sorted(&mut self) -> Result<Option<StageTime>, Error> {
        let columns = std::mem::take(&mut self.sort);
        let mut time = StageTime::default();
        for (partition, batches) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            if !batches.is_empty() {
                let sorted = time.measure(|| sort(&batches, columns))?;
                time.bytes_in += operators::values_bytes(&sorted) as u64;
                self.write(parts(&sorted, BATCH_ROWS).map(|part| (partition, part)))?;
            }
        }
        time.bytes_out = time.bytes_in;
        Ok((!columns.is_empty()).then_some(time))
    }
}
