//! Bounds of numbers from outside.

use std::fmt::Display;

/// Maximum number of cores of a list, and one more than the highest of them.
const CORES_MAX: usize = 1024;

/// A value out of its bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}; it can be {allowed}")]
pub struct OutOfRange {
    /// The key.
    pub field: &'static str,
    /// Value of the key, as text.
    pub value: String,
    /// Description of the allowed values.
    pub allowed: String,
}

impl OutOfRange {
    /// Creates the error for the key `field`.
    pub fn new(field: &'static str, value: impl Display, allowed: impl Into<String>) -> Self {
        Self { field, value: value.to_string(), allowed: allowed.into() }
    }
}

/// Checks that a value is from `least` to `most`; a NaN is in no range.
///
/// # Errors
/// [`OutOfRange`].
pub fn within<T: PartialOrd + Display>(
    field: &'static str,
    value: T,
    least: T,
    most: T,
) -> Result<(), OutOfRange> {
    if (&least..=&most).contains(&&value) {
        return Ok(());
    }
    let allowed = format!("{least} to {most}");
    Err(OutOfRange::new(field, value, allowed))
}

/// Refuses an empty list of cores, and cores that no machine has.
///
/// # Errors
/// [`OutOfRange`].
pub fn cores_within(cores: Option<&[usize]>) -> Result<(), OutOfRange> {
    let Some(cores) = cores else {
        return Ok(());
    };
    within("the number of cores", cores.len(), 1, CORES_MAX)?;
    let highest = cores.iter().max().copied().unwrap_or_default();
    within("the highest core", highest, 0, CORES_MAX - 1)
}
