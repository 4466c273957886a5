//! `copy`: buffers copied.

use super::jobs;
use super::spec::TaskSpec;

pub(super) fn spec() -> TaskSpec {
    jobs::task(
        "copy",
        "copy buffers; each copy is compared with its original",
        "copy",
        Vec::new(),
        jobs::metrics(Vec::new()),
        "Copy",
    )
}
