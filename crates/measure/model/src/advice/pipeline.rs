//! A whole workload: where each stage runs, how many cores and cards that takes, and its cost.

mod capacity;
mod evaluate;
mod plan;

use serde::Serialize;

use super::question::Question;
use super::{Comparison, answer};
use crate::{Answer, Interval, Profile, Verdict, Workload};

/// Plans for a workload: one on the CPU alone, and one with each device in the question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkloadAdvice {
    /// Name of the workload, from its file.
    pub name: String,
    /// Bytes a second that enter the pipeline.
    pub rate_bytes_per_s: Interval,
    /// Plans: first on the CPU alone, then with each device that can do any of its stages.
    pub plans: Vec<Plan>,
    /// The cards that do none.
    pub unable: Vec<UnableCard>,
}

/// A card that does none of a workload's stages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnableCard {
    /// The profile's name.
    pub name: String,
    /// Reasons why the card does none of the stages, joined by `; `.
    pub why: String,
}

/// The best placement of a workload's stages with one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// `cpu`, or the device's or the profile's name.
    pub name: String,
    /// `measured`, or `modelled` from published facts. Figures scaled to another rate or number of
    /// cores are modelled.
    pub provenance: &'static str,
    /// The exact card; empty for the CPU alone and for measured devices.
    pub card: String,
    /// Plans of the stages.
    pub stages: Vec<StagePlan>,
    /// Verdict on whether the plan carries the rate and is cheaper than the CPU alone, or without
    /// prices takes fewer of the host's cores; absent for the CPU alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_worth_it: Option<Verdict>,
    /// Cores of the host that it keeps busy.
    #[serde(serialize_with = "answer")]
    pub cores: Answer,
    /// Cards whose busiest part it keeps busy; absent without a device.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_answer")]
    pub cards: Option<Answer>,
    /// Whole cards that it needs: at least, typically, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole_cards: Option<[u64; 3]>,
    /// The most that the host and as many cards as `whole_cards` has at most carry, in bytes a second
    /// that enter; absent without a device, and where nothing is limited.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_answer")]
    pub whole_cards_carry_bytes_per_s: Option<Answer>,
    /// The most that the cores, the cards and the network that there are carry, however the stages
    /// are placed, in bytes a second that enter. It does not depend on the rate that is wanted;
    /// absent where nothing is limited.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_answer")]
    pub carries_bytes_per_s: Option<Answer>,
    /// Verdict on whether the plan carries the rate that is wanted.
    pub enough: Verdict,
    /// Resource or stage that limits the plan first.
    pub bottleneck: Bottleneck,
    /// Comparison of the host's cores that the plan takes with those of the CPU alone: "yes" means
    /// fewer. Absent if no stage is on a card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fewer_cores: Option<Comparison>,
    /// Cost per hour; absent if the workload has no prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
    /// Values that are neither published nor measured and that would affect this plan.
    pub missing: Vec<String>,
}

/// Placement of one stage, with its rates and the cores that it takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StagePlan {
    /// Task of the stage, such as `decompress-lz4-block` or `send`.
    #[serde(rename = "do")]
    pub task: String,
    /// `cpu`, `device`, `split:40`, or `network`.
    pub placement: String,
    /// Bytes a second that enter the stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enters_bytes_per_s: Option<Interval>,
    /// Rate of one core, in bytes of the uncompressed side a second; absent if not needed or not
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_bytes_per_s: Option<Interval>,
    /// Rate of one card, in bytes of the uncompressed side a second; absent if not known.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_answer")]
    pub device_bytes_per_s: Option<Answer>,
    /// Cores that it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<Interval>,
    /// Library and level that the rate of a core is of, such as `libdeflate level 1`; empty where
    /// it is not named.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub library: String,
    /// The card does it, but how fast is not known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_rate_unknown: bool,
    /// Reason why the stage is not on the device, unless the reason is that the CPU is better.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Resource or stage that limits a plan first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bottleneck {
    /// `cores`, `cards`, `network`, or a stage, as in `stage 2, match-bitmap`.
    pub what: String,
    /// Share of the resource that is used, or the stage's share of the cores where nothing is
    /// limited: 1 is all. Absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Interval>,
}

/// Cost of a plan, in the currency of the workload's prices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// Currency of the prices, such as `EUR`.
    pub currency: String,
    /// Cost for an hour.
    #[serde(serialize_with = "answer")]
    pub per_hour: Answer,
    /// Resources without a price, for which the cost is a lower bound.
    pub incomplete: Vec<String>,
    /// Comparison of the cost with that of the CPU alone: "yes" means cheaper. Absent if no stage
    /// is on a card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cheaper: Option<Comparison>,
}

fn some_answer<S: serde::Serializer>(
    value: &Option<Answer>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => answer(value, serializer),
        None => serializer.serialize_none(),
    }
}

/// The best plan on the CPU alone, and with each device.
pub(super) fn advise(
    question: &Question,
    profiles: &[Profile],
    workload: &Workload,
) -> WorkloadAdvice {
    let alone = plan::best(question, workload, &plan::Candidate::Nothing, None);
    let mut devices: Vec<&str> = (question.measured.iter())
        .flat_map(|one| one.devices.iter().map(|rate| rate.device.as_str()))
        .collect();
    devices.sort_unstable();
    devices.dedup();
    let mut able = Vec::new();
    let mut unable = Vec::new();
    for profile in profiles {
        match why_unable(profile, workload) {
            Some(why) => unable.push(UnableCard { name: profile.name.clone(), why }),
            None => able.push(plan::Candidate::Profile(profile)),
        }
    }
    let with = (devices.into_iter().map(plan::Candidate::Device)).chain(able);
    let mut plans = vec![alone];
    for one in with {
        let plan = plan::best(question, workload, &one, plans.first());
        plans.push(plan);
    }
    WorkloadAdvice {
        name: workload.name.clone(),
        rate_bytes_per_s: workload.rate_bytes_per_s,
        plans,
        unable,
    }
}

/// Returns the reasons why a card does none of the stages; `None` if it does at least one.
fn why_unable(profile: &Profile, workload: &Workload) -> Option<String> {
    let mut reasons = Vec::new();
    for stage in &workload.stages {
        let crate::Task::Run(operation) = stage.task else {
            continue;
        };
        if operation.family().engine.is_none() {
            continue;
        }
        match profile.able(operation) {
            Ok(_) => return None,
            Err(why) => reasons.push(why.to_string()),
        }
    }
    reasons.dedup();
    if reasons.is_empty() {
        reasons.push("no engine of a card does any of its stages".into());
    }
    Some(reasons.join("; "))
}

impl WorkloadAdvice {
    /// Facts that it rests on.
    pub(super) fn facts(&self) -> impl Iterator<Item = &str> {
        let answers = self.plans.iter().flat_map(|plan| {
            let stages = plan.stages.iter().filter_map(|one| one.device_bytes_per_s.as_ref());
            [&plan.cores].into_iter().chain(&plan.cards).chain(stages)
        });
        answers.flatten().flat_map(|one| &one.facts).map(String::as_str)
    }
}
