//! Output to a log-structured tree.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use overside_tables::pack::StageTime;

use crate::Error;
use crate::definition::outputs::{Destination, Output};
use crate::run::file_output::WrittenFile;
use crate::run::packing::Packing;
use overside_flow_operators::values_bytes;
use overside_flow_tree::{ForwardedRun, TreeReader, TreeWriter};

/// Tree that absorbs the results of a pipeline. No other process writes to it meanwhile.
pub struct TreeOutput {
    tree: TreeWriter,
    packing: Arc<Packing>,
    /// Number of batches that arrived; `time` is the time of writing them.
    batches: u64,
    time: StageTime,
}

impl TreeOutput {
    /// Opens or creates the tree of an output. Nothing is committed before [`Self::finish`].
    ///
    /// # Errors
    /// [`Error::Refused`] for an output that is not a tree; others of [`TreeWriter::open`].
    pub fn new(output: &Output, schema: &SchemaRef, packing: &Arc<Packing>) -> Result<Self, Error> {
        let (Some(definition), Destination::Directory(directory)) = (&output.tree, &output.to)
        else {
            return Err(Error::Refused(format!("{} is no tree", output.to)));
        };
        let options = definition.options(directory)?;
        let mut tree = TreeWriter::open(directory, schema, &options, packing.repack.pool())?;
        if definition.passes() {
            tree = tree.passing()?;
        } else if tree.passes() {
            return Err(Error::Refused(format!(
                "{}: the tree passes its rows to other machines: name them as `next`",
                directory.display()
            )));
        }
        Ok(Self {
            tree: tree.atomic(),
            packing: Arc::clone(packing),
            batches: 0,
            time: StageTime::default(),
        })
    }

    /// Opens the tree of an output if it exists.
    ///
    /// # Errors
    /// Those of [`TreeOutput::new`].
    pub fn of_existing(output: &Output, packing: &Arc<Packing>) -> Result<Option<Self>, Error> {
        match &output.to {
            Destination::Directory(directory) if TreeWriter::options(directory)?.is_some() => {
                let tree = TreeReader::open(directory, packing.repack.pool())?;
                Self::new(output, tree.schema(), packing).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Returns the schema.
    pub fn schema(&self) -> &SchemaRef {
        self.tree.schema()
    }

    /// Writes rows.
    ///
    /// # Errors
    /// [`Error`]; then the output must be dropped.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<(), Error> {
        self.time.bytes_in += values_bytes(rows) as u64;
        self.batches += 1;
        self.work(|tree| tree.absorb(rows))
    }

    /// Writes a producer's numbered rows, in ascending order, unless the tree has them.
    ///
    /// # Errors
    /// [`Error`]; then the output must be dropped.
    pub fn write_numbered(
        &mut self,
        producer: &str,
        sequence: u64,
        rows: &RecordBatch,
    ) -> Result<(), Error> {
        self.time.bytes_in += values_bytes(rows) as u64;
        self.batches += 1;
        self.work(|tree| tree.absorb_numbered(producer, sequence, rows))
    }

    /// Returns `true` if rows must be passed on now, like [`TreeWriter::has_to_pass`].
    pub fn has_to_pass(&self) -> bool {
        self.tree.has_to_pass()
    }

    /// Passes on committed rows, like [`TreeWriter::pass`].
    ///
    /// # Errors
    /// Those of [`TreeWriter::pass`].
    pub fn pass(
        &mut self,
        to: &mut dyn FnMut(ForwardedRun<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.tree.pass(to)
    }

    /// Commits the written rows: they are on the disk then.
    ///
    /// # Errors
    /// [`Error`].
    pub fn finish(mut self, output: &Output) -> Result<WrittenFile, Error> {
        self.work(TreeWriter::commit)?;
        let written = self.tree.written();
        self.time.bytes_out = written.written_bytes;
        let repack = &self.packing.repack;
        repack.done(self.batches, written.rows, self.time);
        Ok(WrittenFile {
            partition: None,
            path: output.to.to_string().into(),
            rows: written.rows,
            bytes: written.written_bytes,
            time: self.time,
        })
    }

    fn work<T>(&mut self, work: impl FnOnce(&mut TreeWriter) -> T) -> T {
        let Self { tree, packing, time, .. } = self;
        packing.repack.work(|| time.measure(|| work(tree)))
    }
}
