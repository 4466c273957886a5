//! Checks of work that are the same for all transports.

use overside_device::{DeviceId, MemoryKind, Registration};

use super::capabilities::Capabilities;
use super::error::Refusal;
use super::memory::{EndpointId, RemoteSlice};
use super::work::{Verb, Work};

impl Capabilities {
    /// Checks that a queue pair of this endpoint can take the work. `device` is the device that its
    /// registered memory must be registered with.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn check(
        &self,
        work: &Work,
        endpoint: EndpointId,
        device: DeviceId,
    ) -> Result<(), Refusal> {
        let (verb, len) = (work.verb.name(), work.verb.len());
        let (limits, remote, registration) = match &work.verb {
            Verb::Read { from, into } => (&self.read, Some(from), into.registration()),
            Verb::ReadShared { from, .. } => (&self.read, Some(from), None),
            Verb::Write { from, to } => (&self.write, Some(to), from.registration()),
            Verb::Send { from } => (&self.send, None, from.registration()),
            Verb::Receive { into } => (&self.send, None, into.registration()),
        };
        check_len(verb, len, limits.max_bytes)?;
        if let Some(remote) = remote {
            check_remote(&work.verb, len, remote, endpoint)?;
        }
        let fetches =
            matches!(work.verb, Verb::Read { .. } | Verb::ReadShared { .. } | Verb::Receive { .. });
        if work.inline && fetches {
            return Err(Refusal::Unsupported("read or receive inline"));
        }
        if work.inline && len > self.max_inline_bytes {
            return Err(Refusal::NotInline { len, max: self.max_inline_bytes });
        }
        let registered = |by: &Registration| by.device == device;
        // What is exported is registered.
        let exported = matches!(work.verb, Verb::ReadShared { .. });
        let reached = work.inline || exported || registration.is_some_and(registered);
        if self.memory == MemoryKind::Registered && !reached {
            return Err(Refusal::Unregistered);
        }
        Ok(())
    }
}

fn check_len(verb: &'static str, len: u64, max: u64) -> Result<(), Refusal> {
    if len == 0 {
        return Err(Refusal::Empty(verb));
    }
    // Memory that waits for a message may be longer than any.
    if len > max && verb != "receive" {
        return Err(Refusal::TooLong { verb, len, max });
    }
    Ok(())
}

fn check_remote(
    verb: &Verb,
    local: u64,
    remote: &RemoteSlice,
    endpoint: EndpointId,
) -> Result<(), Refusal> {
    let access = remote.remote().access();
    let refused = match verb {
        Verb::Read { .. } | Verb::ReadShared { .. } if !access.reads() => Some("read"),
        Verb::Write { .. } if !access.writes() => Some("written"),
        _ => None,
    };
    if remote.remote().endpoint() != endpoint {
        return Err(Refusal::OtherLink);
    }
    if let Some(refused) = refused {
        return Err(Refusal::Access(refused));
    }
    if remote.len() != local {
        return Err(Refusal::Lengths { local, remote: remote.len() });
    }
    Ok(())
}
