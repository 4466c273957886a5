//! HTTP/1.1 client (RFC 9112) with one request per connection, unencrypted or over TLS 1.3: sufficient for
//! uploading objects.

use std::fs::File;
use std::io::{self, Error, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Longest time to connect. `STEP_TIMEOUT` is the longest time for each read and each write.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const STEP_TIMEOUT: Duration = Duration::from_secs(60);
const BUFFER_BYTES: usize = 256 << 10;
/// Maximum number of bytes of a response that are read; the rest is ignored.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Files in which systems keep their trusted certificates. The first one that exists is used.
const CERTIFICATES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Server with the way to connect to it.
pub(super) struct HttpClient {
    /// Value of the `Host` header: the host, and its port if the address has one.
    pub host: String,
    /// Host and port to connect to.
    address: String,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// Response of a server to one request.
pub(super) struct Answer {
    pub status: u16,
    /// Headers and body, as far as they were read.
    pub text: String,
}

impl HttpClient {
    /// Creates a client for `http://HOST[:PORT]` or `https://HOST[:PORT]`. `certificates` is a file
    /// with certificates to trust; `None` means the system's.
    ///
    /// # Errors
    /// The address is invalid, or there are no certificates.
    pub(super) fn new(origin: &str, certificates: Option<&str>) -> io::Result<Self> {
        let wrong = || {
            let problem = format!("{origin:?} is no http:// or https:// address of a host");
            Error::new(ErrorKind::InvalidInput, problem)
        };
        let (scheme, host) = origin.split_once("://").ok_or_else(wrong)?;
        let is_host = |letter: char| letter.is_ascii_alphanumeric() || "-._:[]".contains(letter);
        if host.is_empty() || !host.chars().all(is_host) {
            return Err(wrong());
        }
        let (port, is_secure) = match scheme {
            "http" => (80, false),
            "https" => (443, true),
            _ => return Err(wrong()),
        };
        let bare = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
        let address = match bare {
            Some(_) => host.to_owned(),
            None => format!("{host}:{port}"),
        };
        let name = bare.map_or(host, |(name, _)| name).trim_matches(['[', ']']);
        let tls = match is_secure {
            true => {
                let name = ServerName::try_from(name.to_owned()).map_err(|_| wrong())?;
                Some((Arc::new(tls(certificates)?), name))
            }
            false => None,
        };
        Ok(Self { host: host.to_owned(), address, tls })
    }

    /// Sends a request with a file's bytes.
    ///
    /// # Errors
    /// Errors of the network or of TLS, or an invalid response.
    pub(super) fn put(
        &self,
        path: &str,
        headers: &[(&str, String)],
        file: &mut File,
    ) -> io::Result<Answer> {
        let stream = self.connect()?;
        match &self.tls {
            None => exchange(stream, path, headers, file),
            Some((config, name)) => {
                let client = ClientConnection::new(Arc::clone(config), name.clone());
                let client = client.map_err(Error::other)?;
                exchange(StreamOwned::new(client, stream), path, headers, file)
            }
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut last = Error::new(ErrorKind::NotFound, "the host has no address");
        for address in self.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(STEP_TIMEOUT))?;
                    stream.set_write_timeout(Some(STEP_TIMEOUT))?;
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn exchange(
    mut stream: impl Read + Write,
    path: &str,
    headers: &[(&str, String)],
    file: &mut File,
) -> io::Result<Answer> {
    let mut head = format!("PUT {path} HTTP/1.1\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    let len = file.metadata()?.len();
    head += &format!("content-length: {len}\r\nconnection: close\r\n\r\n");
    let sent = stream.write_all(head.as_bytes()).and_then(|()| send(&mut stream, file));
    // A server may respond with a refusal and close before it has received everything.
    let mut answer = Vec::new();
    let received = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer).into_owned();
    match status(&text) {
        Some(status) => Ok(Answer { status, text }),
        None => {
            sent?;
            received?;
            let problem = "the answer is not HTTP";
            Err(Error::new(ErrorKind::InvalidData, problem))
        }
    }
}

fn send(stream: &mut impl Write, file: &mut File) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return stream.flush(),
            len => stream.write_all(&buffer[..len])?,
        }
    }
}

/// Returns the status of the last response: a status that begins with 1 only announces it.
fn status(text: &str) -> Option<u16> {
    let rest = text.strip_prefix("HTTP/1.")?;
    let status: u16 = rest.get(2..5)?.parse().ok()?;
    match status {
        100..200 => self::status(text.split_once("\r\n\r\n")?.1),
        _ => Some(status),
    }
}

fn tls(certificates: Option<&str>) -> io::Result<ClientConfig> {
    let known = CERTIFICATES.into_iter().find(|path| Path::new(path).exists());
    let path = certificates.or(known).ok_or_else(|| {
        let problem = "this system has no certificates to trust; install ca-certificates, or set \
                       AWS_CA_BUNDLE";
        Error::new(ErrorKind::NotFound, problem)
    })?;
    let named = |reason: String| Error::new(ErrorKind::InvalidData, format!("{path}: {reason}"));
    let pem = std::fs::read(path).map_err(|error| named(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    let all = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok);
    // Certificates that cannot be parsed are skipped, as by other programs.
    if roots.add_parsable_certificates(all).0 == 0 {
        return Err(named("no certificates".into()));
    }
    let config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config = config.with_protocol_versions(&[&rustls::version::TLS13]);
    let config = config.map_err(Error::other)?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::status;

    #[test]
    fn the_last_answer_counts() {
        assert_eq!(status("HTTP/1.1 200 OK\r\n\r\n"), Some(200));
        assert_eq!(status("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 No\r\n\r\n"), Some(403));
        for none in ["", "HTTP/1.1", "HTTP/2 200", "HTTP/1.1 100 Continue", "SSH-2.0"] {
            assert_eq!(status(none), None, "{none:?}");
        }
    }
}
