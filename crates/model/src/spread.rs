//! How far predictions lie from figures that were left out, by how near the evidence is.
//!
//! Written by `make model-figures`; a test computes it anew. `docs/model.md` says how.

/// Of predictions with [`crate::EvidenceLevel::Same`].
pub(crate) const SAME: f64 = 1.11;

/// Of predictions with [`crate::EvidenceLevel::Card`].
pub(crate) const CARD: f64 = 1.14;

/// Of predictions with [`crate::EvidenceLevel::Application`].
pub(crate) const APPLICATION: f64 = 1.5;
