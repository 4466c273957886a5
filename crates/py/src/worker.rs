//! The class `Worker`.

use std::sync::Mutex;

use overside_base::lock;
use pyo3::prelude::*;

use crate::process::ProcessBound;
use crate::{guarded, refused};

/// Measures tests and keeps what the next one can use again.
#[pyclass(module = "overside._core", frozen)]
pub(crate) struct Worker(ProcessBound<Mutex<overside_measure::Worker>>);

#[pymethods]
impl Worker {
    #[new]
    fn new() -> Self {
        Self(ProcessBound::new(Mutex::new(overside_measure::Worker::new())))
    }

    /// Takes one sample of a test; both are JSON. Other Python threads run meanwhile.
    fn measure(&self, py: Python<'_>, test_json: &str) -> PyResult<String> {
        guarded(|| {
            let worker = self.0.get()?;
            py.detach(|| {
                let mut worker = lock(worker);
                worker.measure_json(test_json)
            })
            .map_err(refused)
        })
    }
}
