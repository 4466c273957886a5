//! Footer of a file: the index of its messages.

use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::writer::DictionaryTracker;
use arrow_ipc::{Block, FooterBuilder, MessageHeader, MetadataVersion};
use arrow_schema::Schema;
use flatbuffers::FlatBufferBuilder;

use super::message::ALIGN_BYTES;
use crate::Error;

/// Magic bytes of a file.
pub(super) const NAME: &[u8; 6] = b"ARROW1";

/// First bytes of a file: the magic bytes and padding.
pub(super) const MAGIC: [u8; ALIGN_BYTES] = {
    let mut magic = [0; ALIGN_BYTES];
    let mut at = 0;
    while at < NAME.len() {
        magic[at] = NAME[at];
        at += 1;
    }
    magic
};

/// Index of the messages of a file, built while they are written.
#[derive(Default)]
pub(super) struct Footer {
    /// Number of bytes written so far.
    pub position: u64,
    dictionaries: Vec<Block>,
    batches: Vec<Block>,
}

impl Footer {
    /// Records a message that was written.
    pub(super) fn wrote(
        &mut self,
        kind: MessageHeader,
        header_len: usize,
        body_len: usize,
    ) -> Result<(), Error> {
        let header = i32::try_from(header_len);
        let header = header.map_err(|_| Error::Options("a schema of more than 2 GiB".into()))?;
        let block = Block::new(self.position as i64, header, body_len as i64);
        match kind {
            MessageHeader::DictionaryBatch => self.dictionaries.push(block),
            MessageHeader::RecordBatch => self.batches.push(block),
            _ => {}
        }
        self.position += (header_len + body_len) as u64;
        Ok(())
    }

    /// Encodes the footer, its length, and the magic bytes.
    pub(super) fn write(&self, schema: &Schema) -> Result<Vec<u8>, Error> {
        let mut fbb = FlatBufferBuilder::new();
        let dictionaries = fbb.create_vector(&self.dictionaries);
        let batches = fbb.create_vector(&self.batches);
        // The encoder of the messages numbers dictionaries in the same way.
        let mut numbers = DictionaryTracker::new(true);
        let schema = IpcSchemaEncoder::new()
            .with_dictionary_tracker(&mut numbers)
            .schema_to_fb_offset(&mut fbb, schema);
        let mut footer = FooterBuilder::new(&mut fbb);
        footer.add_version(MetadataVersion::V5);
        footer.add_schema(schema);
        footer.add_dictionaries(dictionaries);
        footer.add_recordBatches(batches);
        let root = footer.finish();
        fbb.finish(root, None);
        let mut out = fbb.finished_data().to_vec();
        let len = i32::try_from(out.len());
        let len = len.map_err(|_| Error::Options("a footer of more than 2 GiB".into()))?;
        out.extend(len.to_le_bytes());
        out.extend(NAME);
        Ok(out)
    }
}
