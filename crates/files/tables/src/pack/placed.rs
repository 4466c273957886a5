//! Runs the LZ4 buffers of a message on a device, block by block.

use std::sync::Arc;

use arrow_buffer::Buffer;
use overside_device::JobError;
use overside_ops::{Format, Operation};
use overside_placement::ChunkResult;

use super::buffers::{
    self, Encoded, Frame, Lz4Block, Lz4FrameWriter, PREFIX_BYTES, lz4_blocks, lz4_header,
};
use super::executors::{Executors, Job};
use super::pool::CodecPool;
use super::threads::{Kernels, Pending};
use crate::Error;
use crate::memory::BufferPool;

pub(super) const COMPRESS: Operation = Operation::Compress(Format::Lz4Block);
pub(super) const DECOMPRESS: Operation = Operation::Decompress(Format::Lz4Block);

/// Starts to compress buffers, none of them empty. The result is the same as on the threads if the
/// device uses the same library.
pub(super) fn start_compressing(
    pool: &CodecPool,
    executors: &Arc<Executors>,
    sources: impl IntoIterator<Item = Buffer>,
) -> Pending<Vec<Encoded>> {
    pool.start(executors.shares(sources).into_iter().map(|sources| {
        let (executors, memory) = (Arc::clone(executors), Arc::clone(&pool.memory));
        move |_: &mut Kernels| executors.submitting(|| compress(&executors, &memory, &sources))
    }))
}

fn compress(
    executors: &Executors,
    memory: &Arc<BufferPool>,
    sources: &[Buffer],
) -> Result<Vec<Encoded>, Error> {
    let blocks = |source: &Buffer| {
        let block_max = lz4_header(source.len()).block_max;
        let begins = (0..source.len()).step_by(block_max);
        let len = source.len();
        begins.map(move |begin| (begin, block_max.min(len - begin)))
    };
    let jobs = sources.iter().flat_map(|source| {
        blocks(source)
            .map(|(begin, len)| Job { source: source.slice_with_length(begin, len), capacity: len })
    });
    let results = executors.run(COMPRESS, None, jobs.collect())?;
    let mut results = results.iter();
    let encode = |source: &Buffer| {
        let mut region = memory.take(PREFIX_BYTES + source.len())?;
        let (prefix, room) = region.split_at_mut(PREFIX_BYTES);
        prefix.copy_from_slice(&(source.len() as i64).to_le_bytes());
        let room = &mut room[..source.len() - 1];
        let mut frame = Lz4FrameWriter::new(&lz4_header(source.len()), room);
        for ((begin, len), result) in blocks(source).zip(&mut results) {
            let bytes = output(result)?;
            let block = &source[begin..][..len];
            frame = frame.and_then(|frame| frame.copied_block(block, bytes));
        }
        Ok(match frame.and_then(Lz4FrameWriter::end) {
            Some(len) => Encoded::Compressed(memory.lend(region, PREFIX_BYTES + len)),
            None => Encoded::Stored(source.clone()),
        })
    };
    sources.iter().map(encode).collect()
}

/// Returns the bytes of a result; `None` if they are not fewer than those of the source.
pub(super) fn output(result: &ChunkResult) -> Result<Option<&[u8]>, Error> {
    match &result.result {
        Ok(_) => Ok(result.output()),
        Err(error) => Err(Error::Job(error.clone())),
    }
}

/// Starts to decompress LZ4 frames. Frames whose blocks are not independent are decompressed by the
/// thread that submits the others.
pub(super) fn start_decompressing(
    pool: &CodecPool,
    executors: &Arc<Executors>,
    frames: Vec<Frame>,
) -> Pending<Vec<Buffer>> {
    pool.start(executors.shares(frames).into_iter().map(|frames| {
        let (executors, memory) = (Arc::clone(executors), Arc::clone(&pool.memory));
        move |kernels: &mut Kernels| {
            executors.submitting(|| decompress(kernels, &executors, &memory, &frames))
        }
    }))
}

fn decompress(
    kernels: &mut Kernels,
    executors: &Executors,
    memory: &Arc<BufferPool>,
    frames: &[Frame],
) -> Result<Vec<Buffer>, Error> {
    let blocks: Vec<Option<Vec<Lz4Block>>> = (frames.iter())
        .map(|frame| {
            let blocks = lz4_blocks(&frame.bytes)?;
            Ok(blocks.filter(|blocks| has_full_blocks(blocks, frame.len)))
        })
        .collect::<Result<_, Error>>()?;
    let of_frames = || frames.iter().zip(&blocks);
    let jobs = of_frames().flat_map(|(frame, blocks)| {
        let numbered = blocks.iter().flatten().enumerate();
        let compressed = numbered.filter(|(_, block)| !block.is_stored);
        compressed.map(|(number, block)| Job {
            source: frame.bytes.slice_with_length(block.begin, block.len),
            capacity: block.block_max.min(frame.len - number * block.block_max),
        })
    });
    let results = executors.run(DECOMPRESS, None, jobs.collect())?;
    let mut results = results.iter();
    let decode = |(frame, blocks): (&Frame, &Option<Vec<Lz4Block>>)| {
        let Some(blocks) = blocks else {
            return buffers::decompress(kernels, memory, frame);
        };
        let mut region = memory.take(frame.len)?;
        let mut written = 0;
        for block in blocks {
            let bytes = match block.is_stored {
                true => Some(&frame.bytes[block.begin..][..block.len]),
                false => results.next().map(decompressed).transpose()?,
            };
            let bytes = bytes.unwrap_or_default();
            let room = region[..frame.len].get_mut(written..written + bytes.len());
            room.ok_or_else(|| buffers::other_length(frame.len, written + bytes.len()))?
                .copy_from_slice(bytes);
            written += bytes.len();
        }
        match written == frame.len {
            true => Ok(memory.lend(region, frame.len)),
            false => Err(buffers::other_length(frame.len, written)),
        }
    };
    of_frames().map(decode).collect()
}

/// Returns the decompressed bytes of a job. If the input was corrupt, the error is the file's.
pub(super) fn decompressed(result: &ChunkResult) -> Result<&[u8], Error> {
    match &result.result {
        Ok(_) => Ok(result.output().unwrap_or_default()),
        Err(error @ (JobError::Corrupt(_) | JobError::OutputTooSmall { .. })) => {
            Err(Error::Damaged(format!("a compressed buffer: {error}")))
        }
        Err(error) => Err(Error::Job(error.clone())),
    }
}

/// Returns `true` if all blocks but the last have their maximum length, judged by the number of
/// blocks only. Then they take no more memory than the buffer.
fn has_full_blocks(blocks: &[Lz4Block], len: usize) -> bool {
    let block_max = blocks.first().map_or(1, |block| block.block_max);
    blocks.len() == len.div_ceil(block_max)
}
