//! State of a key-value server.

use std::time::Duration;

use overside_kv_client::{ServerStream, info};
use pyo3::prelude::*;

use crate::{guarded, refused};

/// Reply of a server to `INFO`.
#[pyfunction]
pub(crate) fn kv_info(
    py: Python<'_>,
    address: &str,
    password: Option<&[u8]>,
    timeout_s: f64,
) -> PyResult<String> {
    let timeout = Duration::try_from_secs_f64(timeout_s).map_err(refused)?;
    if timeout.is_zero() {
        return Err(refused("there is no time to connect in"));
    }
    let ask = || {
        let stream = ServerStream::connect(address, None, timeout)?;
        stream.set_timeout(timeout)?;
        info(stream, password)
    };
    guarded(|| Ok(py.detach(ask)?))
}
