//! Predictions that a profile makes for a sample's jobs.

use overside_model::{Interval, Profile};
use overside_probe::{Failure, FailureKind};

use crate::sample::Model;

/// Predicts the time of one job from a profile, and bounds of the nanoseconds a job with `depth` in flight.
pub(crate) fn predict(
    profile: &Profile,
    work: overside_model::Work,
    depth: usize,
) -> Result<(Model, Interval), Failure> {
    let cost = overside_model::cost(profile, &work)
        .map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
    let each_ns = cost.each_ns(profile, depth);
    let model = Model {
        low_ns: cost.low_ns,
        typ_ns: cost.typ_ns,
        high_ns: cost.high_ns,
        missing: cost.missing,
        facts: cost.facts,
    };
    Ok((model, each_ns))
}
