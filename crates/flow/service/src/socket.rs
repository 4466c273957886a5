//! Sockets of connections, and the threads that serve them.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};

use crate::error::ServiceError;

/// A socket, with TLS or without.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// Starts threads for connections.
///
/// # Errors
/// [`ServiceError::Threads`].
pub(crate) fn threads(count: usize, name: &str) -> Result<Runtime, ServiceError> {
    let mut threads = Builder::new_multi_thread();
    let threads = threads.worker_threads(count).thread_name(name).enable_all();
    threads.build().map_err(ServiceError::Threads)
}
