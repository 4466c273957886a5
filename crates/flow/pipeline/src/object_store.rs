//! Objects in a bucket of Amazon S3, or of a store with its API: files that are uploaded as a whole.
//!
//! 1. Data are written to an unnamed local file until it is complete ([`ObjectFile`]). So memory does not grow
//!    with the number of objects, and a request can be sent again.
//! 2. A short object is uploaded with one request, a longer one in parts. The bucket has the complete object or
//!    none.
//! 3. The crate `object_store` signs requests and repeats those that fail for a temporary reason.

mod http;

use std::error::Error as _;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore as _, ObjectStoreExt as _, PutMode, RetryConfig, WriteMultipart};
use rustix::fs::{Mode, OFlags, open};
use tokio::runtime::Runtime;

use crate::Error;

/// Length in bytes of the longest object of one request, and of a part of a longer one.
const PART_BYTES: u64 = 16 << 20;
/// Maximum number of parts of an object (Amazon S3's).
const PARTS_MAX: u64 = 10_000;
/// Number of parts that are uploaded at once.
const PARTS_AT_ONCE: usize = 4;
const BUFFER_BYTES: usize = 256 << 10;
/// Maximum number of times that a request which failed for a temporary reason is sent again.
const RETRIES: usize = 3;

/// Bucket with a prefix of object names and the credentials.
pub struct ObjectStore {
    bucket: AmazonS3,
    runtime: Runtime,
    /// Beginning of errors: empty if the environment has keys. Without, a machine or a container may lend some.
    hint: &'static str,
    /// Bucket as `s3://BUCKET`.
    name: String,
    /// Prefix of all object names; empty, or with a slash at its end.
    prefix: String,
}

impl ObjectStore {
    /// Returns the bucket of an address such as `s3://BUCKET/PREFIX`. `variables` are those of the process's
    /// environment: names that begin with `AWS_`, as Amazon's own tools have them. Sends no request yet.
    ///
    /// # Errors
    /// [`Error::Refused`]: the address or the environment is incomplete.
    pub fn new(
        address: &str,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Error> {
        let refused = |reason: String| Error::Refused(format!("{address}: {reason}"));
        let rest = address.strip_prefix("s3://").unwrap_or_default();
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(is_name) {
            return Err(refused("no name of a bucket; write s3://BUCKET/PREFIX".into()));
        }
        let mut builder = AmazonS3Builder::new().with_bucket_name(bucket);
        let mut certificates = None;
        for (name, value) in variables.into_iter().filter(|(_, value)| !value.is_empty()) {
            let key = name.starts_with("AWS_").then(|| name.to_ascii_lowercase().parse());
            match key {
                _ if name == "AWS_CA_BUNDLE" => certificates = Some(value),
                Some(Ok(key)) => builder = builder.with_config(key, value),
                _ => {}
            }
        }
        let endpoint = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
        let endpoint = endpoint.iter().find_map(|key| builder.get_config_value(key));
        if let Some(other) = endpoint.filter(|endpoint| !endpoint.starts_with("http")) {
            return Err(refused(format!("{other:?} is no http:// or https:// address of a host")));
        }
        let keys = [AmazonS3ConfigKey::AccessKeyId, AmazonS3ConfigKey::SecretAccessKey];
        let [has_key, has_secret] = keys.map(|key| builder.get_config_value(&key).is_some());
        if has_key != has_secret {
            let name = if has_key { "AWS_SECRET_ACCESS_KEY" } else { "AWS_ACCESS_KEY_ID" };
            return Err(refused(format!("{name} is not set; object storage needs both keys")));
        }
        let retry = RetryConfig { max_retries: RETRIES, ..RetryConfig::default() };
        let builder = builder.with_retry(retry).with_http_connector(http::Connector(certificates));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let prefix = prefix.trim_end_matches('/');
        Ok(Self {
            bucket: builder.build().map_err(|error| refused(error.to_string()))?,
            runtime: runtime.map_err(|error| refused(error.to_string()))?,
            hint: if has_key { "" } else { NO_KEY },
            name: format!("s3://{bucket}"),
            prefix: if prefix.is_empty() { String::new() } else { format!("{prefix}/") },
        })
    }

    /// Returns the full address of the object with this name, as in `s3://BUCKET/PREFIX/NAME`.
    fn address(&self, name: &str) -> String {
        format!("{}/{}{name}", self.name, self.prefix)
    }

    /// Uploads an object. With `replace`, it replaces one of that name.
    async fn put(
        &self,
        name: &str,
        mut file: File,
        len: u64,
        replace: bool,
    ) -> object_store::Result<()> {
        let path = ObjectPath::parse(format!("{}{name}", self.prefix))?;
        let mut part = move |len: u64| {
            let mut bytes = Vec::with_capacity(len as usize);
            let read = (&mut file).take(len).read_to_end(&mut bytes);
            read.map(|_| bytes).map_err(failed)
        };
        if len <= PART_BYTES {
            let mode = if replace { PutMode::Overwrite } else { PutMode::Create };
            let put = self.bucket.put_opts(&path, part(len)?.into(), mode.into());
            return put.await.map(drop);
        }
        if !replace && self.bucket.head(&path).await.is_ok() {
            let source = "an object of that name".into();
            return Err(object_store::Error::AlreadyExists { path: path.into(), source });
        }
        let part_bytes = PART_BYTES.max(len.div_ceil(PARTS_MAX));
        let upload = self.bucket.put_multipart(&path).await?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, part_bytes as usize);
        for _ in 0..len.div_ceil(part_bytes) {
            let sent = match upload.wait_for_capacity(PARTS_AT_ONCE - 1).await {
                Ok(()) => part(part_bytes),
                Err(error) => Err(error),
            };
            match sent {
                Ok(bytes) => upload.put(bytes.into()),
                Err(error) => {
                    let _ = upload.abort().await;
                    return Err(error);
                }
            }
        }
        upload.finish().await.map(drop)
    }
}

/// Beginning of an error where the environment has no keys.
const NO_KEY: &str = "AWS_ACCESS_KEY_ID is not set, and this machine lends no keys either: ";

/// Returns an error of the local file.
fn failed(error: io::Error) -> object_store::Error {
    object_store::Error::Generic { store: "S3", source: Box::new(error) }
}

/// Object that is being written: an unnamed file until it is uploaded.
pub struct ObjectFile {
    writer: BufWriter<File>,
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
        let writer = BufWriter::with_capacity(BUFFER_BYTES, file.into());
        Ok(Self { writer, store: Arc::clone(store), name, replace })
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
        let failed = |error: io::Error| Error::file(Path::new(&address), error);
        let mut file = self.writer.into_inner().map_err(|error| failed(error.into_error()))?;
        let len = file.stream_position().map_err(failed)?;
        file.rewind().map_err(failed)?;
        let put = self.store.put(&self.name, file, len, self.replace);
        match self.store.runtime.block_on(put) {
            Ok(()) => Ok(len),
            Err(object_store::Error::AlreadyExists { .. }) => Err(Error::Exists(address.into())),
            Err(error) => {
                let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                Err(failed(io::Error::other(format!("{}{reason}", self.store.hint))))
            }
        }
    }
}

impl Write for ObjectFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes).map_err(|error| {
            let (address, place) = (self.store.address(&self.name), std::env::temp_dir());
            io::Error::new(error.kind(), format!("{address} (in {}): {error}", place.display()))
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
