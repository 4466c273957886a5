//! The password of a server.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::Secret;

/// Longest password in bytes.
const BYTES_MAX: u64 = 1024;

/// Password that clients of a server must know. Only its digest is kept, so that a comparison takes
/// the same time for any input.
#[derive(Clone)]
pub struct Password([u8; 32]);

/// A file without a usable password.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// Other users can read the file.
    #[error("{} can be read by everybody; chmod 600 {}", .0.display(), .0.display())]
    Readable(PathBuf),
    /// The file's first line is empty or too long.
    #[error("{}: the password is its first line, from 1 to {BYTES_MAX} bytes", .0.display())]
    Length(PathBuf),
}

impl Password {
    /// This password.
    #[must_use]
    pub fn new(password: &[u8]) -> Self {
        Self(Sha256::digest(password).into())
    }

    /// Returns the SHA-256 digest of the password, the form in which another server gets it.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.0
    }

    /// Returns the secret by which a peer proves to a link that it knows the password: the first
    /// half of the digest.
    #[must_use]
    pub fn secret(&self) -> Secret {
        let half = self.0.first_chunk();
        Secret::from_bytes(half.copied().unwrap_or_default())
    }

    /// The password whose digest this is.
    #[must_use]
    pub fn from_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// The first line of a file.
    ///
    /// # Errors
    /// [`PasswordError`].
    pub fn read(path: &Path) -> Result<Self, PasswordError> {
        Self::read_line(path).map(|line| Self::new(&line))
    }

    /// The first line of a file, for a client.
    ///
    /// # Errors
    /// [`PasswordError`].
    pub fn read_line(path: &Path) -> Result<Vec<u8>, PasswordError> {
        let failed = |error| PasswordError::File { path: path.into(), error };
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.permissions().mode() & 0o007 != 0 {
            return Err(PasswordError::Readable(path.into()));
        }
        let mut text = Vec::new();
        file.take(BYTES_MAX + 2).read_to_end(&mut text).map_err(failed)?;
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match line.len() as u64 {
            1..=BYTES_MAX => Ok(line.to_vec()),
            _ => Err(PasswordError::Length(path.into())),
        }
    }

    /// Returns `true` if `password` is this password.
    #[must_use]
    pub fn is(&self, password: &[u8]) -> bool {
        let pairs = self.0.iter().zip(Sha256::digest(password));
        pairs.fold(0, |all, (one, other)| all | (one ^ other)) == 0
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password")
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::{BYTES_MAX, Password, PasswordError};

    #[test]
    fn it_is_the_first_line_of_a_file_that_others_cannot_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        let read = |text: &[u8], mode| {
            write(&path, text).unwrap();
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            Password::read(&path)
        };
        for text in [&b"pass word"[..], b"pass word\n", b"pass word\r\nmore\n"] {
            let password = read(text, 0o600).unwrap();
            assert!(password.is(b"pass word"));
            assert!(
                !password.is(b"pass wore") && !password.is(b"") && !password.is(text)
                    || text == b"pass word"
            );
            assert!(!format!("{password:?}").contains("pass w"));
        }
        let readable = read(b"word", 0o604);
        assert!(matches!(readable, Err(PasswordError::Readable(_))));
        for text in [vec![], b"\nword".to_vec(), vec![b'a'; BYTES_MAX as usize + 1]] {
            assert!(matches!(read(&text, 0o640), Err(PasswordError::Length(_))));
        }
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(Password::read(&path), Err(PasswordError::File { .. })));
    }
}
