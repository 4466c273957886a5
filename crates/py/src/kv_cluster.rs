//! A cluster of key-value servers.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use overside_base::lock;
use overside_kv_client::directory::Location;
use overside_kv_client::{
    Cluster, ClusterError, ClusterOptions, Reply, Ring, ServerStream, ServerTls, info,
};
use overside_link::agent::keys;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList};

use crate::{guarded, refused};

/// The servers of a cluster on their ring.
#[pyclass(frozen, module = "overside._core")]
pub(crate) struct KvRing(Ring);

#[pymethods]
impl KvRing {
    #[new]
    fn new(members: &Bound<'_, PyAny>) -> PyResult<Self> {
        let members = members.try_iter()?.map(|name| name?.extract());
        let members = members.collect::<PyResult<Vec<String>>>()?;
        Ok(Self(Ring::new(members.iter().map(String::as_str))))
    }

    #[getter]
    fn members(&self) -> &[String] {
        self.0.members()
    }

    fn owner(&self, key: &[u8]) -> Option<&str> {
        self.0.owner(key)
    }
}

/// Reply of a server to `INFO`.
#[pyfunction]
pub(crate) fn kv_info(
    py: Python<'_>,
    address: &str,
    password: Option<&[u8]>,
    timeout_s: f64,
) -> PyResult<String> {
    let timeout = timeout(timeout_s)?;
    let ask = || {
        let stream = ServerStream::connect(address, None, timeout)?;
        stream.set_timeout(timeout)?;
        info(stream, password)
    };
    guarded(|| Ok(py.detach(ask)?))
}

fn timeout(seconds: f64) -> PyResult<Duration> {
    let timeout = Duration::try_from_secs_f64(seconds).map_err(refused)?;
    match timeout.is_zero() {
        true => Err(refused("there is no time to connect in")),
        false => Ok(timeout),
    }
}

/// A client of all servers of a cluster. It belongs to one thread at a time.
#[pyclass(frozen, module = "overside._core")]
pub(crate) struct KvCluster {
    /// `None`: it was closed.
    cluster: Mutex<Option<Cluster>>,
}

thread_local! {
    /// Exception of a signal's handler that has ended a request.
    static RAISED: Cell<Option<PyErr>> = const { Cell::new(None) };
}

fn goes_on() -> bool {
    match Python::attach(|py| py.check_signals()) {
        Ok(()) => true,
        Err(error) => {
            RAISED.set(Some(error));
            false
        }
    }
}

#[pymethods]
impl KvCluster {
    #[new]
    fn new(
        py: Python<'_>,
        directory: &str,
        directory_tls_keys: Option<PathBuf>,
        password: Option<Vec<u8>>,
        tls_keys: Option<PathBuf>,
        tls_name: &str,
        timeout_s: f64,
    ) -> PyResult<Self> {
        let mut location: Location = directory.parse().map_err(refused)?;
        match (directory_tls_keys, location.is_tls()) {
            (Some(keys), true) => {
                location = location.with_tls(keys::client(&keys).map_err(refused)?)
            }
            (None, false) => {}
            _ => {
                return Err(refused("etcds:// needs a directory with keys, and etcd:// has none"));
            }
        }
        let tls = |keys: PathBuf| {
            ServerTls::new(keys::client(&keys).map_err(refused)?, tls_name).map_err(refused)
        };
        let options = ClusterOptions {
            password,
            tls: tls_keys.map(tls).transpose()?,
            timeout: timeout(timeout_s)?,
            goes_on,
        };
        let connected = guarded(|| Ok(py.detach(|| Cluster::connect(location, options))))?;
        let cluster = Mutex::new(Some(answered(py, connected)?));
        Ok(Self { cluster })
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(lock(&self.cluster).take()));
    }

    fn servers(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |cluster| Ok(cluster.servers()?.to_vec()))
    }

    fn directory_error(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.with(py, |cluster| Ok(cluster.directory_error().map(|error| error.to_string())))
    }

    fn get(&self, py: Python<'_>, keys: Vec<PyBackedBytes>) -> PyResult<Vec<Option<Vec<u8>>>> {
        self.with(py, |cluster| cluster.get_many(&slices(&keys)))
    }

    fn set(
        &self,
        py: Python<'_>,
        pairs: Vec<(PyBackedBytes, PyBackedBytes)>,
        expiry_s: Option<f64>,
    ) -> PyResult<()> {
        let expiry = expiry_s.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)));
        let expiry = expiry.transpose().map_err(refused)?;
        let pairs: Vec<(&[u8], &[u8])> =
            (pairs.iter()).map(|(key, value)| (&**key, &**value)).collect();
        self.with(py, |cluster| cluster.set_many(&pairs, expiry))
    }

    fn delete(&self, py: Python<'_>, keys: Vec<PyBackedBytes>) -> PyResult<u64> {
        self.with(py, |cluster| cluster.delete_many(&slices(&keys)))
    }

    fn execute<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        words: Vec<PyBackedBytes>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let reply = self.with(py, |cluster| cluster.execute(key, &slices(&words)))?;
        value(py, reply)
    }
}

impl KvCluster {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Cluster) -> Result<T, ClusterError> + Send,
    ) -> PyResult<T> {
        let work = || lock(&self.cluster).as_mut().map(work);
        let done = guarded(|| Ok(py.detach(work)))?;
        let done = done.ok_or_else(|| refused("the client was closed"))?;
        answered(py, done)
    }
}

fn slices(words: &[PyBackedBytes]) -> Vec<&[u8]> {
    words.iter().map(|word| &**word).collect()
}

fn value(py: Python<'_>, reply: Reply) -> PyResult<Bound<'_, PyAny>> {
    match reply {
        Reply::Simple(text) => text.into_bound_py_any(py),
        Reply::Error(message) => class(py, "ErrorReply")?.call1((message,)),
        Reply::Integer(number) => number.into_bound_py_any(py),
        Reply::Bytes(bytes) => Ok(PyBytes::new(py, &bytes).into_any()),
        Reply::Nil => Ok(py.None().into_bound(py)),
        Reply::Array(replies) => {
            let values = replies.into_iter().map(|reply| value(py, reply));
            Ok(PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
    }
}

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("overside.kv.errors")?.getattr(name)
}

/// The result of a request, or the exception of a signal's handler that has ended it.
fn answered<T>(py: Python<'_>, done: Result<T, ClusterError>) -> PyResult<T> {
    RAISED.take().map_or(Ok(()), Err)?;
    done.map_err(|error| raised(py, error))
}

/// The exception for an error.
fn raised(py: Python<'_>, error: ClusterError) -> PyErr {
    let text = error.to_string();
    let made = || match error {
        ClusterError::Unreachable { servers } => {
            let failure = class(py, "ServerFailure")?;
            let servers = servers.into_iter().map(|one| {
                failure.call1((one.server, one.reason, one.requests, one.may_be_executed))
            });
            class(py, "UnreachableError")?.call1((servers.collect::<PyResult<Vec<_>>>()?,))
        }
        ClusterError::Refused { server, message } => {
            class(py, "RefusedError")?.call1((server, message))
        }
        ClusterError::Unsupported => class(py, "UnsupportedError")?.call1((text,)),
        _ => class(py, "DirectoryError")?.call1((text,)),
    };
    made().map_or_else(|error| error, PyErr::from_value)
}
