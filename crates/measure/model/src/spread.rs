//! Errors of predictions of figures that were left out, by the closeness of the evidence.
//!
//! Written by `make model-figures`; a test recomputes them. `docs/measure/model.md` says how.

/// Factor by which predictions with [`crate::EvidenceLevel::Same`] are widened.
pub(crate) const SAME: f64 = 1.11;

/// Factor by which predictions with [`crate::EvidenceLevel::Card`] are widened.
pub(crate) const CARD: f64 = 1.14;

/// Factor by which predictions with [`crate::EvidenceLevel::Application`] are widened.
pub(crate) const APPLICATION: f64 = 1.5;
