//! Connections to other services: nodes, and endpoints behind this one.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arrow_flight::flight_service_client::FlightServiceClient;
use hyper_util::rt::TokioIo;
use overside_flow::Error as FlowError;
use overside_link::Password;
use overside_link::agent::keys::{self, AGENT};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::codegen::{InterceptedService, Service, http};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use crate::cpu_time::CpuTime;
use crate::error::ServiceError;
use crate::socket::Socket;

/// Longest time to establish a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time without traffic after which a keep-alive is sent, to detect a lost peer.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;
const FRAME_BYTES: u32 = 1 << 20;

/// A client of another service.
pub(crate) type Client = FlightServiceClient<InterceptedService<Channel, Token>>;

/// Address of another service, with the TLS configuration and the password for it.
#[derive(Clone)]
pub struct Target {
    /// `HOST:PORT`.
    authority: String,
    /// The path of its pipeline; empty for a node.
    pub path: String,
    tls: Option<Arc<ClientConfig>>,
    token: Token,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "grpc+tls" } else { "grpc" };
        write!(f, "{scheme}://{}", self.authority)?;
        match self.path.is_empty() {
            true => Ok(()),
            false => write!(f, "/{}", self.path),
        }
    }
}

/// The password as bearer token, with each call.
#[derive(Clone, Default)]
pub struct Token(Option<MetadataValue<Ascii>>);

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

impl Target {
    /// Makes a client with the password in a file, and the keys in a directory.
    ///
    /// # Errors
    /// [`ServiceError::Address`].
    pub fn with_files(
        address: &str,
        tls_keys: &Option<PathBuf>,
        password_file: &Option<PathBuf>,
    ) -> Result<Self, ServiceError> {
        let wrong = |reason: String| ServiceError::Address { address: address.into(), reason };
        let tls = tls_keys.as_deref().map(keys::client).transpose();
        let tls = tls.map_err(|error| wrong(error.to_string()))?;
        let password = password_file.as_deref().map(Password::read_line).transpose();
        let password = password.map_err(|error| wrong(error.to_string()))?;
        Self::new(address, tls, password.as_deref())
    }

    /// The service at `grpc://HOST:PORT/PATH` or `grpc+tls://HOST:PORT/PATH`, the latter with `tls`.
    ///
    /// # Errors
    /// [`ServiceError::Address`].
    pub fn new(
        address: &str,
        tls: Option<Arc<ClientConfig>>,
        password: Option<&[u8]>,
    ) -> Result<Self, ServiceError> {
        let wrong =
            |reason: &str| ServiceError::Address { address: address.into(), reason: reason.into() };
        let (scheme, rest) = address.split_once("://").unwrap_or_default();
        let tls = match (scheme, tls) {
            ("grpc", _) => None,
            ("grpc+tls", Some(config)) => Some(with_http2(&config)),
            ("grpc+tls", None) => {
                return Err(wrong("TLS needs `tls_keys`, a directory with ca.pem"));
            }
            _ => {
                return Err(wrong(
                    "write it as grpc://HOST:PORT/PATH or grpc+tls://HOST:PORT/PATH",
                ));
            }
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let parsed: Result<http::uri::Authority, _> = authority.parse();
        if !parsed.is_ok_and(|parsed| parsed.port_u16().is_some()) {
            return Err(wrong("it has no HOST:PORT"));
        }
        let token = password.map(|password| {
            let header = [b"Bearer ", password].concat();
            MetadataValue::try_from(header).map_err(|_| wrong("the password is not printable"))
        });
        Ok(Self {
            authority: authority.into(),
            path: path.into(),
            tls,
            token: Token(token.transpose()?),
        })
    }

    /// Converts the status of a failed call to an error. The service does not answer, cannot do it
    /// now, or refuses the request.
    pub fn error(&self, status: &Status) -> FlowError {
        let (address, reason) = (self.to_string(), status.message().into());
        // What it says itself has no other cause here.
        match status.source().is_some() {
            true => FlowError::Away { address, reason },
            false if status.code() == Code::Unavailable => FlowError::NotYet { address, reason },
            false => FlowError::Refused(format!("{self}: {}", status.message())),
        }
    }

    /// Connects. The CPU time of the connection is counted.
    ///
    /// # Errors
    /// The reason why the node cannot be reached.
    pub async fn connect(&self, cpu_time: &CpuTime) -> Result<Client, Status> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.authority));
        let endpoint = endpoint.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let endpoint = (endpoint.connect_timeout(CONNECT_TIMEOUT))
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(FRAME_BYTES)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .executor(cpu_time.clone());
        let connector = Connector { authority: self.authority.clone(), tls: self.tls.clone() };
        let channel = endpoint.connect_with_connector(connector).await;
        let channel = channel.map_err(|error| {
            let mut status = Status::unavailable(chain(&error));
            status.set_source(Arc::new(error));
            status
        })?;
        let client = FlightServiceClient::with_interceptor(channel, self.token.clone());
        Ok(client.max_decoding_message_size(usize::MAX).max_encoding_message_size(usize::MAX))
    }
}

/// An error with its causes.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let reason = inner.to_string();
        // Some say what they came of themselves.
        if !text.ends_with(&reason) {
            text += &format!(": {reason}");
        }
        source = inner.source();
    }
    text
}

fn with_http2(config: &Arc<ClientConfig>) -> Arc<ClientConfig> {
    let mut config = (**config).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

/// Opens the sockets of a channel.
struct Connector {
    authority: String,
    tls: Option<Arc<ClientConfig>>,
}

type BoxSocket = TokioIo<Box<dyn Socket>>;

impl Service<http::Uri> for Connector {
    type Response = BoxSocket;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<BoxSocket>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Uri) -> Self::Future {
        let (authority, tls) = (self.authority.clone(), self.tls.clone());
        Box::pin(async move {
            let socket: Box<dyn Socket> = match tls {
                None => Box::new(tcp(&authority).await?),
                Some(tls) => Box::new(encrypted(&authority, tls).await?),
            };
            Ok(TokioIo::new(socket))
        })
    }
}

async fn tcp(authority: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(authority).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Connects with TLS. The certificate is in the name of agents, as `overside agent keys` makes it, or in that
/// of the host.
async fn encrypted(
    authority: &str,
    tls: Arc<ClientConfig>,
) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let connector = TlsConnector::from(tls);
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let names = [AGENT, host].map(|name| ServerName::try_from(name.to_owned()));
    let mut failed = io::Error::from(io::ErrorKind::InvalidInput);
    for name in names.into_iter().flatten() {
        match connector.connect(name, tcp(authority).await?).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
