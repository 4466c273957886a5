//! Posts reads and writes of the peer's memory to UCX.

#![deny(unsafe_code)]

use overside_device::Slice;

use super::{UcxEngine, Use, Written};
use crate::ucx::exports::import_of;
use crate::ucx::shim::{Operation, What};
use crate::verbs::{RemoteSlice, Verb, WorkError};

impl UcxEngine {
    fn remote(&mut self, remote: &RemoteSlice) -> Result<(u64, *mut std::ffi::c_void), String> {
        let import = import_of(remote.remote());
        let worker = self.worker.as_mut().ok_or("it is closed")?;
        let (address, key) = self.keys.get(worker, import, remote.remote())?;
        let at = address.checked_add(remote.start()).ok_or("no address")?;
        Ok((at, key.0.as_ptr()))
    }

    pub(super) fn post_remote(&mut self, tag: u64, verb: Verb, inline: bool) {
        let remote = match &verb {
            Verb::Read { from: remote, .. }
            | Verb::ReadShared { from: remote, .. }
            | Verb::Write { to: remote, .. } => self.remote(remote),
            Verb::Send { .. } | Verb::Receive { .. } => return,
        };
        let (remote, key) = match remote {
            Ok(found) => found,
            Err(reason) => {
                let (source, destination) = match verb {
                    Verb::Write { from, .. } => (Some(from), None),
                    Verb::Read { into, .. } => (None, Some(into)),
                    _ => (None, None),
                };
                return self.complete(tag, Err(WorkError::Failed(reason)), source, destination);
            }
        };
        match verb {
            Verb::Read { mut into, from } => {
                let operation = Operation {
                    local: into.as_mut_ptr(),
                    memory: self.context.mapped(into.registration()),
                    key,
                    remote,
                    len: into.len() as u64,
                    slot: 0,
                };
                self.begin(What::Get, Use::Read { tag, into, _from: from }, operation);
            }
            Verb::ReadShared { into, from } => {
                let operation = Operation { key, remote, ..to(into.window().as_ptr(), into.len()) };
                let held = Use::ReadShared { tag, into, _from: from };
                self.begin(What::Get, held, operation);
            }
            Verb::Write { from, to } => {
                let (copy, local) = local(&from, inline);
                let operation = Operation {
                    local,
                    memory: match copy {
                        Some(_) => std::ptr::null_mut(),
                        None => self.context.mapped(from.registration()),
                    },
                    key,
                    remote,
                    len: from.len() as u64,
                    slot: 0,
                };
                self.write_number += 1;
                let held = Use::Write { tag, from, _copy: copy, _to: to };
                let slot = self.begin(What::Put, held, operation);
                self.writes.push_back(Written { number: self.write_number, slot, read: None });
            }
            Verb::Send { .. } | Verb::Receive { .. } => {}
        }
    }
}

/// An operation that only has local memory.
pub(super) fn to(local: *mut u8, len: usize) -> Operation {
    Operation {
        local,
        memory: std::ptr::null_mut(),
        key: std::ptr::null_mut(),
        remote: 0,
        len: len as u64,
        slot: 0,
    }
}

/// Returns the address that UCX reads a source from, and the copy that is there if the work is
/// inline.
pub(super) fn local(source: &Slice, inline: bool) -> (Option<Vec<u8>>, *mut u8) {
    let copy: Option<Vec<u8>> = inline.then(|| source.to_vec());
    let bytes: &[u8] = copy.as_deref().unwrap_or(source);
    let start = bytes.as_ptr().cast_mut();
    (copy, start)
}
