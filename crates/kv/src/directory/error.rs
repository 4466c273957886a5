//! What can be wrong with a directory.

/// Why a directory did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// It cannot be a location.
    #[error("not the location of a directory: {0}")]
    Location(String),
    /// No member of etcd can be reached.
    #[error("the directory {member} cannot be reached: {reason}")]
    Unreachable {
        /// The one that was tried last.
        member: String,
        /// Why.
        reason: String,
    },
    /// etcd says no.
    #[error("the directory {member} refuses: {message}")]
    Refused {
        /// Who says so.
        member: String,
        /// What it says.
        message: String,
    },
    /// This is no answer of etcd, or one that is too long.
    #[error("the directory {member} answers what etcd does not: {reason}")]
    Answer {
        /// Who.
        member: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A name, or an address, belongs to another server.
    #[error("another server is registered as {server}, at {address}")]
    Taken {
        /// The name.
        server: String,
        /// Where the other one is.
        address: String,
    },
    /// Something else than an entry of this store.
    #[error("the directory has {key}, which is no entry of a key-value store: {reason}")]
    Entry {
        /// Where.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}
