//! Estimate, by a sample, of how often the values of a column repeat.

use arrow_array::{Array, ArrayRef};

/// Values of a sample, in blocks of neighbours: so values are found again that repeat at once, and those that do later.
const SAMPLE: usize = 2048;
const BLOCK: usize = 64;

/// `true` if the numbers of a column have more different values than every other row of so many, of which these are the
/// first. A sample of `n` values of `d` different ones repeats about n^2 / 2d (birthday problem). `false` for values of
/// other types.
pub(super) fn is_mostly_distinct(arrays: &[ArrayRef], rows: usize) -> bool {
    let width = arrays.first().and_then(|one| one.data_type().primitive_width());
    let Some(width) = width.filter(|width| matches!(width, 4 | 8 | 16)) else {
        return false;
    };
    let here: usize = arrays.iter().map(|array| array.len()).sum();
    let step = (here / (SAMPLE / BLOCK)).max(BLOCK);
    let (mut values, mut begin, mut next) = (Vec::with_capacity(SAMPLE + BLOCK), 0, 0);
    for array in arrays {
        let data = array.to_data();
        let bytes = &data.buffers()[0][data.offset() * width..];
        while next < begin + array.len() {
            let block = next.max(begin) - begin..(next - begin + BLOCK).min(array.len());
            for row in block.filter(|row| array.is_valid(*row)) {
                let value = bytes[row * width..][..width].chunks(8);
                values.push(value.fold(0, |sum: u64, part| {
                    let mut whole = [0; 8];
                    whole[..part.len()].copy_from_slice(part);
                    sum.rotate_left(1) ^ u64::from_le_bytes(whole)
                }));
            }
            next += step;
        }
        begin += array.len();
    }
    let count = values.len();
    values.sort_unstable();
    values.dedup();
    let repeated = count - values.len();
    repeated < (count * count / rows.max(1)).min(count / 2)
}
