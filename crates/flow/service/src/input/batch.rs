//! A batch on its way, and its record on disk.

use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};

use arrow_array::{Array, RecordBatch};
use overside_flow::TableError;
use overside_flow::pack::{CodecPool, Layout, PackOptions, Packer, UnpackOptions, Unpacker};

use crate::input::metadata::{BatchMetadata, METADATA_BYTES_MAX};

/// A batch, and whose it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Name of the producer that sent it.
    pub producer: Arc<str>,
    /// Number of the batch among those of its producer.
    pub sequence: u64,
    /// The partition that it is a part of.
    pub partition: Option<u32>,
    /// The rows.
    pub data: RecordBatch,
}

/// Estimated memory of a batch in addition to its buffers, in bytes.
const OVERHEAD_BYTES: usize = 1 << 10;
/// Longest batch in bytes that is read back.
const RECORD_BYTES_MAX: u64 = 2 << 30;

/// Error for a record that is not a batch.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The metadata cannot be read, or the record does not have exactly one batch.
    #[error("a record without a batch")]
    Metadata,
    /// The Arrow data of the record cannot be read.
    #[error(transparent)]
    Data(#[from] TableError),
}

impl Batch {
    /// Memory that it holds in bytes, about. Columns that came in one message share its memory, so that only
    /// their parts of it count.
    pub fn memory_bytes(&self) -> usize {
        let columns = self.data.columns().iter().map(|column| {
            let bytes = column.to_data().get_slice_memory_size();
            bytes.unwrap_or_else(|_| column.get_array_memory_size())
        });
        OVERHEAD_BYTES + columns.sum::<usize>()
    }

    /// Returns the producer, number and partition of the batch, without its rows and their memory.
    #[must_use]
    pub fn without_rows(&self) -> Self {
        Self {
            producer: Arc::clone(&self.producer),
            sequence: self.sequence,
            partition: self.partition,
            data: RecordBatch::new_empty(self.data.schema()),
        }
    }

    /// Returns the metadata of the batch, as one of an output if that is named.
    pub fn metadata(&self, output: Option<&str>) -> BatchMetadata {
        BatchMetadata {
            producer: Some((*self.producer).into()),
            sequence: Some(self.sequence),
            output: output.map(Into::into),
            partition: self.partition,
        }
    }

    /// Appends a record that [`Batch::from_record`] reads.
    ///
    /// # Errors
    /// [`TableError`]: its columns cannot be written.
    pub fn write_record(&self, out: &mut Vec<u8>) -> Result<(), TableError> {
        let metadata = self.metadata(None).to_bytes();
        out.extend_from_slice(&(metadata.len() as u32).to_le_bytes());
        out.extend_from_slice(&metadata);
        let options = PackOptions { layout: Layout::Stream, ..PackOptions::default() };
        let mut packer = Packer::new(std::mem::take(out), self.data.schema(), options, pool())?;
        packer.write(&self.data)?;
        (*out, _) = packer.finish()?;
        Ok(())
    }

    /// The batch of a record: the length of its metadata in four bytes, little endian, the metadata, and
    /// a stream of Arrow IPC.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn from_record(record: &[u8]) -> Result<Self, RecordError> {
        let (len, rest) = record.split_first_chunk().ok_or(RecordError::Metadata)?;
        let len = u32::from_le_bytes(*len);
        if len as usize > METADATA_BYTES_MAX {
            return Err(RecordError::Metadata);
        }
        let (metadata, data) =
            (rest.split_at_checked(len as usize)).ok_or(RecordError::Metadata)?;
        let metadata = BatchMetadata::parse(metadata);
        let metadata = metadata.ok().flatten().ok_or(RecordError::Metadata)?;
        let producer = metadata.producer.ok_or(RecordError::Metadata)?;
        let options = UnpackOptions { message_bytes_max: RECORD_BYTES_MAX };
        let mut batches = Unpacker::bytes(data.to_vec().into(), options, pool())?;
        let batch = batches.next().ok_or(RecordError::Metadata)??;
        if batches.next().is_some() {
            return Err(RecordError::Metadata);
        }
        Ok(Self {
            producer: producer.into(),
            sequence: metadata.sequence.ok_or(RecordError::Metadata)?,
            partition: metadata.partition,
            data: batch,
        })
    }
}

/// Returns the pool that packs spilled batches: the caller's thread only, because they are copied
/// and not compressed.
fn pool() -> &'static Arc<CodecPool> {
    static POOL: LazyLock<Arc<CodecPool>> = LazyLock::new(|| {
        let pool = CodecPool::new(NonZeroUsize::MIN);
        Arc::new(pool.expect("a pool of the caller's thread starts none"))
    });
    &POOL
}
