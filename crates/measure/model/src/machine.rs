//! Performance of a machine by itself: arithmetic, strings and hashes on its cores, memory,
//! storage.

pub(crate) mod compute;
pub(crate) mod memory;
pub(crate) mod storage;

use crate::{Answer, EvidenceLevel, Library, NoPrediction, ParameterValue, Prediction};

/// Profiles of a study's machines between which ratios were published, and their words in the names of
/// parameters.
const RATIOS: [(&str, &str); 4] =
    [("bf1", "bf1"), ("bf2-200g", "bf2"), ("bf3-8c", "bf3"), ("host-idio", "host")];

fn unknown(what: &str, how: &str) -> Answer {
    Err(NoPrediction {
        why: format!("no published fact gives {what}, or comes near"),
        remedy: format!("measure {how} on such a machine"),
    })
}

/// A figure that a profile gives as it is: between its ends if it is a range.
pub(crate) fn given(library: &Library, profile: &str, name: &str) -> Answer {
    let evidence = library.evidence(&[profile]);
    let name = format!("{profile}/{name}");
    let known = evidence.get(&name).cloned();
    let answer = evidence.predict(EvidenceLevel::Same, |values| values.get(&name));
    match known {
        Some(ParameterValue::Quantity(range)) if range.low.is_some() && range.value.is_none() => {
            answer.map(|prediction| Prediction { interval: range.interval(), ..prediction })
        }
        _ => answer,
    }
}
