//! A whole workload: where each stage runs, how many cores and cards that takes, and what it costs.

mod capacity;
mod evaluate;
mod plan;

use serde::Serialize;

use super::question::Question;
use super::{Comparison, answer};
use crate::{Answer, Interval, Profile, Verdict, Workload};

/// What a workload needs with each of the devices that were asked about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkloadAdvice {
    /// Its name.
    pub name: String,
    /// Bytes a second that enter it.
    pub rate_bytes_per_s: Interval,
    /// On the CPU alone first, then with each device that does any of its stages.
    pub plans: Vec<Plan>,
    /// The cards that do none.
    pub unable: Vec<UnableCard>,
}

/// A card that does none of a workload's stages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnableCard {
    /// The profile's name.
    pub name: String,
    /// Why, stage by stage.
    pub why: String,
}

/// The best placement of a workload's stages with one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// `cpu`, or the device's or the profile's name.
    pub name: String,
    /// `measured`, or `modelled` from published facts. What is scaled to another rate or number of
    /// cores is modelled.
    pub provenance: &'static str,
    /// The exact card; empty for the CPU alone and what was measured.
    pub card: String,
    /// By stage.
    pub stages: Vec<StagePlan>,
    /// Whether it carries the rate and is cheaper than the CPU alone, or without prices takes fewer
    /// of the host's cores; absent of the CPU alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_worth_it: Option<Verdict>,
    /// Cores of the host that it keeps busy.
    #[serde(serialize_with = "answer")]
    pub cores: Answer,
    /// Cards whose busiest part it keeps busy; absent without a device.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "some_answer"
    )]
    pub cards: Option<Answer>,
    /// Whole cards that it needs: at least, typically, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole_cards: Option<[u64; 3]>,
    /// The most that the cores, the cards and the network that there are carry, however the stages
    /// are placed, in bytes a second that enter. It does not depend on the rate that is wanted;
    /// absent where nothing is limited.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "some_answer"
    )]
    pub carries_bytes_per_s: Option<Answer>,
    /// Whether that is the rate that is wanted.
    pub enough: Verdict,
    /// What limits it first.
    pub bottleneck: Bottleneck,
    /// Whether it takes fewer of the host's cores than the CPU alone; absent if no stage is on a
    /// card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fewer_cores: Option<Comparison>,
    /// What it costs, if there are prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
    /// What nobody has published or measured that bears on this.
    pub missing: Vec<String>,
}

/// What is done with one stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StagePlan {
    /// As in `decompress-lz4-block`, or `send`.
    #[serde(rename = "do")]
    pub task: String,
    /// `cpu`, `device`, `split:40`, or `network`.
    pub placement: String,
    /// Bytes a second that enter it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enters_bytes_per_s: Option<Interval>,
    /// What one core does, in bytes of the uncompressed side a second; absent if not needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_bytes_per_s: Option<Interval>,
    /// What one card does.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "some_answer"
    )]
    pub device_bytes_per_s: Option<Answer>,
    /// Cores that it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<Interval>,
    /// The card does it, but how fast is not known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_rate_unknown: bool,
    /// Why it is not on the device, where that is not because the CPU is better.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// What limits a plan first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bottleneck {
    /// `cores`, `cards`, `network`, or a stage, as in `stage 2, match-bitmap`.
    pub what: String,
    /// How much of it is used where there is a limit, else its share of the cores: 1 is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Interval>,
}

/// What a plan costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// Of the prices.
    pub currency: String,
    /// An hour.
    #[serde(serialize_with = "answer")]
    pub per_hour: Answer,
    /// The least: nothing was given for some of what it takes.
    pub incomplete: Vec<String>,
    /// Whether it is cheaper than the CPU alone; absent if no stage is on a card.
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
            Some(why) => unable.push(UnableCard {
                name: profile.name.clone(),
                why,
            }),
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

/// Why a card does none of the stages; `None` if it does any.
fn why_unable(profile: &Profile, workload: &Workload) -> Option<String> {
    let mut reasons = Vec::new();
    for stage in &workload.stages {
        let crate::Task::Run(operation) = stage.task else {
            continue;
        };
        if !super::uses_engines(operation) {
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
            let stages = plan
                .stages
                .iter()
                .filter_map(|one| one.device_bytes_per_s.as_ref());
            [&plan.cores].into_iter().chain(&plan.cards).chain(stages)
        });
        answers
            .flatten()
            .flat_map(|one| &one.facts)
            .map(String::as_str)
    }
}
