//! HTTP for the crate `object_store`, by `ureq`: blocking requests on the runtime's own threads, unencrypted or
//! over TLS.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Error};

/// Longest times to connect, and to wait for a response.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum length in bytes of a response's body.
const RESPONSE_BYTES_MAX: u64 = 16 << 20;
/// Files in which systems keep their trusted certificates. The first one that exists is used.
const CERTIFICATES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Maker of HTTP clients that trust the certificates in a file; `None` means the system's.
#[derive(Debug)]
pub(super) struct Connector(pub Option<String>);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(RootCerts::new_with_certs(&self.certificates()?))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(RESPONSE_TIMEOUT))
            .timeout_recv_body(Some(RESPONSE_TIMEOUT))
            .user_agent(concat!("overside/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(HttpClient::new(Client(config.into())))
    }
}

impl Connector {
    /// Returns the trusted certificates; none if the system has no file of them. Certificates that cannot be
    /// parsed are skipped, as by other programs.
    fn certificates(&self) -> object_store::Result<Vec<Certificate<'static>>> {
        let known = CERTIFICATES.into_iter().find(|path| Path::new(path).exists());
        let Some(path) = self.0.as_deref().or(known) else {
            return Ok(Vec::new());
        };
        let pem = std::fs::read(path).map_err(|error| {
            super::failed(std::io::Error::new(error.kind(), format!("{path}: {error}")))
        })?;
        let certificates = parse_pem(&pem).filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        });
        Ok(certificates.collect())
    }
}

#[derive(Debug)]
struct Client(Agent);

#[async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let agent = self.0.clone();
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let exchange = move || {
            let response = agent.run(http::Request::from_parts(parts, &body[..]))?;
            let (parts, mut body) = response.into_parts();
            let body = body.with_config().limit(RESPONSE_BYTES_MAX).read_to_vec()?;
            Ok(HttpResponse::from_parts(parts, Bytes::from(body).into()))
        };
        let answered = tokio::task::spawn_blocking(exchange).await;
        let answered = answered.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        answered.map_err(|error: Error| HttpError::new(kind(&error), error))
    }
}

/// Returns the kind of an error, which decides if the request is sent again.
fn kind(error: &Error) -> HttpErrorKind {
    match error {
        Error::HostNotFound | Error::ConnectionFailed => HttpErrorKind::Connect,
        Error::Timeout(_) => HttpErrorKind::Timeout,
        Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            HttpErrorKind::Connect
        }
        Error::Io(_) => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    }
}
