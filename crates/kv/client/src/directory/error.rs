//! Errors of a directory.

/// Reason why a request to a directory failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// The text is no location of a directory.
    #[error("not the location of a directory: {0}")]
    Location(String),
    /// No member of etcd can be reached.
    #[error("the directory {member} cannot be reached: {reason}")]
    Unreachable {
        /// The member that was tried last.
        member: String,
        /// Description of the failure.
        reason: String,
    },
    /// etcd refuses.
    #[error("the directory {member} refuses: {message}")]
    Refused {
        /// Member of etcd that refuses.
        member: String,
        /// Error message of etcd.
        message: String,
    },
    /// This is no answer of etcd, or one that is too long.
    #[error("the directory {member} answers what etcd does not: {reason}")]
    Answer {
        /// Member of etcd that sent the answer.
        member: String,
        /// Description of the error in it.
        reason: String,
    },
    /// A name, or an address, belongs to another server.
    #[error("another server is registered as {server}, at {address}")]
    Taken {
        /// The name.
        server: String,
        /// Address of the other server.
        address: String,
    },
    /// Others change an entry all the time.
    #[error("{key} in the directory changes all the time")]
    Contention {
        /// Key of the entry.
        key: String,
    },
    /// A value that is no entry of this store.
    #[error("the directory has {key}, which is no entry of a key-value store: {reason}")]
    Entry {
        /// Key of the entry.
        key: String,
        /// Description of the error in it.
        reason: String,
    },
}
