//! Columns of a Parquet file, decoded side by side.
//!
//! 1. Groups of columns have a reader each. A task has one of them decode the next rows.
//! 2. The columns of all groups make a batch. Tasks for the next one begin before it goes out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use super::strings;
use crate::Error;
use crate::error::guarded;
use crate::pack::{CodecPool, Pending};

/// Reader of a group of columns, and the schema in which they are wanted.
pub(super) struct Group {
    pub(super) reader: ParquetRecordBatchReader,
    pub(super) schema: SchemaRef,
    /// Bytes of strings that may be copied at once.
    pub(super) string_bytes_max: usize,
}

impl Group {
    /// The next rows, in their types unless their strings are too long for that.
    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        match self.reader.next().transpose()? {
            Some(batch) if strings::bytes(&batch) <= self.string_bytes_max => {
                strings::as_written(&batch, &self.schema).map(Some)
            }
            batch => Ok(batch),
        }
    }
}

/// All groups.
pub(super) struct SideBySide {
    pool: Arc<CodecPool>,
    /// Groups before the first batch.
    waiting: Vec<Group>,
    /// `None` before the first batch, and at the end.
    pending: Option<Pending<(Group, Option<RecordBatch>)>>,
    schema: SchemaRef,
    cpu_ns: Arc<AtomicU64>,
}

impl SideBySide {
    /// Batches of `schema`, whose columns are those of the groups. CPU time of tasks is added to `cpu_ns`.
    pub(super) fn new(
        groups: Vec<Group>,
        schema: &SchemaRef,
        pool: &Arc<CodecPool>,
        cpu_ns: &Arc<AtomicU64>,
    ) -> Self {
        Self {
            pool: Arc::clone(pool),
            waiting: groups,
            pending: None,
            schema: Arc::clone(schema),
            cpu_ns: Arc::clone(cpu_ns),
        }
    }

    fn start(&mut self, groups: Vec<Group>) {
        let tasks = groups.into_iter().map(|mut group| {
            move || {
                let batch = guarded(|| group.next())?;
                Ok((group, batch))
            }
        });
        self.pending = Some(self.pool.start_tasks(tasks));
    }

    /// The next rows of all groups. `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        if !self.waiting.is_empty() {
            let groups = std::mem::take(&mut self.waiting);
            self.start(groups);
        }
        let Some(pending) = self.pending.take() else {
            return Ok(None);
        };
        let (decoded, cpu_ns) = self.pool.wait(pending)?;
        self.cpu_ns.fetch_add(cpu_ns, Ordering::Relaxed);
        let (groups, batches): (Vec<_>, Vec<_>) = decoded.into_iter().unzip();
        if batches.iter().all(Option::is_none) {
            return Ok(None);
        }
        let batches: Option<Vec<RecordBatch>> = batches.into_iter().collect();
        let damaged = || Error::Format("the file is damaged: its columns have other rows".into());
        let batches = batches.ok_or_else(damaged)?;
        self.start(groups);
        let columns = batches.iter().flat_map(RecordBatch::columns);
        let columns: Vec<ArrayRef> = columns.map(Arc::clone).collect();
        let fields = self.schema.fields().iter().zip(&columns);
        let is_typed =
            (fields.clone()).all(|(field, array)| field.data_type() == array.data_type());
        let schema = match is_typed {
            true => Arc::clone(&self.schema),
            false => {
                let fields = fields.map(|(field, array)| {
                    Field::clone(field).with_data_type(array.data_type().clone())
                });
                Arc::new(Schema::new(fields.collect::<Vec<_>>()))
            }
        };
        Ok(Some(RecordBatch::try_new(schema, columns)?))
    }
}
