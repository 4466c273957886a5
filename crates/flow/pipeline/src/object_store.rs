//! Objects in a bucket, by the API of Amazon S3: files that are uploaded as a whole.
//!
//! 1. Data are written to an unnamed local file until it is complete ([`ObjectFile`]). So its length and
//!    its SHA-256 are known, and it can be sent again.
//! 2. It is uploaded with one request (at most 5 GiB), signed with Signature Version 4 ([`signature`]).
//!    The store compares the digest. The bucket has the complete object or none.
//! 3. Requests that fail for a temporary reason are repeated.

mod http;
mod signature;

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ring::digest;
use rustix::fs::{Mode, OFlags, open};

use self::http::{Answer, HttpClient};
use crate::Error;
use signature::{Credentials, Request, hex, timestamp};

/// Length in bytes of the longest object of one request.
const OBJECT_BYTES_MAX: u64 = 5 << 30;
const BUFFER_BYTES: usize = 256 << 10;
/// Maximum number of attempts at a request that fails for a temporary reason. The wait after the nth failure
/// is `PAUSE` times 2^n.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(200);

/// Bucket with a prefix of object names and the credentials.
pub struct ObjectStore {
    client: HttpClient,
    /// Path `/BUCKET`; empty if the host name contains the bucket.
    base_path: String,
    /// Bucket as `s3://BUCKET`.
    bucket: String,
    /// Prefix of all object names; empty, or with a slash at its end.
    prefix: String,
    region: String,
    credentials: Credentials,
}

/// Settings from the environment, with the variables of Amazon's own tools.
#[derive(Clone, Debug, Default)]
pub struct ObjectStoreSettings {
    /// `AWS_ENDPOINT_URL_S3`, or `AWS_ENDPOINT_URL`: URL of a store other than Amazon's.
    pub endpoint: Option<String>,
    /// `AWS_REGION`, or `AWS_DEFAULT_REGION`.
    pub region: Option<String>,
    /// `AWS_ACCESS_KEY_ID`.
    pub access_key: Option<String>,
    /// `AWS_SECRET_ACCESS_KEY`.
    pub secret_key: Option<String>,
    /// `AWS_SESSION_TOKEN`.
    pub session_token: Option<String>,
    /// `AWS_CA_BUNDLE`: file with trusted certificates (default: the system's).
    pub certificates: Option<String>,
}

impl ObjectStoreSettings {
    /// Reads the process's environment.
    pub fn from_environment() -> Self {
        let get = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            endpoint: get("AWS_ENDPOINT_URL_S3").or_else(|| get("AWS_ENDPOINT_URL")),
            region: get("AWS_REGION").or_else(|| get("AWS_DEFAULT_REGION")),
            access_key: get("AWS_ACCESS_KEY_ID"),
            secret_key: get("AWS_SECRET_ACCESS_KEY"),
            session_token: get("AWS_SESSION_TOKEN"),
            certificates: get("AWS_CA_BUNDLE"),
        }
    }
}

impl ObjectStore {
    /// Returns the bucket of an address such as `s3://BUCKET/PREFIX`. Sends no request yet.
    ///
    /// # Errors
    /// [`Error::Refused`]: the address or the environment is incomplete.
    pub fn new(address: &str, settings: &ObjectStoreSettings) -> Result<Self, Error> {
        let refused = |reason: String| Error::Refused(format!("{address}: {reason}"));
        let rest = address.strip_prefix("s3://").unwrap_or_default();
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(is_name) {
            return Err(refused("no name of a bucket; write s3://BUCKET/PREFIX".into()));
        }
        let key = |value: &Option<String>, name: &str| {
            let missing = || refused(format!("{name} is not set; object storage needs it"));
            value.clone().ok_or_else(missing)
        };
        let region = settings.region.as_deref().unwrap_or("us-east-1").to_owned();
        let amazon = |host: String| format!("https://{host}s3.{region}.amazonaws.com");
        let (origin, base_path) = match &settings.endpoint {
            Some(endpoint) => (endpoint.trim_end_matches('/').into(), format!("/{bucket}")),
            // A dot would make the host name differ from the certificate's.
            None if bucket.contains('.') => (amazon(String::new()), format!("/{bucket}")),
            None => (amazon(format!("{bucket}.")), String::new()),
        };
        let client = HttpClient::new(&origin, settings.certificates.as_deref());
        let mut prefix = prefix.trim_end_matches('/').to_owned();
        if !prefix.is_empty() {
            prefix.push('/');
        }
        Ok(Self {
            client: client.map_err(|error| refused(error.to_string()))?,
            base_path,
            bucket: format!("s3://{bucket}"),
            prefix,
            region,
            credentials: Credentials {
                access_key: key(&settings.access_key, "AWS_ACCESS_KEY_ID")?,
                secret_key: key(&settings.secret_key, "AWS_SECRET_ACCESS_KEY")?,
                session_token: settings.session_token.clone(),
            },
        })
    }

    /// Returns the full address of the object with this name, as in `s3://BUCKET/PREFIX/NAME`.
    fn address(&self, name: &str) -> String {
        format!("{}/{}{name}", self.bucket, self.prefix)
    }

    /// Uploads an object. With `replace`, it replaces one of that name.
    fn put(&self, name: &str, file: &mut File, sha256: &str, replace: bool) -> Result<(), Error> {
        let address = self.address(name);
        let mut attempt = 1;
        loop {
            let failed = |error: io::Error| Error::file(Path::new(&address), error);
            file.rewind().map_err(failed)?;
            let passing = match self.put_once(name, file, sha256, replace) {
                Ok(answer) => match answer.status {
                    200..300 => return Ok(()),
                    412 => return Err(Error::Exists(address.into())),
                    409 | 429 | 500.. => said(&answer),
                    _ => {
                        let reason = format!("the object store refused it: {}", said(&answer));
                        return Err(failed(io::Error::other(reason)));
                    }
                },
                Err(error) => error.to_string(),
            };
            if attempt == ATTEMPTS {
                let reason = format!("{passing} ({ATTEMPTS} times)");
                return Err(failed(io::Error::other(reason)));
            }
            tracing::info!(object = address, "tried again: {passing}");
            std::thread::sleep(PAUSE * 2_u32.pow(attempt));
            attempt += 1;
        }
    }

    fn put_once(
        &self,
        name: &str,
        file: &mut File,
        sha256: &str,
        replace: bool,
    ) -> io::Result<Answer> {
        let name = signature::encoded(&format!("{}{name}", self.prefix));
        let path = format!("{}/{name}", self.base_path);
        let date = timestamp(SystemTime::now());
        let mut headers = vec![
            ("host", self.client.host.clone()),
            ("x-amz-content-sha256", sha256.to_owned()),
            ("x-amz-date", date.clone()),
        ];
        if !replace {
            headers.push(("if-none-match", "*".into()));
        }
        if let Some(token) = &self.credentials.session_token {
            headers.push(("x-amz-security-token", token.clone()));
        }
        headers.sort();
        let request = Request {
            method: "PUT",
            path: &path,
            headers: &headers,
            sha256,
            date: &date,
            region: &self.region,
        };
        let authorization = signature::authorization(&request, &self.credentials);
        headers.push(("authorization", authorization));
        let agent = concat!("overside/", env!("CARGO_PKG_VERSION"));
        headers.push(("user-agent", agent.into()));
        self.client.put(&path, &headers, file)
    }
}

/// Summarizes a store's response in one line: status, error code and message.
fn said(answer: &Answer) -> String {
    let element = |name| element(&answer.text, name);
    format!("{} {} {}", answer.status, element("Code"), element("Message"))
}

/// Returns the text of the first element of that name.
fn element<'a>(xml: &'a str, name: &str) -> &'a str {
    let inside = xml.split_once(&format!("<{name}>"));
    let inside = inside.and_then(|(_, rest)| rest.split_once(&format!("</{name}>")));
    inside.map_or("", |(text, _)| text)
}

/// Object that is being written: an unnamed file until it is uploaded.
pub struct ObjectFile {
    writer: BufWriter<File>,
    digest: digest::Context,
    bytes: u64,
    store: Arc<ObjectStore>,
    name: String,
    replace: bool,
}

impl ObjectFile {
    /// Starts an object. Its data are stored in a directory for temporary files.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn create(store: &Arc<ObjectStore>, name: String, replace: bool) -> Result<Self, Error> {
        let directory = std::env::temp_dir();
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = open(&directory, flags, Mode::from_raw_mode(0o600));
        let file = file.map_err(|error| Error::file(&directory, io::Error::from(error)))?;
        Ok(Self {
            writer: BufWriter::with_capacity(BUFFER_BYTES, file.into()),
            digest: digest::Context::new(&digest::SHA256),
            bytes: 0,
            store: Arc::clone(store),
            name,
            replace,
        })
    }

    /// Returns the object's address, as in `s3://BUCKET/PREFIX/NAME`.
    pub fn address(&self) -> String {
        self.store.address(&self.name)
    }

    /// Uploads the object to the bucket. Returns its length.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::File`].
    pub fn finish(self) -> Result<u64, Error> {
        let address = self.address();
        let file = self.writer.into_inner().map_err(|error| error.into_error());
        let mut file = file.map_err(|error| Error::file(Path::new(&address), error))?;
        let sha256 = hex(self.digest.finish().as_ref());
        self.store.put(&self.name, &mut file, &sha256, self.replace)?;
        Ok(self.bytes)
    }
}

impl Write for ObjectFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let named = |error: &io::Error| {
            io::Error::new(
                error.kind(),
                format!(
                    "{} (in {}): {error}",
                    self.store.address(&self.name),
                    std::env::temp_dir().display()
                ),
            )
        };
        if self.bytes + bytes.len() as u64 > OBJECT_BYTES_MAX {
            let reason = "longer than 5 GiB, the most that one request puts; partition it further";
            return Err(named(&io::Error::new(io::ErrorKind::FileTooLarge, reason)));
        }
        let written = self.writer.write(bytes).map_err(|error| named(&error))?;
        self.digest.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
