//! Properties that must hold for any bytes; the fuzz target checks them too.

use std::io::Cursor;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use overside_tables::Error;
use overside_tables::pack::{
    Codec, CodecPool, Layout, PackOptions, Packer, UnpackOptions, Unpacker,
};

/// Batches that are read at most: a few bytes may be many.
const BATCHES_MAX: usize = 64;
/// The rows of a batch that is written again.
const ROWS_MAX: usize = 1 << 16;

/// Any bytes are batches, which are the same when they are written and read again, or refused.
pub(crate) fn ipc(bytes: &[u8]) {
    static POOL: OnceLock<Arc<CodecPool>> = OnceLock::new();
    let pool = POOL.get_or_init(|| Arc::new(CodecPool::new(NonZeroUsize::MIN).expect("a pool")));
    let options = UnpackOptions {
        message_bytes_max: 4 << 20,
    };
    let from_memory = Unpacker::bytes(bytes.to_vec().into(), options, pool);
    let from_stream = Unpacker::stream(Cursor::new(bytes.to_vec()), options, pool);
    let _ = batches(from_stream);
    let batches = batches(from_memory);
    let Some(first) = batches.first() else {
        return;
    };
    let options = PackOptions {
        layout: Layout::Stream,
        codec: Codec::Lz4,
        outer: None,
    };
    // What could be read can be written, but for what the format's writer does not take.
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

/// The batches before the first error.
fn batches(unpacker: Result<Unpacker, Error>) -> Vec<RecordBatch> {
    let batches = unpacker.into_iter().flatten().map_while(Result::ok);
    let short = batches.take_while(|batch| batch.num_rows() <= ROWS_MAX);
    short.take(BATCHES_MAX).collect()
}
