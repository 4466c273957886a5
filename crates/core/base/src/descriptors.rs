//! Limit on the number of files and sockets that a process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open descriptors to `wanted` as far as the system lets this process. The
/// limit then, which may be lower; without a limit, `wanted`.
pub fn raise_descriptor_limit(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let Some(current) = limit.current.filter(|current| *current < wanted) else {
        return limit.current.unwrap_or(wanted);
    };
    let raised = limit.maximum.map_or(wanted, |most| most.min(wanted));
    let new = Rlimit { current: Some(raised), maximum: limit.maximum };
    match setrlimit(Resource::Nofile, new) {
        Ok(()) => raised,
        Err(_) => current,
    }
}
