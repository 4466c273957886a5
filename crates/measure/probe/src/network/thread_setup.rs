//! Placement of threads: their network namespace and their core.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::Error;

/// Moves the calling thread; the sockets that it makes from now on belong there.
pub(super) fn enter(namespace: &Path) -> Result<(), Error> {
    let what = || format!("network namespace {}", namespace.display());
    let file = File::open(namespace).map_err(Error::system(what()))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| Error::system(what())(error.into()))
}

/// Pins the calling thread.
pub(super) fn pin(core: usize) -> Result<(), Error> {
    overside_device::threads::pin(core).map_err(Error::system(format!("core {core}")))
}

/// Checks that threads can be pinned to each of these cores, on a thread of its own.
pub(super) fn check_cores(cores: &[usize]) -> Result<(), Error> {
    if cores.is_empty() {
        return Ok(());
    }
    std::thread::scope(|scope| {
        let tried = scope.spawn(|| cores.iter().try_for_each(|&core| pin(core)));
        tried.join().expect("pinning a thread does not panic")
    })
}

/// Identity of this machine until it is started again, equal for all its programs; 0 if the system
/// has none.
pub fn machine() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // The first 16 hexadecimal digits of a random number.
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}
