//! `overside flow partition`.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use clap::ArgGroup;
use overside_base::raise_descriptor_limit;
use overside_flow::files::OutputFile;
use overside_flow::operators::{Filter, Projection, SortColumn};
use overside_flow::pack::StageTime;
use overside_flow::partition_name;
use overside_flow::{Error, Repartition};

use super::input::{CsvArguments, Input, local_path};
use super::method::MethodArguments;
use super::output::{self, OutputArguments};
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
    /// Directory for the partitions; it is made if absent
    #[arg(short = 'o', long = "out", value_name = "DIR", value_parser = local_path())]
    directory: PathBuf,
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

/// Options that select rows and columns.
struct RowSelection {
    filter: Option<Filter>,
    projection: Option<Projection>,
}

impl RowSelection {
    fn new(arguments: &Arguments, schema: &SchemaRef) -> Result<Self, Error> {
        let filter = arguments.filter.as_deref();
        let select = arguments.select.as_deref();
        Ok(Self {
            filter: filter.map(|text| Filter::new(schema.clone(), text)).transpose()?,
            projection: select.map(|text| Projection::new(schema.clone(), text)).transpose()?,
        })
    }

    fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, Error> {
        let filtered = match &self.filter {
            Some(filter) => filter.apply(batch)?,
            None => batch.clone(),
        };
        match &self.projection {
            Some(projection) => projection.apply(&filtered),
            None => Ok(filtered),
        }
    }
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
        let rows = RowSelection::new(self, &columns.schema);
        let in_first = |error: Error| format!("{}: {error}", columns.of);
        let rows = rows.map_err(in_first)?;
        let schema = rows.projection.as_ref().map_or(&columns.schema, Projection::schema).clone();
        fs::create_dir_all(&self.directory).map_err(|error| {
            let name = shown(&self.directory);
            match error.kind() {
                ErrorKind::AlreadyExists => format!("{name}: a file; name a directory"),
                _ => format!("{name}: {error}"),
            }
        })?;
        let partitions = key.method.partitions() as usize;
        let create = |partition| {
            let path = self.directory.join(self.file_name(partition, partitions));
            OutputFile::create(&path, self.output.force)
        };
        let options = self.output.options();
        output::say_conversions(options, &schema, &self.verbosity).map_err(in_first)?;
        let repartition = Repartition::new(&schema, &key, options, &pool, create);
        let sorted = repartition.and_then(|repartition| match self.sort.is_empty() {
            true => Ok(repartition),
            false => repartition.sorted_by(self.sort.clone()),
        });
        let mut repartition = sorted.map_err(in_first)?;
        let mut unpack = StageTime::default();
        for input in std::iter::once(Ok(first)).chain(inputs) {
            let mut input = input?;
            columns.check(&input)?;
            for batch in &mut input.reader {
                let selected = batch.and_then(|batch| rows.apply(&batch));
                let pushed = selected.and_then(|batch| repartition.push(&batch));
                pushed.map_err(|error| format!("{}: {}", input.name, output::said(error)))?;
            }
            unpack += input.reader.time();
        }
        let mut done = repartition.finish().map_err(output::said)?;
        done.times.unpack = unpack;
        let files = (done.outputs.into_iter())
            .map(|(partition, file)| {
                let name = shown(file.path());
                let bytes = file.finish(false).map_err(output::said)?;
                Ok((partition, name, bytes))
            })
            .collect::<Result<_, String>>()?;
        Ok(Summary { key, skew: done.skew, times: done.times, sort: done.sort, files })
    }

    /// `part-02.arrow`; the partition of null keys is behind the others.
    fn file_name(&self, partition: usize, partitions: usize) -> String {
        let name = partition_name("part", partition as u32, partitions as u32);
        format!("{name}.{}", self.output.format.extension())
    }
}
