//! Why there is no io_uring.

use std::io;

/// Says what the system forbids: 0 nothing, 1 processes without privilege, 2 all.
const DISABLED: &str = "/proc/sys/kernel/io_uring_disabled";

/// Why the system gives no io_uring, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum IoUringError {
    /// The system's settings forbid it.
    #[error(
        "io_uring is disabled: kernel.io_uring_disabled is {0}; the administrator allows it with \
         `sysctl kernel.io_uring_disabled=0`"
    )]
    Disabled(u8),
    /// Something else forbids it.
    #[error(
        "io_uring is forbidden, most likely by a seccomp filter as containers have: allow io_uring_setup, \
         io_uring_enter and io_uring_register there"
    )]
    Forbidden,
    /// The kernel has none.
    #[error(
        "this kernel has no io_uring, or a seccomp filter hides it: Linux 6.1 or later is needed"
    )]
    Missing,
    /// The kernel has too little of it.
    #[error("this kernel's io_uring is too old: Linux 6.1 or later is needed")]
    TooOld,
    /// There is not enough memory that can be locked, as old kernels count rings.
    #[error("no memory for io_uring: {0}; `ulimit -l` says how much may be locked")]
    Memory(io::Error),
    /// Something else.
    #[error("io_uring: {0}")]
    System(io::Error),
}

impl IoUringError {
    /// What an error of the system means.
    pub(super) fn explain(error: io::Error) -> Self {
        let setting = std::fs::read_to_string(DISABLED);
        let disabled = setting.ok().and_then(|text| text.trim().parse().ok());
        Self::of(error, disabled.unwrap_or(0))
    }

    fn of(error: io::Error, disabled: u8) -> Self {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) if disabled > 0 => Self::Disabled(disabled),
            Some(libc::EPERM | libc::EACCES) => Self::Forbidden,
            Some(libc::ENOSYS) => Self::Missing,
            Some(libc::EINVAL) => Self::TooOld,
            Some(libc::ENOMEM) => Self::Memory(error),
            _ => Self::System(error),
        }
    }
}

impl From<IoUringError> for io::Error {
    fn from(error: IoUringError) -> Self {
        Self::other(error)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::IoUringError;

    #[test]
    fn each_refusal_says_what_to_do() {
        let text = |errno, disabled| {
            IoUringError::of(io::Error::from_raw_os_error(errno), disabled).to_string()
        };
        for (errno, disabled, remedy) in [
            (libc::EPERM, 2, "sysctl kernel.io_uring_disabled=0"),
            (libc::EPERM, 0, "seccomp"),
            (libc::ENOSYS, 0, "Linux 6.1 or later"),
            (libc::EINVAL, 0, "Linux 6.1 or later"),
            (libc::ENOMEM, 0, "ulimit -l"),
        ] {
            let text = text(errno, disabled);
            assert!(text.contains(remedy), "{text}");
        }
    }
}
