//! Connections of clients, with limits of their number and of the time to authenticate.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::Connected;

use crate::service::{Counters, Service};
use crate::socket::Socket;

/// Longest time for a client's TLS handshake, and then for its first call with the password.
const INTRODUCTION: Duration = Duration::from_secs(10);
/// Pause after accepting fails, for example because the process has no file descriptor left.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A connection.
pub(crate) struct Connection {
    stream: Box<dyn Socket>,
    peer: Peer,
    introduction: Option<Pin<Box<Sleep>>>,
    service: Arc<Service>,
    _permit: OwnedSemaphorePermit,
}

/// State of a connection that all its calls share.
#[derive(Clone, Default)]
pub(crate) struct Peer {
    is_authenticated: Arc<AtomicBool>,
}

impl Peer {
    /// A call came with the password.
    pub(crate) fn authenticated(&self) {
        self.is_authenticated.store(true, Ordering::Relaxed);
    }
}

/// Accepts connections until the receiver is dropped. Clients have to show the password in time, if there is one.
pub(crate) async fn accept(
    service: Arc<Service>,
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    needs_password: bool,
    accepted: mpsc::Sender<io::Result<Connection>>,
) {
    let slots = Arc::new(Semaphore::new(service.limits.connections));
    let acceptor = tls.map(|config| {
        let mut config = (*config).clone();
        // gRPC has no other protocol.
        config.alpn_protocols = vec![b"h2".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    });
    loop {
        let stream = tokio::select! {
            stream = listener.accept() => stream,
            () = service.ending() => return,
        };
        let Ok((stream, _)) = stream else {
            sleep(ACCEPT_RETRY).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&slots).try_acquire_owned() else {
            Counters::add(&service.counters.rejected_connections, 1);
            continue;
        };
        // Without it small messages wait for acknowledgements of earlier ones.
        let _ = stream.set_nodelay(true);
        Counters::add(&service.counters.connections, 1);
        let (service, acceptor, accepted) =
            (Arc::clone(&service), acceptor.clone(), accepted.clone());
        tokio::spawn(async move {
            let stream: Box<dyn Socket> = match acceptor {
                None => Box::new(stream),
                Some(acceptor) => match timeout(INTRODUCTION, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => Box::new(stream),
                    _ => return,
                },
            };
            service.counters.open_connections.fetch_add(1, Ordering::Relaxed);
            let connection = Connection {
                stream,
                peer: Peer::default(),
                introduction: needs_password.then(|| Box::pin(sleep(INTRODUCTION))),
                service,
                _permit: permit,
            };
            // The service may have ended.
            let _ = accepted.send(Ok(connection)).await;
        });
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let counters = &self.service.counters;
        counters.open_connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl Connection {
    /// Returns `true` if the time for the first call with the password has passed.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let Some(introduction) = &mut self.introduction else {
            return false;
        };
        if self.peer.is_authenticated.load(Ordering::Relaxed) {
            self.introduction = None;
            return false;
        }
        introduction.as_mut().poll(context).is_ready()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_late(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
