//! The backend of this machine's cores, which are one device.

use std::sync::Arc;

use overside_device::Device;
use overside_device::backend::{Backend, Described, OpenError, Options};

use crate::{CpuDevice, CpuOptions, NAME};

/// This machine's cores.
pub struct CpuBackend;

impl Backend for CpuBackend {
    fn prefix(&self) -> &'static str {
        NAME
    }

    fn list(&self) -> Vec<Described> {
        vec![Described::by_opening(self, NAME)]
    }

    fn offered(&self) -> Vec<Described> {
        self.list()
    }

    fn known_names(&self) -> Vec<String> {
        vec![NAME.into()]
    }

    fn open(&self, name: &str, options: &Options) -> Result<Arc<dyn Device>, OpenError> {
        if name != NAME {
            return Err(OpenError::unknown(name, self.known_names()));
        }
        let cores = CpuOptions { threads: options.threads, cores: options.cores.clone() };
        let device = CpuDevice::on_clock(cores, options.clock.clone());
        let device = device.map_err(|error| OpenError::unavailable(name, error))?;
        Ok(Arc::new(device))
    }

    fn relevant(&self, options: &Options) -> Options {
        Options { timing: None, ..options.clone() }
    }
}
