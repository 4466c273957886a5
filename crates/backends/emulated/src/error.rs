//! Why an emulated device says no, beyond what its capabilities say.

use overside_device::OpenError;

use crate::State;

/// The system did not give what a context needs.
pub(crate) fn failed(state: &State, error: impl std::fmt::Display) -> OpenError {
    OpenError::Failed {
        device: state.info.name.clone(),
        reason: error.to_string(),
    }
}
