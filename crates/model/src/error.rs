//! What is wrong with a profile or with a question asked about one.

use std::path::PathBuf;

use overside_ops::Operation;

use crate::Profile;

/// A profile that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Not a file of the form "profile/1".
    #[error("{file}: {message}")]
    Syntax {
        /// The file, or the name of a built-in profile.
        file: String,
        /// Line, key and what was expected there.
        message: String,
    },
    /// A value that is not allowed.
    #[error("{file}: {key}: {problem}; {remedy}")]
    Value {
        /// The file, or the name of a built-in profile.
        file: String,
        /// The key, with dots between the tables.
        key: String,
        /// What is wrong.
        problem: String,
        /// What to do about it.
        remedy: String,
    },
    /// The file or the directory cannot be read.
    #[error("{}: {reason}; name a readable file, or a directory of profiles", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// No profile of that name.
    #[error("no profile is called {name:?}{}; there are: {known}", hint(.meant.as_deref()))]
    Unknown {
        /// The name.
        name: String,
        /// The one that was probably meant.
        meant: Option<String>,
        /// The names there are, separated by commas.
        known: String,
    },
}

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

fn hint(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |name| format!(", did you mean {name:?}?"))
}

fn because(why: Option<&str>) -> String {
    why.map_or_else(String::new, |why| format!(": {why}"))
}
