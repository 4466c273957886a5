//! DEFLATE blocks that store their bytes (RFC 1951, section 3.2.4), for chunks that do not get
//! smaller.

/// Maximum number of bytes of one block.
const BLOCK_MAX: usize = 65_535;
/// Length of the header before each stored block, in bytes, if the block begins at a byte boundary.
pub(crate) const BLOCK_HEADER_BYTES: usize = 5;

/// Returns how many stored blocks `content_bytes` bytes take. Empty content takes one.
pub(crate) fn blocks(content_bytes: usize) -> usize {
    content_bytes.div_ceil(BLOCK_MAX).max(1)
}

/// Headers of the blocks that store `content`, each with its bytes. `last`: the stream ends with
/// them.
pub(crate) fn deflate(
    content: &[u8],
    last: bool,
) -> impl Iterator<Item = ([u8; BLOCK_HEADER_BYTES], &[u8])> {
    let count = blocks(content.len());
    (0..count).map(move |index| {
        let begin = index * BLOCK_MAX;
        let bytes = &content[begin..content.len().min(begin + BLOCK_MAX)];
        let [low, high] = (bytes.len() as u16).to_le_bytes();
        let final_bit = u8::from(last && index + 1 == count);
        ([final_bit, low, high, !low, !high], bytes)
    })
}
