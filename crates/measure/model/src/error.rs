//! Questions that a profile has no answer to.

use overside_ops::Operation;

/// A question that a profile has no answer to.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CostError {
    /// The device does not perform the operation.
    #[error("{profile} cannot {operation}{}", because(.why.as_deref()))]
    Unsupported {
        /// The profile.
        profile: String,
        /// The operation.
        operation: Operation,
        /// Reason why the device cannot do it; `None` if the profile does not give one.
        why: Option<String>,
    },
    /// The profile does not mention an engine for the operation.
    #[error("no prediction: nobody has published a figure of {operation} on {profile}")]
    Unpublished {
        /// The profile.
        profile: String,
        /// The operation.
        operation: Operation,
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
        /// Length that was asked for, in bytes.
        asked_bytes: u64,
    },
    /// A rate or a ratio that makes no sense.
    #[error("{what} must be a positive number, not {value}")]
    NotPositive {
        /// Name of the value, such as `the ratio`.
        what: &'static str,
        /// Value that was given: zero, negative or not finite.
        value: f64,
    },
}

fn because(why: Option<&str>) -> String {
    why.map_or_else(String::new, |why| format!(": {why}"))
}
