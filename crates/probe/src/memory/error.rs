//! Why there is no figure.

/// A probe that could not be run, or whose result is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// A number out of its bounds.
    #[error("{what} is {value}; it can be {allowed}")]
    Bound {
        /// What.
        what: &'static str,
        /// Its value.
        value: usize,
        /// What it can be.
        allowed: String,
    },
    /// The system has not given what was asked for: huge pages, a core, memory.
    #[error("{what}: {remedy}")]
    NotGiven {
        /// What is missing.
        what: String,
        /// What helps.
        remedy: String,
    },
    /// What was read or written is not what it must be.
    #[error(transparent)]
    Wrong(#[from] Wrong),
    /// It was not done in time.
    #[error("the loops were not done before the test's time was over")]
    Timeout,
    /// A bug of ours.
    #[error("a thread panicked: {0}")]
    Panicked(String),
}

/// What a loop read or wrote is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {found} where {expected} was expected")]
pub struct Wrong {
    /// Of what.
    pub what: String,
    /// What is there.
    pub found: String,
    /// What must be there.
    pub expected: String,
}

impl Wrong {
    /// `found` unless it is `expected`.
    pub(crate) fn unless_same<T: PartialEq + std::fmt::Display>(
        what: impl Fn() -> String,
        found: T,
        expected: T,
    ) -> Result<(), Self> {
        if found == expected {
            return Ok(());
        }
        Err(Self {
            what: what(),
            found: found.to_string(),
            expected: expected.to_string(),
        })
    }
}
