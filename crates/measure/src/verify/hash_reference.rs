//! What digests are compared with: another library of the same hash where there is one, else the
//! same one, on the worker's own thread. Either has given the published digests in this process.

use std::sync::Mutex;

use overside_base::lock;
use overside_ops::hash::check_known_answers;
use overside_ops::{Config, HashAlgorithm, Kernel, Operation, prepare, variants};
use overside_probe::{Failure, FailureKind};

/// The hashes whose libraries have given the published digests in this process.
static CHECKED: Mutex<Vec<HashAlgorithm>> = Mutex::new(Vec::new());

/// A library that was checked.
pub(crate) struct HashReference {
    kernel: Box<dyn Kernel>,
    digest_bytes: usize,
    /// Its name in a box.
    pub variant: &'static str,
}

impl HashReference {
    /// What to compare digests by `variant` with.
    pub(crate) fn new(algorithm: HashAlgorithm, variant: &str) -> Result<Self, Failure> {
        check_once(algorithm)?;
        let operation = Operation::Hash(algorithm);
        let all = variants(operation);
        let other = all.iter().find(|one| one.name != variant).or(all.first());
        let internal = |error: String| Failure::new(FailureKind::Internal, error);
        let other = other.ok_or_else(|| internal(format!("nothing here computes {operation}")))?;
        let config = Config {
            variant: other.name.into(),
            ..Config::new(operation)
        };
        let kernel = prepare(&config).and_then(|prepared| prepared.kernel());
        Ok(Self {
            kernel: kernel.map_err(|error| internal(error.to_string()))?,
            digest_bytes: algorithm.digest_len(),
            variant: other.name,
        })
    }

    /// The digest as a kernel writes it.
    pub(crate) fn digest(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut digest = vec![0; self.digest_bytes];
        let done = self.kernel.run(&[bytes], &mut digest);
        done.map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
        Ok(digest)
    }

    /// As a check says it.
    pub(crate) fn method(&self) -> String {
        format!(
            "compared with the digest by {}, which gives the published ones",
            self.variant
        )
    }
}

fn check_once(algorithm: HashAlgorithm) -> Result<(), Failure> {
    let mut checked = lock(&CHECKED);
    if !checked.contains(&algorithm) {
        check_known_answers(algorithm)
            .map_err(|error| Failure::new(FailureKind::Verification, error.to_string()))?;
        checked.push(algorithm);
    }
    Ok(())
}
