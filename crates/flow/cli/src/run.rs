//! `overside flow run`.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use overside_base::raise_descriptor_limit;
use overside_flow::Error;
use overside_flow::operators::parts;
use overside_flow::pack::CodecPool;
use overside_flow::{
    BatchResult, Definition, Destination, FileOutput, Node, NodeDefinition, Output, Packing,
    PartitionedBatch, Pipeline, Stream, TreeDefinition, TreeOutput, WrittenFile,
};
use overside_flow_service::RemoteNodes;

use super::input::{CsvArguments, Input};
use super::output::said;
use super::ray::{Failure, RayNodes};
use super::run_text::{self, Summary};
use overside_command::{logging::Verbosity, messages::shown, options, print_result};

/// Run a pipeline on files
#[derive(clap::Args)]
#[command(after_help = "\
The stages, where each runs, and where what comes out goes, stand in the file: docs/flow/flow-pipeline.md. \
With --on ray, nodes with `resources` are started on machines of a Ray cluster: docs/measure/scale.md.

Example: overside flow run errors.toml monday.arrow tuesday.arrow")]
pub(super) struct Arguments {
    /// The pipeline
    #[arg(value_name = "PIPELINE.toml")]
    pipeline: PathBuf,
    /// Tables to read instead of the pipeline's input.files; - is stdin
    #[arg(value_name = "TABLE")]
    tables: Vec<OsString>,
    /// Check the pipeline, and with tables whether it takes them, without running it
    #[arg(long)]
    check: bool,
    /// Replace files that are there
    #[arg(short, long)]
    force: bool,
    /// Print what each stage did, and where, as JSON
    #[arg(long)]
    json: bool,
    /// CPU threads [default: the pipeline's]
    #[arg(short = 'p', long, value_name = "N", value_parser = options::thread_count())]
    threads: Option<NonZeroUsize>,
    /// Start the nodes that have `resources` on machines of a Ray cluster that have them
    #[arg(long, value_name = "WHAT", value_enum)]
    on: Option<On>,
    /// The Ray cluster: HOST:PORT, `auto` for the one that this machine is part of, `local` to start one
    /// on this machine
    #[arg(long, value_name = "ADDRESS", requires = "on", default_value = "auto")]
    ray_address: String,
    #[command(flatten)]
    csv: CsvArguments,
    #[command(flatten)]
    pub verbosity: Verbosity,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum On {
    Ray,
}

/// File descriptors that may be open at once: one for each partition of each output, and some more.
const DESCRIPTORS: u64 = 8192;

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let definition = Definition::read(&arguments.pipeline).map_err(|error| error.to_string())?;
    let definition = match arguments.threads {
        Some(count) => definition.with_threads(count),
        None => definition,
    };
    let tables: Vec<OsString> = match arguments.tables.is_empty() {
        true => definition.input.files.iter().map(Into::into).collect(),
        false => arguments.tables.clone(),
    };
    let pool = Arc::new(CodecPool::new(definition.threads()).map_err(said)?);
    let mut run = Run {
        packing: Arc::new(Packing::open(&definition, &pool).map_err(said)?),
        definition: &definition,
        pool,
        force: arguments.force,
        csv: &arguments.csv,
        ray: None,
    };
    if arguments.check {
        run.check(&tables)?;
        return Ok(overside_command::print("OK\n"));
    }
    if arguments.on == Some(On::Ray) {
        run.ray = match RayNodes::start(&definition, &arguments.ray_address) {
            Ok(nodes) => Some(nodes),
            Err(Failure::Message(message)) => return Err(message),
            Err(Failure::Code(code)) => return Ok(ExitCode::from(code)),
        };
    }
    let summary = run.tables(&tables)?;
    let (json, text) = (|| run_text::json(&summary), || run_text::table(&summary));
    Ok(print_result(arguments.json, json, text))
}

struct Run<'a> {
    definition: &'a Definition,
    pool: Arc<CodecPool>,
    packing: Arc<Packing>,
    force: bool,
    csv: &'a CsvArguments,
    ray: Option<RayNodes>,
}

/// An output and its writer.
struct Route<'a> {
    name: &'a str,
    output: &'a Output,
    writer: Writer,
}

enum Writer {
    Files(Box<FileOutput>),
    Tree(Box<TreeOutput>),
}

impl Route<'_> {
    fn write(&mut self, piece: &PartitionedBatch) -> Result<(), Error> {
        match &mut self.writer {
            Writer::Files(files) => files.write(piece),
            Writer::Tree(tree) => tree.write(&piece.batch),
        }
    }

    fn finish(self) -> Result<Vec<WrittenFile>, Error> {
        match self.writer {
            Writer::Files(files) => files.finish(false),
            Writer::Tree(tree) => Ok(vec![tree.finish(self.output)?]),
        }
    }
}

impl Run<'_> {
    fn check(&self, tables: &[OsString]) -> Result<(), String> {
        for table in tables {
            let input = Input::open(table, self.csv, self.packing.unpack.pool())?;
            let checked = self.definition.output_schema(input.reader.schema());
            checked.map_err(|error| format!("{}: {error}", input.name))?;
        }
        Ok(())
    }

    fn tables(&self, tables: &[OsString]) -> Result<Summary, String> {
        let begin = Instant::now();
        let unpack = &self.packing.unpack;
        let open = |path| unpack.work(|| Input::open(path, self.csv, unpack.pool()));
        let mut inputs = tables.iter().map(open);
        let none = "no table: name tables here, or in the pipeline's input.files";
        let first = inputs.next().ok_or(none)??;
        let columns = first.columns();
        let remote = Arc::new(RemoteNodes::new(&self.packing).map_err(|error| error.to_string())?);
        let connect = |name: &str, node: &NodeDefinition| self.connect(name, node, &remote);
        let definition = self.definition.clone();
        let pipeline = Pipeline::on_caller(definition, &self.pool, connect).map_err(said)?;
        let pipeline = pipeline.with_packing(&self.packing);
        let stream = pipeline.stream(&columns.schema);
        let stream = stream.map_err(|error| format!("{}: {error}", first.name))?;
        raise_descriptor_limit(DESCRIPTORS);
        let mut routes = self.routes(&stream)?;
        let rows = self.definition.input_rows();
        for input in std::iter::once(Ok(first)).chain(inputs) {
            let input = input?;
            columns.check(&input)?;
            let Input { name, mut reader } = input;
            let in_input = |error: Error| format!("{name}: {}", said(error));
            let (mut batches, mut count) = (0, 0);
            while let Some(batch) = unpack.work(|| reader.next()) {
                let batch = batch.map_err(in_input)?;
                batches += 1;
                count += batch.num_rows() as u64;
                self.push(&stream, &batch, rows, &mut routes).map_err(in_input)?;
            }
            unpack.done(batches, count, reader.time());
        }
        stream.finish();
        while let Some(done) = stream.pull() {
            self.write(&mut routes, done.map_err(said)?).map_err(said)?;
        }
        let mut files = Vec::new();
        for route in routes {
            files.extend(route.finish().map_err(said)?);
        }
        let mut report = stream.report();
        // Reading comes before the first batch, and files are whole behind the last one.
        report.totals.elapsed_ns = begin.elapsed().as_nanos() as u64;
        let ray = self.ray.as_ref().map(RayNodes::places);
        Ok(Summary { report, files, ray })
    }

    fn connect(
        &self,
        name: &str,
        node: &NodeDefinition,
        remote: &Arc<RemoteNodes>,
    ) -> Result<Arc<dyn Node>, Error> {
        if !node.is_placed_by_ray() {
            let node = remote.node(node);
            let node = node.map_err(|error| Error::Refused(error.to_string()))?;
            return Ok(Arc::new(node));
        }
        let ray = self.ray.as_ref().ok_or_else(|| {
            Error::Refused(format!(
                "node {name:?} has no address; --on ray finds it one by its resources"
            ))
        })?;
        Ok(ray.node(name, node, remote))
    }

    fn routes(&self, stream: &Stream) -> Result<Vec<Route<'_>>, String> {
        let outputs = self.definition.outputs.iter();
        let count = self.definition.outputs.len() as u64;
        outputs
            .map(|(name, output)| {
                if let Destination::Subscribers | Destination::Flight(_) = output.to {
                    let to = shown(output.to.to_string());
                    return Err(format!(
                        "output {name:?} goes to {to}: only `overside flow serve` does that; here \
                         outputs are directories and s3://BUCKET/PREFIX"
                    ));
                }
                if output.tree.as_ref().is_some_and(TreeDefinition::passes) {
                    return Err(format!(
                        "output {name:?}: only `overside flow serve` passes rows of a tree to `next`"
                    ));
                }
                let schema = stream.output_schema();
                let writer = match output.tree {
                    Some(_) => {
                        let tree = TreeOutput::new(output, schema, &self.packing);
                        Writer::Tree(Box::new(tree.map_err(said)?))
                    }
                    None => {
                        let bytes = self.definition.memory_bytes() / 2 / count;
                        let options = output.file_options("part".into(), self.force, bytes);
                        let (to, partitions) = (&output.to, self.definition.partitions());
                        let files = FileOutput::new(to, schema, partitions, options, &self.packing);
                        Writer::Files(Box::new(files.map_err(said)?))
                    }
                };
                Ok(Route {
                    name,
                    output,
                    writer,
                })
            })
            .collect()
    }

    /// Pushes a batch in parts, and writes finished ones meanwhile. If an earlier batch failed,
    /// returns that error instead of one about the ended stream.
    fn push(
        &self,
        stream: &Stream,
        batch: &RecordBatch,
        rows: usize,
        routes: &mut [Route<'_>],
    ) -> Result<(), Error> {
        for mut part in parts(batch, rows) {
            loop {
                let refused = stream.try_push(0, part);
                let mut is_drained = true;
                while let Some(done) = stream.try_pull() {
                    self.write(routes, done?)?;
                    is_drained = false;
                }
                match refused? {
                    None => break,
                    Some(back) => part = back,
                }
                if is_drained && let Some(done) = stream.pull() {
                    self.write(routes, done?)?;
                }
            }
        }
        Ok(())
    }

    fn write(&self, routes: &mut [Route<'_>], done: BatchResult) -> Result<(), Error> {
        for piece in &done.pieces {
            for (name, _) in self.definition.routes(piece.partition) {
                let route = routes.iter_mut().find(|route| route.name == name);
                if let Some(route) = route {
                    route.write(piece)?;
                }
            }
        }
        Ok(())
    }
}
