//! Properties of arbitrary bytes, which the fuzz target also checks.

use std::io::Cursor;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use overside_tables::Error;
use overside_tables::pack::{
    Codec, CodecPool, Layout, PackOptions, Packer, UnpackOptions, Unpacker,
};

/// Maximum number of batches that are read: a few bytes may declare many.
const BATCHES_MAX: usize = 64;
/// Maximum number of rows of a batch that is written again.
const ROWS_MAX: usize = 1 << 16;

/// Checks that any bytes are either refused, or are batches that are the same after writing and reading.
pub(crate) fn ipc(bytes: &[u8]) {
    static POOL: OnceLock<Arc<CodecPool>> = OnceLock::new();
    let pool = POOL.get_or_init(|| Arc::new(CodecPool::new(NonZeroUsize::MIN).expect("a pool")));
    let options = UnpackOptions { message_bytes_max: 4 << 20 };
    let from_memory = Unpacker::bytes(bytes.to_vec().into(), options, pool);
    let from_stream = Unpacker::stream(Cursor::new(bytes.to_vec()), options, pool);
    let _ = batches(from_stream);
    let batches = batches(from_memory);
    let Some(first) = batches.first() else {
        return;
    };
    let options = PackOptions { layout: Layout::Stream, codec: Codec::Lz4, outer: None };
    // Batches that were read can be written, unless the format's writer does not support them.
    let Ok(mut packer) = Packer::new(Vec::new(), first.schema(), options, pool) else {
        return;
    };
    for batch in &batches {
        if packer.write(batch).is_err() {
            return;
        }
    }
    let Ok((written, _)) = packer.finish() else {
        return;
    };
    let again = Unpacker::bytes(written.into(), UnpackOptions::default(), pool);
    let again = again.expect("a schema").collect::<Result<Vec<_>, _>>();
    let again = again.expect("what was written");
    assert_eq!(again.len(), batches.len());
    for (again, batch) in again.iter().zip(&batches) {
        assert_eq!(again.num_rows(), batch.num_rows());
    }
}

/// Returns the batches before the first error.
fn batches(unpacker: Result<Unpacker, Error>) -> Vec<RecordBatch> {
    let batches = unpacker.into_iter().flatten().map_while(Result::ok);
    let short = batches.take_while(|batch| batch.num_rows() <= ROWS_MAX);
    short.take(BATCHES_MAX).collect()
}
