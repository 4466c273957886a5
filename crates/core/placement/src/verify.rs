//! Choice of which of the devices' results are verified.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// Sampling period of [`Verify::Sampled`]: one in 16 results is verified. Until one was right, all
/// are verified.
pub const SAMPLE_EVERY: u64 = 16;

/// Rule for which of a device's results are verified before they count. Written `all`, `sampled`, `none`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verify {
    /// Every result.
    All,
    /// The first ones, until one was right, and then one in [`SAMPLE_EVERY`] at random.
    Sampled,
    /// No results.
    #[default]
    None,
}

impl fmt::Display for Verify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Error for a text that names no way to verify.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no way to verify; there are all, sampled and none")]
pub struct UnknownVerify(String);

impl FromStr for Verify {
    type Err = UnknownVerify;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        ([Self::All, Self::Sampled, Self::None].into_iter())
            .find(|verify| verify.to_string() == text)
            .ok_or_else(|| UnknownVerify(text.into()))
    }
}
