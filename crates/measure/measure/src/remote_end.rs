//! Ends of tests that agents play.

use overside_backends::agents::{ProbeError, RemoteProbe, probe};

use overside_probe::{Failure, FailureKind};

/// Makes the agent `node` play one end of a test of that kind.
pub(crate) fn open(node: &str, kind: &str) -> Result<RemoteProbe, Failure> {
    probe(node, kind).map_err(no_sample)
}

/// Converts an agent's error into the sample's failure. If the agent cannot play its end, the
/// sample is skipped; if the agent is lost or too late, the sample fails.
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
