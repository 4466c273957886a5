//! Copies many short values by pieces of a width that is known when this is compiled.
#![allow(unsafe_code)]

use arrow_buffer::ArrowNativeType;

/// Bytes that one instruction moves, which are written beyond the last value.
pub(super) const PIECE: usize = 16;

/// Copies `values[offsets[row]..offsets[row + 1]]` of each row to `out`, one behind the other.
/// They are `total` bytes together; `out` has `PIECE` bytes more.
///
/// # Panics
///
/// If the rows are not in `offsets`, or offsets descend or lie outside of `values`, or the values
/// are more than `total`, or `out` is too short.
pub(super) fn copy_values<O: ArrowNativeType>(
    values: &[u8],
    offsets: &[O],
    rows: &[u16],
    total: usize,
    out: &mut [u8],
) {
    assert!(out.len() >= total + PIECE);
    let mut written = 0;
    for row in rows {
        let row = usize::from(*row);
        let (from, to) = (offsets[row].as_usize(), offsets[row + 1].as_usize());
        assert!(from <= to && to <= values.len() && to - from <= total - written);
        let len = to - from;
        // SAFETY: `from + len` is within `values`, and a whole piece is read only where it is too.
        // `written + len` is at most `total`, and `out` has a piece more than that, so that a piece
        // that begins at `written` ends within it. `out` is borrowed mutably, so `values` is no
        // part of it.
        unsafe {
            let source = values.as_ptr().add(from);
            let target = out.as_mut_ptr().add(written);
            if len <= PIECE && from + PIECE <= values.len() {
                std::ptr::copy_nonoverlapping(source, target, PIECE);
            } else {
                std::ptr::copy_nonoverlapping(source, target, len);
            }
        }
        written += len;
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECE, copy_values};

    #[test]
    fn values_of_all_lengths_are_copied() {
        let lengths = [0, 1, 15, 16, 17, 40, 0, 3, 16];
        let values: Vec<u8> = (0..lengths.iter().sum::<usize>())
            .map(|at| at as u8)
            .collect();
        let mut offsets = vec![0_i32];
        for len in lengths {
            offsets.push(offsets[offsets.len() - 1] + len as i32);
        }
        let rows = [8, 0, 3, 5, 7, 2, 1, 4, 6];
        let mut expected: Vec<u8> = Vec::new();
        for row in rows {
            let row = usize::from(row);
            expected.extend(&values[offsets[row] as usize..offsets[row + 1] as usize]);
        }
        let mut out = vec![0; values.len() + PIECE];
        copy_values(&values, &offsets, &rows, values.len(), &mut out);
        assert_eq!(out[..values.len()], expected);
    }

    #[test]
    #[should_panic(expected = "to <= values.len()")]
    fn offsets_outside_are_refused() {
        copy_values(&[1, 2, 3], &[0_i64, 4], &[0], 9, &mut [0; 64]);
    }
}
