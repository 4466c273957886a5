//! Copies many short values by pieces of a width that is known when this is compiled.
#![allow(unsafe_code)]

use arrow_buffer::ArrowNativeType;

/// Bytes that one instruction moves.
const PIECE: usize = 16;

/// Appends `values[offsets[row]..offsets[row + 1]]` of each row, which are `total` bytes together.
///
/// # Panics
///
/// If the rows are not in `offsets`, or offsets descend or lie outside of `values`, or the values
/// are more than `total`.
pub(super) fn append_values<O: ArrowNativeType>(
    values: &[u8],
    offsets: &[O],
    rows: &[u16],
    total: usize,
    out: &mut Vec<u8>,
) {
    out.reserve(total + PIECE);
    let begin = out.len();
    let mut written = 0;
    for row in rows {
        let row = usize::from(*row);
        let (from, to) = (offsets[row].as_usize(), offsets[row + 1].as_usize());
        assert!(from <= to && to <= values.len() && to - from <= total - written);
        let len = to - from;
        // SAFETY: `from + len` is within `values`, and a whole piece is read only where it is too.
        // `begin + written + len` is at most `begin + total`, and a piece more than that is
        // reserved, so that a piece that begins at `begin + written` ends within the capacity.
        // `out` is borrowed mutably, so `values` is no part of it.
        unsafe {
            let source = values.as_ptr().add(from);
            let target = out.as_mut_ptr().add(begin + written);
            if len <= PIECE && from + PIECE <= values.len() {
                std::ptr::copy_nonoverlapping(source, target, PIECE);
            } else {
                std::ptr::copy_nonoverlapping(source, target, len);
            }
        }
        written += len;
    }
    // SAFETY: `written` bytes after `begin` were written above, and are at most `total`.
    unsafe { out.set_len(begin + written) };
}

#[cfg(test)]
mod tests {
    use super::append_values;

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
        let mut expected = b"before".to_vec();
        for row in rows {
            let row = usize::from(row);
            expected.extend(&values[offsets[row] as usize..offsets[row + 1] as usize]);
        }
        let mut out = b"before".to_vec();
        append_values(&values, &offsets, &rows, values.len(), &mut out);
        assert_eq!(out, expected);
    }

    #[test]
    #[should_panic(expected = "to <= values.len()")]
    fn offsets_outside_are_refused() {
        append_values(&[1, 2, 3], &[0_i64, 4], &[0], 9, &mut Vec::new());
    }
}
