//! A service that listens, from its start to its end.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_flight::flight_service_server::FlightServiceServer;
use overside_link::Password;
use rustls::ServerConfig;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::interceptor::InterceptedService;
use tonic::transport;

use crate::access::AuthInterceptor;
use crate::connection;
use crate::error::ServiceError;
use crate::flight::Endpoint;
use crate::output::downstream;
use crate::output::files;
use crate::pages;
use crate::process;
use crate::service::{Limits, Service, Work};
use crate::socket;

/// Bytes that a client may send on a stream before the service has taken any of them, so that round
/// trips do not slow down the stream. `CONNECTION_WINDOW_BYTES` is the same for all streams of a
/// connection together.
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;
/// Longest frame of HTTP/2.
const FRAME_BYTES: u32 = 1 << 20;
/// Longest headers of a call.
const HEADERS_BYTES_MAX: u32 = 16 << 10;
/// Time without traffic after which a keep-alive is sent; a client that does not answer for
/// `KEEP_ALIVE_TIMEOUT` is dropped.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval at which outputs are checked for subscribers that delay others.
const WATCH: Duration = Duration::from_millis(100);
/// Longest time for connections and tasks to end once the service has ended.
const CLOSE: Duration = Duration::from_secs(1);

/// Addresses, TLS, password and threads of a service.
#[derive(Clone)]
pub struct Settings {
    /// Address at which the service listens.
    pub listen: SocketAddr,
    /// Certificates of the service.
    pub tls: Option<Arc<ServerConfig>>,
    /// The password that clients need.
    pub password: Option<Password>,
    /// Address of metrics and the live page; `None` if they are not served.
    pub metrics: Option<SocketAddr>,
    /// Threads that serve connections.
    pub threads: usize,
}

/// A service that listens.
pub struct Server {
    service: Arc<Service>,
    settings: Settings,
    listener: TcpListener,
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    runtime: Runtime,
}

/// Result of a service that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Batches that were accepted, and neither delivered nor kept on disk. They were not acknowledged.
    pub unsafe_batches: usize,
}

impl Server {
    /// Listens; connections wait until [`Server::run`].
    ///
    /// # Errors
    /// [`ServiceError`].
    pub fn bind(work: Work, limits: Limits, settings: Settings) -> Result<Self, ServiceError> {
        let failed = |error| ServiceError::Listen { address: settings.listen, error };
        let listener = TcpListener::bind(settings.listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let runtime = socket::threads(settings.threads, "flow-service")?;
        let service = Arc::new(Service::new(work, limits, runtime.handle())?);
        let metrics = settings.metrics.map(|address| {
            let (serving, error) =
                (Arc::clone(&service), |error| ServiceError::Listen { address, error });
            let listener = overside_http::Listener::bind(address).map_err(error)?;
            let address = listener.address().map_err(error)?;
            let answer = move |path: &str| pages::answer(&serving, path);
            listener.serve(answer).map_err(ServiceError::Threads)?;
            Ok::<_, ServiceError>(address)
        });
        Ok(Self {
            metrics_address: metrics.transpose()?,
            address: listener.local_addr().map_err(failed)?,
            service,
            settings,
            listener,
            runtime,
        })
    }

    /// Returns the address at which the service listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of metrics and the live page; `None` if they are not served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// The service.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Serves until [`Service::end`] is called, and then until accepted batches are delivered, or
    /// the time for that has passed.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub fn run(self) -> Result<Ended, ServiceError> {
        let Self { service, settings, listener, runtime, .. } = self;
        let processing = service.hosted.is_some().then(|| {
            let (service, handle) = (Arc::clone(&service), runtime.handle().clone());
            std::thread::spawn(move || {
                if let Some(hosted) = &service.hosted {
                    process::run(&service, hosted, &handle);
                }
            })
        });
        runtime.block_on(async {
            let (sender, accepted) = mpsc::channel(1);
            let listener = tokio::net::TcpListener::from_std(listener);
            let listener = listener
                .map_err(|error| ServiceError::Listen { address: settings.listen, error })?;
            let accepting = connection::accept(
                Arc::clone(&service),
                listener,
                settings.tls.clone(),
                settings.password.is_some(),
                sender,
            );
            tokio::spawn(accepting);
            tokio::spawn(watch(Arc::clone(&service)));
            for output in service.hosted.iter().flat_map(|hosted| &hosted.outputs) {
                let (service, output) = (Arc::clone(&service), Arc::clone(output));
                if let Some(target) = output.target.clone() {
                    tokio::spawn(downstream::run(service, output, target));
                } else if !output.has_subscribers() {
                    tokio::spawn(files::run(service, output));
                }
            }
            let serving = builder(&service)
                .serve_with_incoming(calls(&service, &settings), ReceiverStream::new(accepted));
            let serving = tokio::spawn(serving);
            service.ending().await;
            drain(&service).await;
            serving.abort();
            Ok::<(), ServiceError>(())
        })?;
        let mut ended = Ended::default();
        if let Some(hosted) = &service.hosted {
            let queues = || hosted.outputs.iter().map(|output| &output.queue);
            hosted.input.close();
            queues().for_each(|queue| queue.close());
            let kept: Result<Vec<()>, _> = queues().map(|queue| queue.save()).collect();
            if let Err(error) = hosted.input.save().and(kept) {
                tracing::error!("what waits cannot be kept on disk: {error}");
            }
            ended.unsafe_batches = hosted.input.unsafe_batches();
        }
        runtime.shutdown_timeout(CLOSE);
        drop(processing);
        Ok(ended)
    }
}

/// HTTP/2 as it suits large messages.
fn builder(service: &Service) -> transport::Server {
    transport::Server::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES)
        .max_concurrent_streams(service.limits.calls_per_connection)
        .http2_max_header_list_size(HEADERS_BYTES_MAX)
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT))
}

fn calls(
    service: &Arc<Service>,
    settings: &Settings,
) -> InterceptedService<FlightServiceServer<Endpoint>, AuthInterceptor> {
    let endpoint = Endpoint { service: Arc::clone(service) };
    let server = FlightServiceServer::new(endpoint)
        .max_decoding_message_size(service.limits.message_bytes)
        .max_encoding_message_size(usize::MAX);
    let gate =
        AuthInterceptor { password: settings.password.clone(), service: Arc::clone(service) };
    InterceptedService::new(server, gate)
}

/// Drops subscribers that delay others.
async fn watch(service: Arc<Service>) {
    while let Some(hosted) = &service.hosted {
        tokio::time::sleep(WATCH).await;
        for output in &hosted.outputs {
            let is_full = output.queue.is_full();
            for position in (output.subscribers).drop_slowest(service.limits.stall, is_full) {
                output.queue.release(position);
            }
        }
    }
}

/// Waits until everything that came in is delivered.
async fn drain(service: &Service) {
    const LOOK: Duration = Duration::from_millis(10);
    let Some(hosted) = &service.hosted else {
        return;
    };
    let deadline = Instant::now() + service.limits.drain;
    let are_drained = || hosted.outputs.iter().all(|one| one.queue.is_drained(0));
    let is_delivered = || hosted.is_idle() && are_drained();
    while !is_delivered() && Instant::now() < deadline {
        tokio::time::sleep(LOOK).await;
    }
    // Its last acknowledgements are on their way.
    let streams = &service.counters.open_put_streams;
    let has_streams = || streams.load(std::sync::atomic::Ordering::Relaxed) > 0;
    while has_streams() && is_delivered() && Instant::now() < deadline {
        tokio::time::sleep(LOOK).await;
    }
}
