//! Options for compressing or decompressing a stream.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use overside_backend_cpu::{CpuDevice, CpuOptions};
use overside_device::{Clock, Device, OpenError, Operation, OperationConfig};
use overside_ops::Format;
use overside_placement::{
    DeviceSetup, MAX_ADAPTIVE_CHUNK_BYTES, Policy, Setup, Verify, chunk_bytes,
};

use crate::{Container, Error, MAX_CHUNK_BYTES};

/// Minimum length of a chunk in bytes.
pub const MIN_CHUNK_BYTES: usize = 1 << 10;
/// Jobs in flight on a device.
const DEVICE_DEPTH: usize = 16;
/// Approximate limit on the bytes of all chunks in flight together. Two chunks are always allowed.
const MAX_WINDOW_BYTES: usize = 512 << 20;

/// Options for how and where a stream is compressed or decompressed. The default is gzip on this
/// machine's cores.
#[derive(Clone)]
pub struct Options {
    /// Format to write; gzip if `None`. When decompressing, the format that the input must have;
    /// detected if `None`.
    pub container: Option<Container>,
    /// Compression level, in the numbers of the library on the CPU; its default unless set. Up to
    /// 3 DEFLATE is done by ISA-L, above by libdeflate.
    pub level: Option<u32>,
    /// Bytes of input that are compressed at once, by themselves; 1 MiB. Less where the format or
    /// the device takes less.
    pub chunk_bytes: usize,
    /// `true` to let chunks under [`Policy::Adaptive`] begin with `chunk_bytes` and become longer or shorter,
    /// by powers of two up to [`MAX_ADAPTIVE_CHUNK_BYTES`] or the limit of the format and all devices, if
    /// that is faster. Several submitters change the length together.
    pub adaptive_chunks: bool,
    /// Policy that assigns chunks to targets; the CPU unless set.
    pub policy: Policy,
    /// The CPU; this machine's cores unless set.
    pub cpu: Option<Arc<dyn Device>>,
    /// The devices that the policy may use.
    pub devices: Vec<Arc<dyn Device>>,
    /// Threads that submit chunks and collect them, each with contexts of its own; by default only
    /// the caller's. For devices that one thread does not keep busy.
    pub submitters: NonZeroUsize,
    /// Limit on the bytes of input in flight, but at least one chunk for each submitter. If `None`,
    /// it follows from the depths of the targets.
    pub window_bytes: Option<usize>,
    /// Threads of the CPU; as many as there are cores unless set.
    pub threads: usize,
    /// Longest time that a device may take for a chunk before it counts as stalled.
    pub job_timeout: Duration,
    /// Rule for which results of the device are verified before they count; all unless set.
    pub verify: Verify,
    /// The original's name without its directory, for gzip. It cannot contain a zero byte.
    pub name: Option<Vec<u8>>,
    /// Modification time of the original, in seconds since 1970, for gzip; 0 if unknown.
    pub mtime: u32,
    /// Number of bytes that will be compressed, for the header of LZ4. Set it only if it is
    /// certain: any other number of bytes is an error.
    pub content_bytes: Option<u64>,
    /// The longest output of decompression in bytes.
    pub max_output_bytes: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            container: None,
            level: None,
            chunk_bytes: 1 << 20,
            adaptive_chunks: false,
            policy: Policy::Cpu,
            cpu: None,
            devices: Vec::new(),
            submitters: NonZeroUsize::MIN,
            window_bytes: None,
            threads: available_parallelism().map_or(1, NonZeroUsize::get),
            job_timeout: Duration::from_secs(10),
            verify: Verify::All,
            name: None,
            mtime: 0,
            content_bytes: None,
            max_output_bytes: None,
        }
    }
}

impl Options {
    /// Returns the length of chunks, or their maximum length: the least of the requested length and the limits
    /// of the format and the device.
    ///
    /// # Errors
    /// [`Error::Option`] if it is not from [`MIN_CHUNK_BYTES`] to [`MAX_CHUNK_BYTES`].
    pub(crate) fn geometry(&self, container: Container) -> Result<usize, Error> {
        if !(MIN_CHUNK_BYTES..=MAX_CHUNK_BYTES).contains(&self.chunk_bytes) {
            return Err(Error::Option(format!(
                "a chunk has {MIN_CHUNK_BYTES} to {MAX_CHUNK_BYTES} bytes, not {}",
                self.chunk_bytes
            )));
        }
        let asked = match self.sizes_chunks() {
            true => self.chunk_bytes.max(MAX_ADAPTIVE_CHUNK_BYTES),
            false => self.chunk_bytes,
        };
        let chunk = asked.min(container.max_chunk_bytes());
        let operation = self.compress_operation(container);
        let devices = match self.policy.uses_device() {
            true => &self.devices[..],
            false => &[],
        };
        let taken = (devices.iter()).filter_map(|device| chunk_bytes(&**device, operation, chunk));
        Ok(taken.min().unwrap_or(chunk).max(1))
    }

    /// Returns the operation that compresses each chunk. If the policy uses devices that end a stream with
    /// each job, chunks of zlib are whole streams, which are joined afterwards. The adaptive placement then
    /// leaves zlib to the CPU: joining costs the host more than compressing fast.
    pub(crate) fn compress_operation(&self, container: Container) -> Operation {
        let (part, whole) = (container.compress(), Operation::Compress(Format::Deflate));
        let can = |operation| {
            move |device: &Arc<dyn Device>| device.capabilities().get(operation).is_some()
        };
        let is_asked = matches!(self.policy, Policy::Device | Policy::Split(_));
        let joins = container == Container::Zlib
            && is_asked
            && !self.devices.iter().all(can(part))
            && self.devices.iter().any(can(whole));
        if joins { whole } else { part }
    }

    /// Returns `true` if the controller may change the length of chunks.
    fn sizes_chunks(&self) -> bool {
        self.adaptive_chunks && self.policy == Policy::Adaptive
    }

    /// The executor's setup for chunks of that geometry.
    pub(crate) fn setup(
        &self,
        operation: Operation,
        source_bytes: usize,
        destination_bytes: usize,
    ) -> Result<Setup, Error> {
        let threads = self.threads.max(1);
        let cpu = match &self.cpu {
            Some(cpu) => Arc::clone(cpu),
            None => cores(threads, self.policy, operation)?,
        };
        let operation = OperationConfig {
            level: self.level.filter(|_| matches!(operation, Operation::Compress(_))),
            ..OperationConfig::new(operation)
        };
        let fits = (MAX_WINDOW_BYTES / (source_bytes + destination_bytes).max(1)).max(2);
        Ok(Setup {
            cpu: Some(cpu),
            devices: (self.devices.iter())
                .map(|device| DeviceSetup {
                    depth: DEVICE_DEPTH.min(fits),
                    ..DeviceSetup::new(Arc::clone(device))
                })
                .collect(),
            source_bytes,
            first_chunk_bytes: (self.sizes_chunks()
                && matches!(operation.operation, Operation::Compress(_)))
            .then_some(self.chunk_bytes),
            destination_bytes,
            window: (self.window_bytes).map(|bytes| (bytes / source_bytes.max(1)).max(1)),
            cpu_depth: (2 * threads).min(fits),
            job_timeout: self.job_timeout,
            verify: self.verify,
            ..Setup::new(operation, self.policy)
        })
    }
}

/// The CPU, for an operation and, if there is a device, for verifying its results.
fn cores(threads: usize, policy: Policy, operation: Operation) -> Result<Arc<dyn Device>, Error> {
    let inverse = match operation {
        Operation::Compress(format) if policy.uses_device() => Some(Operation::Decompress(format)),
        _ => None,
    };
    let operations = [operation].into_iter().chain(inverse);
    let options = CpuOptions { threads, cores: None };
    let device =
        CpuDevice::for_operations(options, operations, Clock::default()).map_err(|error| {
            overside_placement::Error::Open(OpenError::Failed {
                device: overside_backend_cpu::NAME.into(),
                reason: error.to_string(),
            })
        })?;
    Ok(Arc::new(device))
}
