//! `overside flow tree query`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use overside_flow::Error;
use overside_flow::Packing;
use overside_flow::files::{FileFormat, FileWriter, OutputFile, WriteOptions};
use overside_flow::operators::{Projection, parts};
use overside_flow::pack::CodecPool;
use overside_flow::tree::{TrackQuery, TrackSource, TreeReader, TreeUnion};
use overside_flow_service::RemoteNodes;

use crate::input::local_path;
use crate::output;
use overside_command::{
    logging::Verbosity,
    options::{Threads, size_within},
};

/// Find tracks: rows of objects in a time, by object and time
#[derive(clap::Args)]
#[command(after_help = "\
All levels are searched: what has not reached a leaf yet is found too. Several trees are read as one, as \
when each of several machines has the tracks of some objects; `overside flow serve` answers for the trees \
that its outputs feed.

Example: overside flow tree query tracks --id 4b1814,4b1815 --from 2018-08-01 --to 2018-08-02 -o two.parquet \
    --format parquet")]
pub(super) struct Arguments {
    /// The tree's directory, or where it is served (grpc://HOST:PORT/OUTPUT, grpc+tls://...), or several
    /// trees with the same columns
    #[arg(value_name = "TREE", required = true)]
    trees: Vec<PathBuf>,
    /// Only these objects, at most 100 [default: all]
    #[arg(long, value_name = "ID,...", value_delimiter = ',', allow_hyphen_values = true)]
    id: Vec<String>,
    /// Only rows of this time or later, as the column has it: 2018-08-01T12:00:00, or a number
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// Only rows before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
    /// Only these columns or SQL expressions
    #[arg(long, value_name = "SQL", allow_hyphen_values = true)]
    select: Option<String>,
    /// Write to FILE instead of stdout
    #[arg(short = 'o', long = "out", value_name = "FILE", value_parser = local_path())]
    file: Option<PathBuf>,
    /// arrow, arrow-stream, parquet or csv [default: csv; arrow in a file]
    #[arg(long, value_name = "FORMAT")]
    format: Option<FileFormat>,
    /// Replace FILE if it is there
    #[arg(short, long)]
    force: bool,
    /// File whose first line is the password of services
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    password_file: Option<PathBuf>,
    /// Directory with ca.pem, and host.pem and host.key for services that want certificates
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    tls_keys: Option<PathBuf>,
    /// Most bytes of rows that are gathered
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size_within(1..=(1 << 40)))]
    memory: usize,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    pub verbosity: Verbosity,
}

impl Arguments {
    /// Opens one of the trees, wherever it is.
    fn open(
        &self,
        tree: &Path,
        connections: &RemoteNodes,
        pool: &Arc<CodecPool>,
    ) -> Result<Box<dyn TrackSource>, String> {
        let failed = |error: Error| error.to_string();
        match tree.to_str().filter(|text| text.contains("://")) {
            None => {
                let tree = TreeReader::open(tree, pool).map_err(failed)?;
                Ok(Box::new(tree))
            }
            Some(address) => {
                let (keys, password) = (&self.tls_keys, &self.password_file);
                let tree = connections.tree(address, keys, password).map_err(failed)?;
                Ok(Box::new(tree))
            }
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let failed = |error: Error| error.to_string();
    let pool = output::threads(arguments.threads.count())?;
    let packing = Arc::new(Packing::of_pool(&pool));
    let connections = RemoteNodes::new(&packing).map_err(|error| error.to_string())?;
    let trees = (arguments.trees.iter()).map(|tree| arguments.open(tree, &connections, &pool));
    let mut tree = TreeUnion::of(trees.collect::<Result<_, _>>()?).map_err(failed)?;
    let select = (arguments.select.as_deref())
        .map(|text| Projection::new(tree.schema().clone(), text))
        .transpose()
        .map_err(failed)?;
    let query = TrackQuery {
        ids: arguments.id.clone(),
        from: arguments.from.clone(),
        to: arguments.to.clone(),
        bytes_max: arguments.memory as u64,
    };
    let rows = tree.query(&query, arguments.threads.count()).map_err(failed)?;
    let schema = select.as_ref().map_or(tree.schema(), Projection::schema);
    let selected = |batch: &RecordBatch| match &select {
        Some(select) => select.apply(batch),
        None => Ok(batch.clone()),
    };
    let rows: Result<Vec<_>, _> = rows.iter().map(selected).collect();
    let mut rows = rows.map_err(failed)?;
    if rows.is_empty() {
        // So that the columns are there.
        rows.push(RecordBatch::new_empty(schema.clone()));
    }
    match &arguments.file {
        Some(path) => {
            let output = OutputFile::create(path, arguments.force).map_err(output::said)?;
            let format = arguments.format.unwrap_or(FileFormat::Arrow);
            let output = write(output, format, schema, &rows, &pool, &arguments.verbosity)
                .map_err(failed)?;
            let finished = output.finish(false).map_err(output::said);
            finished.map(|_| ExitCode::SUCCESS)
        }
        None => {
            let format = arguments.format.unwrap_or(FileFormat::Csv);
            match write(io::stdout(), format, schema, &rows, &pool, &arguments.verbosity) {
                // A closed pipe means that the reader has enough.
                Err(error) if error.io_kind() != Some(io::ErrorKind::BrokenPipe) => {
                    Err(format!("stdout: {error}"))
                }
                _ => Ok(ExitCode::SUCCESS),
            }
        }
    }
}

fn write<W: Write + Send + 'static>(
    output: W,
    format: FileFormat,
    schema: &SchemaRef,
    rows: &[RecordBatch],
    pool: &Arc<CodecPool>,
    verbosity: &Verbosity,
) -> Result<W, Error> {
    let options = WriteOptions { format, ..WriteOptions::default() };
    output::say_conversions(options, schema, verbosity)?;
    let mut writer = FileWriter::new(output, schema, options, pool)?;
    for batch in rows {
        parts(batch, output::BATCH_ROWS).try_for_each(|part| writer.write(&part))?;
    }
    let (mut output, _) = writer.finish()?;
    output.flush()?;
    Ok(output)
}
