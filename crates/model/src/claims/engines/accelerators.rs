//! Claims on an engine against all threads of a CPU, as published in ratios by data size.

use super::about::{Codec, Way, bytes_in, is_ratio};
use super::{Claim, claimed};
use crate::facts::Figure;
use crate::{EvidenceLevel, NoPrediction, ParameterValue};

/// Far below the sizes that were published, by this factor, the start of an engine decides.
const START_UP_COUNTS: f64 = 10.0;

fn start_up() -> NoPrediction {
    NoPrediction {
        why: "no published fact gives the time that an engine takes to start".into(),
        remedy: "measure it with `overside calibrate` on such a card".into(),
    }
}

/// Claims such ratios. What depends on an engine's start-up has no prediction: nobody published
/// that in units of time.
pub(super) fn claim(figure: &Figure<'_>) -> Option<Claim> {
    let metric = figure.fact.metric.to_lowercase();
    if metric.contains("below") || metric.contains("from") || metric.contains("start") {
        return claimed(figure, |_| Err(start_up()));
    }
    if !is_ratio(figure) {
        return None;
    }
    let bytes = bytes_in(&metric).or_else(|| bytes_in(&figure.fact.conditions))?;
    let against = match figure.path.last() {
        Some(key) => key.to_lowercase(),
        None => figure.fact.device.to_lowercase(),
    };
    let own = if against.contains("host") { "" } else { ".own" };
    let profile = if against.contains("bf-3") {
        "bf3"
    } else {
        "bf2"
    };
    let stem = if figure.fact.workload.contains("regex") {
        "codec.regex.slowdown".to_owned()
    } else {
        let codec = Codec::of(&figure.fact.workload)?;
        let way = Way::of(&figure.fact.workload)?;
        format!("codec.{}.{}.speedup", codec.name(), way.name())
    };
    let name = format!("{stem}{own}");
    claimed(figure, move |library| {
        let profile = library.profile(profile).map(crate::Profile::evidence);
        let evidence = profile.unwrap_or_default();
        let at: &[f64] = match evidence.get(&name) {
            Some(ParameterValue::Table(table)) => &table.at,
            _ => &[],
        };
        if at
            .first()
            .is_some_and(|least| bytes * START_UP_COUNTS < *least)
        {
            return Err(start_up());
        }
        let closeness = if at.contains(&bytes) {
            EvidenceLevel::Same
        } else {
            EvidenceLevel::Card
        };
        evidence.predict(closeness, |values| values.at(&name, bytes))
    })
}
