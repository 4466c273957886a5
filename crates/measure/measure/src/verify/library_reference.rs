//! Reference for results: another library of the same operation if there is one, otherwise the same
//! library, run on the worker's own thread. In both cases the library has given the published
//! results in this process.

use std::sync::Mutex;

use overside_base::lock;
use overside_ops::{Config, Kernel, Operation, check_known_answers, prepare};
use overside_probe::{Failure, FailureKind};

/// The operations whose libraries have given the published results in this process.
static CHECKED: Mutex<Vec<Operation>> = Mutex::new(Vec::new());

/// A library that was checked.
pub(crate) struct LibraryReference {
    pub(super) operation: Operation,
    pub(super) kernel: Box<dyn Kernel>,
    /// Name of the library in a box.
    pub variant: &'static str,
}

impl LibraryReference {
    /// Selects the reference for results that `variant` computes.
    pub(crate) fn new(operation: Operation, variant: &str) -> Result<Self, Failure> {
        check_once(operation)?;
        let others = super::others(operation, variant);
        let variant = *(others.first())
            .ok_or_else(|| internal(format!("nothing here can verify {operation}")))?;
        let config = Config { variant: variant.into(), ..Config::new(operation) };
        let kernel = prepare(&config).and_then(|prepared| prepared.kernel());
        Ok(Self { operation, kernel: kernel.map_err(internal)?, variant })
    }

    /// Returns the result as a kernel writes it.
    pub(crate) fn result(&mut self, source: &[u8]) -> Result<Vec<u8>, Failure> {
        let most = self.operation.result_bytes_max(&[], source.len() as u64);
        let mut result = vec![0; most as usize];
        let done = self.kernel.run(&[source], &mut result).map_err(internal)?;
        result.truncate(done.written);
        Ok(result)
    }

    /// Describes the comparison, for the sample's `check`.
    pub(crate) fn method(&self) -> String {
        format!("compared with the result by {}, which gives the published ones", self.variant)
    }
}

fn internal(error: impl ToString) -> Failure {
    Failure::new(FailureKind::Internal, error.to_string())
}

fn check_once(operation: Operation) -> Result<(), Failure> {
    let mut checked = lock(&CHECKED);
    if !checked.contains(&operation) {
        check_known_answers(operation)
            .map_err(|error| Failure::new(FailureKind::Verification, error.to_string()))?;
        checked.push(operation);
    }
    Ok(())
}
