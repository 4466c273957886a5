//! Advice on where each operation should run. It compares measured rates of this host with devices
//! that were measured with it, or that profiles describe.
//!
//! Each comparison is answered *yes*, *no* or *cannot tell*. A range of sizes gets the placement
//! that its comparisons support; unpublished figures are named with what to measure.

mod choose;
mod completion;
mod device;
mod pipeline;
mod published;
mod question;

use std::collections::{BTreeMap, BTreeSet};

use overside_ops::Operation;
use serde::Serialize;

use crate::{Answer, BreakEven, Interval, Prediction, Profile, Verdict, Workload};

pub(crate) use device::{RATES_FROM_BYTES, no_job_cost};

pub use completion::CompletionAdvice;
pub use pipeline::{Bottleneck, Costs, Plan, StagePlan, UnableCard, WorkloadAdvice};
pub use published::published_question;
pub use question::{
    CpuEvidence, CpuRate, DeviceRate, Host, MeasuredOperation, Question, QuestionError,
};

/// Advice on where each operation, and each stage of a workload, should run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// `"advice/1"`.
    pub schema: &'static str,
    /// Advice by operation, in the order of the question.
    pub operations: Vec<OperationAdvice>,
    /// Advice for a workload, if there was one: an entry for each device of the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadAdvice>,
    /// Statement and source of each fact that the advice rests on, by the fact's identifier.
    pub citations: BTreeMap<String, String>,
}

/// Advice for one operation, with each device that the question or a profile names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperationAdvice {
    /// Name of the operation, such as `compress-deflate`.
    pub operation: String,
    /// Name of the operation for display, such as `Compress to DEFLATE`.
    pub title: String,
    /// Devices that were measured first, then profiles.
    pub targets: Vec<TargetAdvice>,
}

/// Advice for one operation with one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TargetAdvice {
    /// A device's name, or a profile's.
    pub name: String,
    /// `measured`, or `modelled` from published facts.
    pub provenance: &'static str,
    /// The exact card, its link and the mode; empty for a device that was measured.
    pub card: String,
    /// Reason why the device cannot do the operation at all; `None` if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsupported: Option<String>,
    /// `true` if `unsupported` means that figures are unpublished: the card may support the operation.
    pub is_unpublished: bool,
    /// Advice by size, ascending; empty if the device cannot do this.
    pub ranges: Vec<RangeAdvice>,
    /// Buffer size from which the device is faster, one buffer at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pays_from: Option<BreakEven>,
    /// Break-even size if a context is set up for each buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pays_from_anew: Option<BreakEven>,
    /// Comparison of contexts that are kept and reused with contexts that are set up for each
    /// buffer. `None` if the operation is unsupported or only one of the two was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_contexts: Option<Comparison>,
    /// Advice on how to wait for the device. `None` if the operation is unsupported or only one way
    /// was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion: Option<CompletionAdvice>,
    /// Unpublished values that would affect this advice.
    pub missing: Vec<String>,
}

/// Advice for buffers of one range of sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RangeAdvice {
    /// Lower end of the range in bytes of the uncompressed side, inclusive.
    pub from_bytes: u64,
    /// Upper end of the range in bytes, exclusive; absent without an upper end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below_bytes: Option<u64>,
    /// `cpu`, `device`, `split:40` or `adaptive`.
    pub placement: String,
    /// Bytes of the chunks that it should be cut into.
    pub chunk_bytes: u64,
    /// The share of the bytes for the device that lets both sides end together; absent if the
    /// device's rate is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction: Option<Interval>,
    /// The CPU alone, in bytes of the uncompressed side a second.
    pub cpu_bytes_per_s: Interval,
    /// Library that reached that rate, such as `isal level 1`; empty if the question does not name
    /// it.
    pub cpu_library: String,
    /// Evidence for that rate: measured, scaled or published.
    pub cpu_evidence: CpuEvidence,
    /// The device alone.
    #[serde(serialize_with = "answer")]
    pub device_bytes_per_s: Answer,
    /// Upper bound on the rate of the device alone, for any value of unknown parameters; absent if there is
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_at_most_bytes_per_s: Option<f64>,
    /// The placement that is advised.
    #[serde(serialize_with = "answer")]
    pub throughput_bytes_per_s: Answer,
    /// Origin of that throughput: `measured` here, or `modelled`.
    pub provenance: &'static str,
    /// Ratio of the advised throughput to the throughput of the CPU alone.
    pub gain: Comparison,
    /// The share of the host's CPU time that this saves; below 0, it takes more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_cpu_saved: Option<Interval>,
    /// C1: is the device alone faster than the CPU alone?
    pub c1: Comparison,
    /// C2: is a split faster than either alone?
    pub c2: Comparison,
}

/// Comparison of two rates, times or costs: `true` if the first is better, with its certainty.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The answer.
    pub verdict: Verdict,
    /// `measured`, or `modelled`.
    pub provenance: &'static str,
    /// Ratio of the two, above 1 if the first is better; absent if it cannot be predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Interval>,
    /// Reason why the verdict is "cannot tell", or the bound that decides it; empty otherwise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Parameters that its doubt comes from, the most influential first: at most three.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dominated_by: Vec<String>,
    /// Facts that it rests on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<String>,
}

/// Advises where each measured operation should run, and each stage of the workload if there is
/// one.
///
/// # Errors
/// [`QuestionError`] if the question holds something that no run can have measured.
pub fn advise(
    question: &Question,
    profiles: &[Profile],
    workload: Option<&Workload>,
) -> Result<Advice, QuestionError> {
    question.check()?;
    let mut operations = Vec::new();
    for measured in &question.measured {
        let operation: Operation = measured.operation()?;
        let mut targets = choose::measured(question, measured);
        if operation.family().engine.is_some() {
            let modelled = profiles.iter();
            targets.extend(modelled.map(|one| choose::modelled(question, measured, one)));
        }
        operations.push(OperationAdvice {
            operation: measured.operation.clone(),
            title: measured.title.clone(),
            targets,
        });
    }
    let workload = workload.map(|workload| pipeline::advise(question, profiles, workload));
    let mut facts: BTreeSet<&str> = BTreeSet::new();
    for target in operations.iter().flat_map(|one| &one.targets) {
        facts.extend(target.facts());
    }
    facts.extend(workload.iter().flat_map(WorkloadAdvice::facts));
    let citations = (facts.into_iter())
        .filter_map(|fact| {
            let said = profiles.iter().find_map(|one| one.citation(fact));
            Some((
                fact.to_owned(),
                (said.or_else(|| completion::citation(fact)))
                    .or_else(|| published::citation(fact))?,
            ))
        })
        .collect();
    Ok(Advice { schema: "advice/1", operations, workload, citations })
}

impl TargetAdvice {
    /// Facts that it rests on.
    fn facts(&self) -> impl Iterator<Item = &str> {
        let ranges = self.ranges.iter().flat_map(|range| {
            let answers = [&range.device_bytes_per_s, &range.throughput_bytes_per_s];
            (answers.into_iter().flatten().flat_map(|one| &one.facts))
                .chain(&range.c1.facts)
                .chain(&range.c2.facts)
        });
        let keep = self.keep_contexts.iter().flat_map(|one| &one.facts);
        let completion = self.completion.iter().flat_map(|one| &one.facts);
        ranges.chain(keep).chain(completion).map(String::as_str)
    }
}

impl Comparison {
    /// Creates a comparison from a predicted ratio. Without a prediction the verdict is "cannot
    /// tell".
    pub(crate) fn of(answer: &Answer) -> Self {
        match answer {
            Ok(prediction) => Self {
                verdict: match prediction.interval {
                    // Equal is not better.
                    equal if equal == Interval::exactly(1.0) => Verdict::No,
                    ratio => Verdict::of(ratio),
                },
                provenance: "modelled",
                ratio: Some(prediction.interval),
                why: String::new(),
                dominated_by: dominating(prediction),
                facts: prediction.facts.clone(),
            },
            Err(none) => Self {
                verdict: Verdict::CannotTell,
                provenance: "modelled",
                ratio: None,
                why: none.to_string(),
                dominated_by: Vec::new(),
                facts: Vec::new(),
            },
        }
    }

    /// Compares two predictions of the same quantity; the ratio is `mine` over `other`, as questions
    /// compute it: a doubt that both share cancels.
    pub(crate) fn modelled(mine: &Answer, other: &Answer) -> Self {
        Self::of(&match (mine, other) {
            (Ok(mine), Ok(other)) => mine.over(other),
            (Err(none), _) | (_, Err(none)) => Err(none.clone()),
        })
    }

    /// Compares two measured figures; the ratio is `mine` over `other`.
    fn measured(mine: Interval, other: Interval) -> Self {
        let ratio = mine.over(other);
        Self {
            verdict: Verdict::of(ratio),
            provenance: "measured",
            ratio: Some(ratio),
            why: String::new(),
            dominated_by: Vec::new(),
            facts: Vec::new(),
        }
    }
}

/// The parameters that widen a prediction most.
fn dominating(prediction: &Prediction) -> Vec<String> {
    (prediction.influences.iter())
        .filter(|one| one.factor > 1.01)
        .take(3)
        .map(|one| one.parameter.clone())
        .collect()
}

/// Serializes an answer as JSON: the prediction, or the reason for having none.
fn answer<S: serde::Serializer>(answer: &Answer, serializer: S) -> Result<S::Ok, S::Error> {
    match answer {
        Ok(prediction) => prediction.serialize(serializer),
        Err(none) => none.serialize(serializer),
    }
}
