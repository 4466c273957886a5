//! Making keys: an authority, and certificates that it signed for agents and for hosts.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use overside_link::agent::keys::{
    AGENT, AGENT_FILES, CA_CERTIFICATE, CA_KEY, HOST, HOST_FILES, KeysError,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

pub use overside_link::agent::keys::{agent, host};

/// Error of [`make`], which creates an authority and the certificates of an agent and a host.
#[derive(Debug, thiserror::Error)]
pub enum MakingError {
    /// A file of that name exists already.
    #[error("{} is there already, and keys are never overwritten", .0.display())]
    Exists(PathBuf),
    /// A file that cannot be written.
    #[error("{}: {error}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error that the operating system returned.
        error: io::Error,
    },
    /// The certificate library failed.
    #[error("the keys cannot be made: {0}")]
    Library(#[from] rcgen::Error),
    /// The generated files cannot be loaded as the keys of an agent or a host.
    #[error("the keys that were made cannot be used: {0}")]
    Unusable(#[from] KeysError),
}

/// Makes an authority and, signed by it, an agent's and a host's certificate in `directory`, which
/// is made if need be. Only the owner can read the files. They do not expire: to replace them,
/// make others. Returns the files' names.
///
/// # Errors
/// [`MakingError`]; nothing is overwritten.
pub fn make(directory: &Path) -> Result<Vec<&'static str>, MakingError> {
    let file = |path: &Path| {
        let path = path.to_owned();
        move |error| MakingError::File { path, error }
    };
    let names =
        [CA_CERTIFICATE, CA_KEY, AGENT_FILES[0], AGENT_FILES[1], HOST_FILES[0], HOST_FILES[1]];
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(file(directory))?;
    if let Some(there) = names.iter().map(|name| directory.join(name)).find(|path| path.exists()) {
        return Err(MakingError::Exists(there));
    }
    let authority = authority()?;
    let [agent_certificate, agent_key] =
        signed(&authority, AGENT, ExtendedKeyUsagePurpose::ServerAuth)?;
    let [host_certificate, host_key] =
        signed(&authority, HOST, ExtendedKeyUsagePurpose::ClientAuth)?;
    let texts = [
        authority.pem(),
        authority.key().serialize_pem(),
        agent_certificate,
        agent_key,
        host_certificate,
        host_key,
    ];
    for (name, text) in names.iter().zip(texts) {
        let path = directory.join(name);
        write(&path, &text).map_err(file(&path))?;
    }
    host(directory)?;
    agent(directory)?;
    Ok(names.to_vec())
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "Overside's agents and hosts");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

/// A certificate and its key.
fn signed(
    authority: &CertifiedIssuer<'_, KeyPair>,
    name: &str,
    usage: ExtendedKeyUsagePurpose,
) -> Result<[String; 2], rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    let certificate = params.signed_by(&key, authority)?;
    Ok([certificate.pem(), key.serialize_pem()])
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
