//! Predicted change from a device against a measured CPU.

use std::collections::BTreeMap;

use overside_ops::{Lengths, Operation};
use serde::{Deserialize, Serialize};

use crate::codec::break_even_bytes;
use crate::{
    Cost, CostError, Interval, OperationProfile, Profile, Quantity, Setting, Span, Sweep, Work,
    cost,
};

/// Measured rate of a CPU, to be compared with a device.
#[derive(Clone, Debug, PartialEq)]
pub struct OutlookQuestion {
    /// Operation that is done on the buffer.
    pub operation: Operation,
    /// Regular expressions; matching only.
    pub patterns: Vec<String>,
    /// Lifetime of the device's context: reused, or set up for each buffer.
    pub setting: Setting,
    /// The CPU's rate in bytes of the uncompressed side a second, taken as the same for all sizes.
    pub cpu_rate_bytes_per_s: f64,
    /// Compressed bytes / uncompressed bytes; 1 for matching.
    pub ratio: f64,
}

/// A size in bytes of the uncompressed side from which the device is faster than the CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum BreakEven {
    /// No fact supports a prediction.
    None {
        /// Terms that would have to be known.
        missing: Vec<String>,
    },
    /// The device becomes faster at a size between two bounds.
    Range {
        /// Size in bytes below which the device is not faster.
        low_bytes: u64,
        /// Size in bytes from which on the device is certainly faster.
        high_bytes: u64,
    },
    /// The device is not faster below a size: unknown costs can only make it slower. The break-even
    /// size is unknown.
    NotBelow {
        /// The size.
        bytes: u64,
        /// Terms that would have to be known for an upper end.
        missing: Vec<String>,
    },
    /// The device is never faster at the sizes that it takes.
    Never {
        /// Reason, in words.
        reason: String,
    },
}

impl BreakEven {
    /// Against a CPU that is anything from as slow as in `slow` to as fast as in `fast`.
    pub(crate) fn between(slow: &Outlook, fast: &Outlook) -> Self {
        match (&slow.break_even, &fast.break_even) {
            (Self::Range { low_bytes, .. }, Self::Range { high_bytes, .. }) => {
                Self::Range { low_bytes: *low_bytes, high_bytes: *high_bytes }
            }
            (Self::Range { low_bytes, .. }, _) => {
                Self::NotBelow { bytes: *low_bytes, missing: Vec::new() }
            }
            (other, _) => other.clone(),
        }
    }

    /// Adds a size from which measured whole jobs are faster, for use if the known terms give none.
    fn at_the_latest(self, bytes: u64) -> Self {
        let low_bytes = match self {
            Self::None { .. } => 0,
            Self::NotBelow { bytes, .. } => bytes,
            known => return known,
        };
        Self::Range { low_bytes: low_bytes.min(bytes), high_bytes: bytes }
    }
}

/// Predicted change from a device, modelled from published facts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outlook {
    /// The profile's name.
    pub profile: String,
    /// The card, its link and the mode, for people.
    pub card: String,
    /// The card's link to the host.
    pub host_link: String,
    /// Machine that submits jobs, and the software that it uses.
    pub mode: String,
    /// The operation, as in `compress-deflate`.
    pub operation: String,
    /// The setting.
    pub setting: Setting,
    /// The CPU's rate that was given.
    pub cpu_rate_bytes_per_s: f64,
    /// The longest buffer that the device takes, in bytes of the uncompressed side.
    pub max_buffer_bytes: u64,
    /// The device's rate in bytes of the uncompressed side a second: `low` and `typ` with buffers
    /// of that length, `high` with those of any length that a rate was published for. Many are in
    /// flight in the static setting, one after the other in the reconfiguration setting.
    pub device_rate_bytes_per_s: Interval,
    /// Ratio of that rate to the CPU's. If `missing` is not empty, `low` and `typ` are not certain.
    pub speedup: Interval,
    /// `true` if `speedup.high` is an upper bound: the number of engines is known, so no other engine can add
    /// to it, and so is the rate, which is unknown for a user's own patterns.
    pub bounded: bool,
    /// Buffer size from which the device is faster, one buffer at a time.
    pub break_even: BreakEven,
    /// Terms without a fact; they count as zero, or stand at their published limit.
    pub missing: Vec<String>,
    /// The facts that it rests on.
    pub facts: Vec<String>,
    /// Statement and source of each fact, by the fact's identifier.
    pub citations: BTreeMap<String, String>,
    /// Notes that a reader of the profile needs.
    pub notes: Vec<String>,
}

/// Predicts the effect of a device against a measured CPU.
///
/// # Errors
/// [`CostError::Unsupported`]; [`CostError::NotPositive`] for the CPU's rate or the ratio.
pub fn outlook(profile: &Profile, question: &OutlookQuestion) -> Result<Outlook, CostError> {
    let positive = |what, value: f64| {
        let sensible = value.is_finite() && value > 0.0;
        if sensible { Ok(()) } else { Err(CostError::NotPositive { what, value }) }
    };
    positive("the CPU's rate", question.cpu_rate_bytes_per_s)?;
    positive("the ratio", question.ratio)?;
    let entry = profile.able(question.operation)?;
    let longest = longest(entry, question.operation, question.ratio);
    let work = work(entry, question, longest);
    let certain = entry.patterns.is_empty() || entry.pattern(&question.patterns).is_some();
    let whole = cost(profile, &work)?;
    let mut costs = Vec::new();
    for bytes in published_sizes(entry, &question.patterns, longest) {
        let shorter = Work { source_bytes: bytes, ..work.clone() };
        costs.push((bytes, cost(profile, &shorter)?));
    }
    costs.push((longest, whole.clone()));
    let engines = profile.device.engines.as_ref();
    let engines = engines.map_or(Interval::exactly(1.0), Quantity::interval);
    let rate_with = |bytes: u64, cost: &Cost| {
        match question.setting {
            Setting::Static => cost.sustained_ns(engines),
            Setting::Reconfiguration => cost.span().interval(),
        }
        .divide(bytes as f64 * 1e9)
    };
    let mut rate = rate_with(longest, &whole);
    for (bytes, cost) in &costs {
        rate.high = rate.high.max(rate_with(*bytes, cost).high);
    }
    // One after the other, jobs keep one engine busy however many there are.
    let engines_known = profile.device.engines.is_some();
    let bounded = certain && (engines_known || question.setting == Setting::Reconfiguration);
    let mut facts = whole.facts;
    let mut break_even = break_even(&costs, question, certain);
    if let Some(sweep) = &entry.one_at_a_time
        && question.setting == Setting::Static
        && let Some(bytes) = faster_from(sweep, entry, question, longest)
    {
        break_even = break_even.at_the_latest(bytes);
        let missing = sweep.facts.iter().filter(|fact| !facts.contains(fact));
        let missing: Vec<String> = missing.cloned().collect();
        facts.extend(missing);
    }
    let citations =
        (facts.iter()).filter_map(|fact| Some((fact.clone(), profile.citation(fact)?))).collect();
    Ok(Outlook {
        profile: profile.name.clone(),
        card: profile.card.clone(),
        host_link: profile.host_link.clone(),
        mode: profile.mode.clone(),
        operation: question.operation.to_string(),
        setting: question.setting,
        cpu_rate_bytes_per_s: question.cpu_rate_bytes_per_s,
        max_buffer_bytes: longest,
        device_rate_bytes_per_s: rate,
        speedup: rate.scale(1.0 / question.cpu_rate_bytes_per_s),
        bounded,
        break_even,
        missing: whole.missing,
        facts,
        citations,
        notes: profile.notes.clone(),
    })
}

/// The longest buffer that fits on both sides, in bytes of the uncompressed side.
pub(crate) fn longest(entry: &OperationProfile, operation: Operation, ratio: f64) -> u64 {
    let (source, destination) = (entry.max_source_bytes(), entry.max_destination_bytes());
    (operation.uncompressed_bytes_max(source, destination, ratio)).max(1)
}

/// One job with a buffer of that length.
fn work(entry: &OperationProfile, question: &OutlookQuestion, bytes: u64) -> Work {
    let (source, destination) = question.operation.job_bytes(bytes, question.ratio);
    let source = source.min(entry.max_source_bytes());
    let destination = destination.min(entry.max_destination_bytes());
    Work {
        patterns: question.patterns.clone(),
        setting: question.setting,
        ..Work::new(question.operation, source, destination)
    }
}

/// The sizes shorter than `longest` at which the engine's rate for these patterns was published.
/// Between two of them it lies between theirs.
fn published_sizes(entry: &OperationProfile, patterns: &[String], longest: u64) -> Vec<u64> {
    let candidates = match entry.pattern(patterns) {
        Some(one) => std::slice::from_ref(one),
        None => &entry.patterns,
    };
    let mut sizes: Vec<u64> = (candidates.iter())
        .filter_map(|one| one.sweep.as_ref())
        .flat_map(|sweep| sweep.source_bytes.iter().copied())
        .filter(|size| *size < longest)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Number of sizes between the shortest and the longest that are compared.
const STEPS: u32 = 512;

/// The size in bytes of the uncompressed side from which on one job at a time, as it was measured
/// whole, is faster than the CPU.
fn faster_from(
    sweep: &Sweep,
    entry: &OperationProfile,
    question: &OutlookQuestion,
    longest: u64,
) -> Option<u64> {
    let shortest = match question.operation.lengths() {
        Lengths::Expands => sweep.source_bytes[0] as f64 / question.ratio,
        _ => sweep.source_bytes[0] as f64,
    };
    let step = (longest as f64 / shortest).powf(1.0 / f64::from(STEPS));
    let sizes = (0..=STEPS).map(|at| (shortest * step.powi(at as i32)).round() as u64);
    let is_faster = |bytes: &u64| {
        let job = work(entry, question, *bytes);
        // The rates count the side that is the source.
        let (longest_ns, is_limit) = sweep.time_ns(job.source_bytes);
        let cpu_ns = *bytes as f64 * 1e9 / question.cpu_rate_bytes_per_s;
        !is_limit && longest_ns.high < cpu_ns
    };
    sizes.rev().take_while(is_faster).last()
}

/// The size where the CPU's straight line crosses the device's, which starts higher and rises
/// more slowly. `costs` has the published sizes, in ascending order, and the longest. The engine's
/// rate is `certain` unless other patterns than ours were published.
fn break_even(costs: &[(u64, Cost)], question: &OutlookQuestion, certain: bool) -> BreakEven {
    let Some((longest, whole)) = costs.last() else {
        return BreakEven::None { missing: Vec::new() };
    };
    let parts = &whole.parts;
    let fixed = [parts.reconfiguration, parts.context_init, parts.latency, parts.per_job];
    let total = Span::sum(fixed).interval();
    let (fixed_low, fixed_high) = (total.low, total.high);
    // Nanoseconds a byte beside the fixed costs: the least and the most at any of the sizes.
    let (best, worst) = if certain {
        let best = |(bytes, cost): &(u64, Cost)| (cost.low_ns as f64 - fixed_low) / *bytes as f64;
        let worst =
            |(bytes, cost): &(u64, Cost)| (cost.high_ns as f64 - fixed_high) / *bytes as f64;
        (
            costs.iter().map(best).fold(f64::INFINITY, f64::min),
            costs.iter().map(worst).fold(0.0, f64::max),
        )
    } else {
        // A pattern of one's own may be faster or slower than all published ones.
        (0.0, f64::INFINITY)
    };
    let bytes = *longest as f64;
    let cpu_ns = 1e9 / question.cpu_rate_bytes_per_s;
    let Some(at_least) = break_even_bytes(fixed_low, best, cpu_ns) else {
        return BreakEven::Never {
            reason: "the device is slower than this CPU even without its fixed costs".into(),
        };
    };
    if at_least > bytes {
        return BreakEven::Never {
            reason: format!(
                "it would take buffers of {at_least:.0} bytes and the device takes {bytes}"
            ),
        };
    }
    let missing = whole.missing.clone();
    if fixed_low == 0.0 && !missing.is_empty() {
        return BreakEven::None { missing };
    }
    // What is shorter than the shortest size of several takes as long as that.
    let shortest = match costs {
        [(shortest, _), _, ..] => *shortest as f64,
        _ => 0.0,
    };
    let at_most = break_even_bytes(fixed_high, worst, cpu_ns).map(|at| at.ceil().max(shortest));
    match at_most.filter(|at| missing.is_empty() && *at <= bytes) {
        Some(at_most) => {
            BreakEven::Range { low_bytes: at_least as u64, high_bytes: at_most as u64 }
        }
        None => BreakEven::NotBelow { bytes: at_least as u64, missing },
    }
}
