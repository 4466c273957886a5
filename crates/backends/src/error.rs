//! Why a name does not become a device.

/// A device that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No device is called that.
    #[error("no device is called {name:?}{}; there are: {known}", hint(.suggestion))]
    Unknown {
        /// What was asked for.
        name: String,
        /// A name that is like it.
        suggestion: Option<String>,
        /// The names there are, separated by commas.
        known: String,
    },
    /// The name of a card. A card and its emulation must never be confused.
    #[error("{name:?} is a card, not a device; did you mean {suggestion:?}, its emulation?")]
    BareCard {
        /// What was asked for.
        name: String,
        /// The emulation of it.
        suggestion: String,
    },
    /// There is such a device, but it cannot be used here.
    #[error("{name} is not available: {reason}")]
    Unavailable {
        /// What was asked for.
        name: String,
        /// Why.
        reason: String,
    },
}

fn hint(suggestion: &Option<String>) -> String {
    suggestion
        .as_ref()
        .map_or_else(String::new, |name| format!(", did you mean {name:?}?"))
}
