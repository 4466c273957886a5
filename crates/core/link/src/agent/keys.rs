//! Authentication of hosts and agents: certificates of one authority, one for agents and one for
//! hosts.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// The name in an agent's certificate. It is the same for all agents: only the signer counts.
pub const AGENT: &str = "agent.overside.invalid";
/// The name in a host's certificate.
pub const HOST: &str = "host.overside.invalid";

/// The authority's certificate; on both sides.
pub const CA_CERTIFICATE: &str = "ca.pem";
/// The authority's key; on neither.
pub const CA_KEY: &str = "ca.key";
/// The agent's certificate and its key.
pub const AGENT_FILES: [&str; 2] = ["agent.pem", "agent.key"];
/// The host's certificate and its key.
pub const HOST_FILES: [&str; 2] = ["host.pem", "host.key"];

/// The certificate of a server for clients of many kinds, and its key.
pub const SERVER_FILES: [&str; 2] = ["server.pem", "server.key"];

/// The longest of these files in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Keys that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// A file that cannot be read.
    #[error("{}: {error}; `overside agent keys DIR` makes all files", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// A file of a server for clients of many kinds that cannot be read.
    #[error("{}: {error}; a server's certificate and key are {} and {}, and {CA_CERTIFICATE} is for \
             client certificates", path.display(), SERVER_FILES[0], SERVER_FILES[1])]
    ServerFile {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// A key file that other users can read.
    #[error("{} can be read by everybody; chmod 600 {}", .0.display(), .0.display())]
    Readable(PathBuf),
    /// A file with something else in it.
    #[error("{}: {reason}", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        reason: String,
    },
}

/// The host's side, from the files in `directory`.
///
/// # Errors
/// [`KeysError`].
pub fn host(directory: &Path) -> Result<Arc<ClientConfig>, KeysError> {
    connecting(directory, Some(own(directory, HOST_FILES)?))
}

/// The side of a client of any server whose certificate the authority in `directory` signed. It shows the host's
/// certificate if that is there too.
///
/// # Errors
/// [`KeysError`].
pub fn client(directory: &Path) -> Result<Arc<ClientConfig>, KeysError> {
    let has_own = directory.join(HOST_FILES[0]).exists();
    let own = has_own.then(|| own(directory, HOST_FILES)).transpose()?;
    connecting(directory, own)
}

fn connecting(directory: &Path, own: Option<Own>) -> Result<Arc<ClientConfig>, KeysError> {
    let roots = roots(directory)?;
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .and_then(|builder| {
            let builder = builder.with_root_certificates(roots);
            match own {
                Some((certificates, key)) => builder.with_client_auth_cert(certificates, key),
                None => Ok(builder.with_no_client_auth()),
            }
        });
    let path = directory.join(HOST_FILES[0]);
    config.map(Arc::new).map_err(|error| content(path, error))
}

/// The agent's side, from the files in `directory`. Only hosts whose certificates the same
/// authority signed get any further than the handshake.
///
/// # Errors
/// [`KeysError`].
pub fn agent(directory: &Path) -> Result<Arc<ServerConfig>, KeysError> {
    requiring(directory, AGENT_FILES)
}

/// Makes a configuration with the certificate and key in these files, for peers that the authority signed.
fn requiring(directory: &Path, files: [&str; 2]) -> Result<Arc<ServerConfig>, KeysError> {
    let roots = Arc::new(roots(directory)?);
    let (certificates, key) = own(directory, files)?;
    let authority = directory.join(CA_CERTIFICATE);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
        .build()
        .map_err(|error| content(authority, error))?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .and_then(|builder| {
            builder.with_client_cert_verifier(verifier).with_single_cert(certificates, key)
        });
    let path = directory.join(files[0]);
    config.map(Arc::new).map_err(|error| content(path, error))
}

/// The side of a server for clients of many kinds, from the files in `directory`. With
/// `requires_certificates` only clients whose certificates the authority signed get any further than
/// the handshake.
///
/// # Errors
/// [`KeysError`].
pub fn server(
    directory: &Path,
    requires_certificates: bool,
) -> Result<Arc<ServerConfig>, KeysError> {
    server_config(directory, requires_certificates).map_err(|error| match error {
        KeysError::File { path, error } => KeysError::ServerFile { path, error },
        other => other,
    })
}

fn server_config(
    directory: &Path,
    requires_certificates: bool,
) -> Result<Arc<ServerConfig>, KeysError> {
    match requires_certificates {
        true => requiring(directory, SERVER_FILES),
        false => {
            let (certificates, key) = own(directory, SERVER_FILES)?;
            let config = ServerConfig::builder_with_provider(provider())
                .with_protocol_versions(&[&rustls::version::TLS13])
                .and_then(|builder| {
                    (builder.with_no_client_auth()).with_single_cert(certificates, key)
                });
            let path = directory.join(SERVER_FILES[0]);
            config.map(Arc::new).map_err(|error| content(path, error))
        }
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn roots(directory: &Path) -> Result<RootCertStore, KeysError> {
    let path = directory.join(CA_CERTIFICATE);
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&path)? {
        roots.add(certificate).map_err(|error| content(path.clone(), error))?;
    }
    Ok(roots)
}

type Own = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn own(directory: &Path, [certificate, key]: [&str; 2]) -> Result<Own, KeysError> {
    let chain = certificates(&directory.join(certificate))?;
    let path = directory.join(key);
    let file = |error| KeysError::File { path: path.clone(), error };
    let mode = std::fs::metadata(&path).map_err(file)?.permissions().mode();
    if mode & 0o007 != 0 {
        return Err(KeysError::Readable(path));
    }
    let text = read(&path)?;
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| content(path, error))?;
    Ok((chain, key))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, KeysError> {
    let text = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match all.map_err(|error| content(path.into(), error))? {
        none if none.is_empty() => Err(content(path.into(), "there is no certificate in it")),
        all => Ok(all),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, KeysError> {
    use std::io::Read;
    let read = || {
        let mut text = Vec::new();
        let file = std::fs::File::open(path)?;
        file.take(MAX_FILE_BYTES).read_to_end(&mut text)?;
        Ok(text)
    };
    read().map_err(|error| KeysError::File { path: path.into(), error })
}

fn content(path: PathBuf, reason: impl ToString) -> KeysError {
    let reason = reason.to_string();
    KeysError::Content { path, reason }
}
