//! Keyword arguments that several functions share, parsed and checked.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;

use overside_compress::{Policy, Verify};
use overside_device::Device;
use pyo3::prelude::*;

use crate::{errors, refused};

/// Maximum number of threads.
const THREADS_MAX: usize = 1024;

/// Placement of the work: policy, opened devices, CPU threads, and verification of devices'
/// results.
pub(crate) struct PlacementArgs {
    pub(crate) policy: Policy,
    pub(crate) devices: Vec<Arc<dyn Device>>,
    pub(crate) threads: usize,
    pub(crate) verify: Option<Verify>,
    pub(crate) submitters: NonZeroUsize,
    pub(crate) window_bytes: Option<usize>,
}

impl PlacementArgs {
    /// Understands the arguments and opens the devices. Without a placement it is the CPU alone, or
    /// adaptive if there is a device.
    pub(crate) fn new(
        py: Python<'_>,
        placement: Option<&str>,
        device: Option<&str>,
        threads: Option<usize>,
        verify: Option<&str>,
    ) -> PyResult<Self> {
        // The CPU is there anyway.
        let device = device.filter(|name| *name != "cpu");
        let asked = placement.map(str::parse).transpose().map_err(refused)?;
        let policy = Policy::settled(asked, device.is_some()).ok_or_else(|| {
            let placement = placement.unwrap_or_default();
            refused(format!(
                "placement {placement:?} needs a device; `overside devices` lists them"
            ))
        })?;
        let threads = match threads {
            None => available_parallelism().map_or(1, usize::from),
            Some(threads) if (1..=THREADS_MAX).contains(&threads) => threads,
            Some(threads) => {
                return Err(refused(format!("threads is from 1 to {THREADS_MAX}, not {threads}")));
            }
        };
        let open = |names| py.detach(|| overside_backends::open_accelerators(names, threads));
        let devices = device.map(open).transpose().map_err(errors::device)?;
        Ok(Self {
            policy,
            devices: devices.unwrap_or_default(),
            threads,
            verify: verify.map(str::parse).transpose().map_err(refused)?,
            submitters: NonZeroUsize::MIN,
            window_bytes: None,
        })
    }

    /// Sets the number of submitting threads, and the bytes in flight.
    pub(crate) fn submitted(
        self,
        submitters: Option<NonZeroUsize>,
        window_bytes: Option<usize>,
    ) -> Self {
        Self { submitters: submitters.unwrap_or(NonZeroUsize::MIN), window_bytes, ..self }
    }

    /// Starts no threads that there is no work for.
    pub(crate) fn for_bytes(mut self, bytes: usize, bytes_a_thread: usize) -> Self {
        self.threads = self.threads.min(bytes.div_ceil(bytes_a_thread.max(1)).max(1));
        self
    }
}
