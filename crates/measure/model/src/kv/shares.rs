//! Parts of a request as shares of a host core's time; Table 1 of study 003.

use super::Testbed;
use crate::{Evaluation, EvidenceLevel};

/// The parts of a request.
pub const PARTS: [&str; 5] = ["receive", "parse", "response", "getset", "others"];

/// The share that `part` takes of a host core's time in mix `mix` of YCSB, 0 to 1.
pub fn share(bed: &Testbed<'_, '_>, part: &str, mix: char) -> Evaluation {
    let of = |part: &str| bed.card(&format!("share.{part}.ycsb-{mix}"));
    of(part).or_else(|unknown| {
        // The parts make up the whole.
        let mut rest = 1.0;
        for other in PARTS.into_iter().filter(|other| *other != part) {
            rest -= of(other).map_err(|_| unknown.clone())?;
        }
        bed.weaken_evidence(EvidenceLevel::Card);
        if rest > 0.0 { Ok(rest) } else { Err(unknown) }
    })
}

/// The share that the communication engine takes: receiving, parsing and answering.
pub fn communication_share(bed: &Testbed<'_, '_>, mix: char) -> Evaluation {
    let mut sum = 0.0;
    for part in ["receive", "parse", "response"] {
        sum += share(bed, part, mix)?;
    }
    Ok(sum)
}
