//! Figures as people read them.

use overside_config::units;
use pyo3::prelude::*;

/// A number with significant digits: `0.0412`, `4.80`, `1,240`.
#[pyfunction]
#[pyo3(signature = (value, digits = 3))]
pub(crate) fn number(value: f64, digits: i32) -> String {
    units::number(value, digits)
}

/// Bytes: `64 KiB`, `1.50 GiB`, `16,383 B`.
#[pyfunction]
pub(crate) fn size(size_bytes: f64) -> String {
    units::size(size_bytes)
}

/// Seconds: `850 ms`, `12 s`, `2 min 5 s`.
#[pyfunction]
pub(crate) fn duration(seconds: f64) -> String {
    units::duration(seconds)
}
