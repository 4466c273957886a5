//! Storage: rates and latencies by the size of an access.

use crate::lookup::{Coverage, coverage, points};
use crate::{Answer, Evidence, EvidenceLevel, Library, MissingParameter, Quantity, Unit, Values};

/// Size in bytes from which a device is as fast at random as in order, and one access at a time keeps it
/// busy.
const LARGE_BYTES: f64 = 262_144.0;

/// Parameter for a device's rate at accesses of one size, and the size at which it is read.
#[derive(Clone, Debug)]
struct Rate {
    parameter: String,
    bytes: f64,
    closeness: EvidenceLevel,
}

impl Rate {
    /// Large accesses are as fast at random as in order (nearly, where they write), and as fast as
    /// larger ones.
    fn of(evidence: &Evidence, machine: &str, access: &str, bytes: f64) -> Option<Self> {
        let found = |access: &str, closeness| {
            let parameter = format!("{machine}/storage.{access}");
            (coverage(evidence, &parameter, bytes) == Some(Coverage::Given)).then_some(Self {
                parameter,
                bytes,
                closeness,
            })
        };
        if let Some(rate) = found(access, EvidenceLevel::Same) {
            return Some(rate);
        }
        let (order, direction) = access.split_once('-')?;
        let other = if order == "random" { "sequential" } else { "random" };
        let near =
            if direction == "read" { EvidenceLevel::Card } else { EvidenceLevel::Application };
        if bytes < LARGE_BYTES {
            return None;
        }
        if let Some(rate) = found(&format!("{other}-{direction}"), near) {
            return Some(rate);
        }
        let parameter = format!("{machine}/storage.{access}");
        let large = points(evidence, &parameter).into_iter().map(|(at, _)| at);
        let nearest = (large.filter(|at| *at >= LARGE_BYTES))
            .min_by(|a, b| (a / bytes).ln().abs().total_cmp(&(b / bytes).ln().abs()))?;
        Some(Self { parameter, bytes: nearest, closeness: near })
    }

    fn value(&self, values: &Values<'_>) -> Result<f64, MissingParameter> {
        values.at(&self.parameter, self.bytes)
    }
}

fn unknown(what: &str) -> Answer {
    super::unknown(what, "it with fio")
}

/// Bytes a second, with as many accesses at once as it takes.
pub(crate) fn rate(library: &Library, machine: &str, access: &str, bytes: f64) -> Answer {
    let evidence = library.evidence(&[machine]);
    match Rate::of(&evidence, machine, access, bytes) {
        Some(rate) => evidence.predict(rate.closeness, |v| rate.value(v)),
        None => unknown(&format!("{access} of {bytes} bytes on {machine}")),
    }
}

/// Nanoseconds of a single access, mean or at a percentile; a large one reaches the device's full
/// rate.
///
/// No percentile was published. A device's times vary between not at all, where each percentile is
/// the mean, and as those of a memoryless server, whose share `q` is below `-ln(1 - q)` means.
pub(crate) fn latency(
    library: &Library,
    machine: &str,
    access: &str,
    bytes: f64,
    percentile: Option<f64>,
) -> Answer {
    const OVER_MEAN: &str = "storage.percentile-over-mean";
    let mut evidence = library.evidence(&[machine]);
    let memoryless = percentile.map_or(1.0, |share| -(1.0 - share).ln());
    let (low, high) = (memoryless.min(1.0), memoryless.max(1.0));
    match Rate::of(&evidence, machine, access, bytes).filter(|_| bytes >= LARGE_BYTES) {
        Some(rate) => {
            evidence.insert(OVER_MEAN, Quantity::range(low, high, Unit::Count));
            evidence.predict(EvidenceLevel::Application, |v| {
                let over_mean = if percentile.is_some() { v.get(OVER_MEAN)? } else { 1.0 };
                Ok(bytes / rate.value(v)? * 1e9 * over_mean)
            })
        }
        None => unknown(&format!("the latency of one {access} of {bytes} bytes on {machine}")),
    }
}
