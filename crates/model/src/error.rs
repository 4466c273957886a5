//! Questions that a profile has no answer to.

use overside_ops::Operation;

use crate::Profile;

/// A question that a profile has no answer to.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CostError {
    /// The device does not do it.
    #[error("{profile} cannot {operation}{}", because(.why.as_deref()))]
    Unsupported {
        /// The profile.
        profile: String,
        /// The operation.
        operation: Operation,
        /// Why not; `None` if the profile does not say.
        why: Option<String>,
    },
    /// Longer than the device takes.
    #[error("{profile} takes {what} up to {limit_bytes} bytes, not {asked_bytes}")]
    TooLong {
        /// The profile.
        profile: String,
        /// `a source` or `a destination`.
        what: &'static str,
        /// The longest in bytes.
        limit_bytes: u64,
        /// What was asked for, in bytes.
        asked_bytes: u64,
    },
    /// A rate or a ratio that makes no sense.
    #[error("{what} must be a positive number, not {value}")]
    NotPositive {
        /// What.
        what: &'static str,
        /// Its value.
        value: f64,
    },
}

impl CostError {
    /// That `profile` has no entry for `operation`.
    pub(crate) fn unsupported(profile: &Profile, operation: Operation) -> Self {
        Self::Unsupported {
            profile: profile.name.clone(),
            operation,
            why: profile.why_absent(operation).map(Into::into),
        }
    }
}

fn because(why: Option<&str>) -> String {
    why.map_or_else(String::new, |why| format!(": {why}"))
}
