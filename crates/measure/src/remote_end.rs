//! Ends of tests that agents play.

use overside_backends::agents::{ProbeError, RemoteProbe, probe};

use overside_probe::{Failure, FailureKind};

/// Has the agent `node` play one end of a test of that kind.
pub(crate) fn open(node: &str, kind: &str) -> Result<RemoteProbe, Failure> {
    probe(node, kind).map_err(no_sample)
}

/// What it means for a sample that an agent does not play its end.
pub(crate) fn no_sample(error: ProbeError) -> Failure {
    let kind = match &error {
        ProbeError::Unknown(_)
        | ProbeError::Agent(_)
        | ProbeError::Release { .. }
        | ProbeError::Refused { .. } => {
            return Failure::unsupported(error.to_string());
        }
        ProbeError::Lost { .. } => FailureKind::Lost,
        ProbeError::Late { .. } => FailureKind::Timeout,
    };
    Failure::new(kind, error.to_string())
}
