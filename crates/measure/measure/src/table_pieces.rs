//! Positions of a table's pieces (row groups or record batches) in its file.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use overside_probe::{Failure, FailureKind};

/// The row groups of a Parquet file, or the record batches of an Arrow file; `None` for a file of another kind.
///
/// # Errors
/// A file that cannot be read is a failed sample. Without the feature `tables` a table is a skipped one.
#[cfg(feature = "tables")]
pub(crate) fn table_pieces(file: &File, path: &Path) -> Result<Option<Vec<Range<u64>>>, Failure> {
    overside_tables::pieces(file).map_err(|error| unreadable(path, &error))
}

#[cfg(not(feature = "tables"))]
pub(crate) fn table_pieces(file: &File, path: &Path) -> Result<Option<Vec<Range<u64>>>, Failure> {
    use std::os::unix::fs::FileExt;

    use overside_base::FileFormat;

    let mut head = [0; FileFormat::HEAD_BYTES];
    let is_known = file.read_exact_at(&mut head, 0).is_ok();
    match FileFormat::of(&head) {
        FileFormat::Parquet | FileFormat::ArrowFile if is_known => {
            Err(Failure::unsupported(format!(
                "{} is a table, and this overside was built without tables (feature `flow`); take the complete one, or \
             other `sizes`",
                path.display()
            )))
        }
        _ => Ok(None),
    }
}

/// The failure of a file that cannot be read.
pub(crate) fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Data, format!("{} cannot be read: {why}", path.display()))
}
