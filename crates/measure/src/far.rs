//! Ends of tests that agents play.

use overside_backends::agents::{ProbeError, RemoteProbe, probe};

use crate::measuring::NoSample;
use crate::sample::{Failure, Kind};

/// Has the agent `node` play one end of a test of that kind.
pub(crate) fn open(node: &str, kind: &str) -> Result<RemoteProbe, NoSample> {
    probe(node, kind).map_err(no_sample)
}

/// What it means for a sample that an agent does not play its end.
pub(crate) fn no_sample(error: ProbeError) -> NoSample {
    let kind = match &error {
        ProbeError::Unknown(_) | ProbeError::Agent(_) | ProbeError::Refused { .. } => {
            return NoSample::Skipped(error.to_string());
        }
        ProbeError::Lost { .. } => Kind::Lost,
        ProbeError::Late { .. } => Kind::Timeout,
    };
    Failure::new(kind, error.to_string()).into()
}
