//! Options that the device cannot follow.

use rustix::thread::{CpuSet, sched_getaffinity};

use crate::{CpuOptions, MAX_THREADS};

/// Reason why [`CpuOptions`] are rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuError {
    /// No thread, or too many.
    #[error("{0} threads are not possible: 1 to {MAX_THREADS} are")]
    Threads(usize),
    /// A list of cores without a core.
    #[error("the list of cores is empty")]
    NoCores,
    /// A core that this process may not run on.
    #[error("core {core} cannot be used; this process may use: {usable}")]
    Core {
        /// The core's number.
        core: usize,
        /// The numbers of the cores that can be used, separated by commas.
        usable: String,
    },
}

pub(crate) fn check(options: &CpuOptions) -> Result<(), CpuError> {
    if !(1..=MAX_THREADS).contains(&options.threads) {
        return Err(CpuError::Threads(options.threads));
    }
    let Some(cores) = &options.cores else {
        return Ok(());
    };
    if cores.is_empty() {
        return Err(CpuError::NoCores);
    }
    // Where the system does not say which cores there are, pinning says it later.
    let Ok(set) = sched_getaffinity(None) else {
        return Ok(());
    };
    let usable = |core: &usize| *core < CpuSet::MAX_CPU && set.is_set(*core);
    match cores.iter().find(|core| !usable(core)) {
        None => Ok(()),
        Some(&core) => {
            let usable: Vec<String> =
                (0..CpuSet::MAX_CPU).filter(usable).map(|core| core.to_string()).collect();
            Err(CpuError::Core { core, usable: usable.join(", ") })
        }
    }
}
