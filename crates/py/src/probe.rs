//! The class `AgentProbe`.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use overside_backends::agents::{Entry, RemoteProbe};
use overside_base::lock;
use pyo3::exceptions::PyConnectionError;
use pyo3::prelude::*;

use crate::process::ProcessBound;
use crate::{guarded, refused};

/// An agent that plays one end of a test. It ends there when this is closed or goes.
#[pyclass(module = "overside._core", frozen)]
pub(crate) struct AgentProbe(ProcessBound<Mutex<Option<RemoteProbe>>>);

#[pymethods]
impl AgentProbe {
    #[doc = stub!("AgentProbe.__new__")]
    #[new]
    fn new(
        py: Python<'_>,
        node: &str,
        address: String,
        keys: Option<PathBuf>,
        kind: &str,
    ) -> PyResult<Self> {
        guarded(|| {
            let entry = Entry { address, keys };
            let probe = py.detach(|| RemoteProbe::open(node, &entry, kind, Default::default()));
            let probe = Mutex::new(Some(probe.map_err(lost)?));
            Ok(Self(ProcessBound::new(probe)))
        })
    }

    #[doc = stub!("AgentProbe.ask")]
    fn ask(&self, py: Python<'_>, question: &str, timeout_s: f64) -> PyResult<String> {
        guarded(|| {
            let timeout = Duration::try_from_secs_f64(timeout_s).map_err(refused)?;
            let probe = self.0.get()?;
            py.detach(|| {
                let mut probe = lock(probe);
                let probe = (probe.as_mut()).ok_or_else(|| refused("it was closed"))?;
                let answer = probe.ask(question.as_bytes(), Instant::now() + timeout);
                String::from_utf8(answer.map_err(lost)?).map_err(refused)
            })
        })
    }

    /// The address that the agent was reached at.
    fn address(&self) -> PyResult<String> {
        let probe = lock(self.0.get()?);
        let probe = (probe.as_ref()).ok_or_else(|| refused("it was closed"))?;
        Ok(probe.there().ip().to_string())
    }

    /// Ends the agent's end.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        // What is left there ends when the connection does.
        let probe = lock(self.0.get()?).take();
        py.detach(|| probe.map(RemoteProbe::close));
        Ok(())
    }
}

fn lost(error: impl std::fmt::Display) -> PyErr {
    PyConnectionError::new_err(error.to_string())
}
