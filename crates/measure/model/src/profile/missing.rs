//! Values that a profile lacks, and the steps that would measure them.

use serde::{Deserialize, Serialize};

use super::Profile;
use crate::{PARAMETERS, Parameter, Step};

/// A value that a profile lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Key of the value; for several of a kind, the pattern that matches them.
    pub key: String,
    /// Meaning of the value, in words.
    pub about: String,
    /// The step of `overside calibrate` that measures it on a card that one has.
    pub measured_by: Option<Step>,
}

/// Lists the values that `profile` lacks: optional ones of its device and operations, and
/// parameters that a step of `overside calibrate` measures.
pub(super) fn missing(profile: &Profile) -> Vec<Missing> {
    let mut all = Vec::new();
    if !profile.operations.is_empty() {
        device(profile, &mut all);
    }
    for one in PARAMETERS.iter().filter(|one| one.measured_by.is_some()) {
        let known = (profile.values.keys().chain(profile.tables.keys()))
            .any(|name| Parameter::of(name).is_some_and(|found| found.name == one.name));
        if !known {
            all.push(Missing {
                key: one.name.into(),
                about: one.about.into(),
                measured_by: one.measured_by,
            });
        }
    }
    all
}

fn device(profile: &Profile, all: &mut Vec<Missing>) {
    let mut absent = |key: String, about: &str, measured_by| {
        all.push(Missing { key, about: about.into(), measured_by });
    };
    let device = &profile.device;
    let jobs = Some(Step::Jobs);
    if device.engines.is_none() {
        let about = "engines that work at the same time; counted as one";
        absent("device.engines".into(), about, jobs);
    }
    if device.queue_depth.is_none() {
        absent("device.queue_depth".into(), "jobs that its queue holds", jobs);
    }
    if device.context_init.is_none() {
        let about = "initialising a context; counted as zero";
        absent("device.context_init".into(), about, Some(Step::Contexts));
    }
    if profile.reconfiguration.is_none() {
        let about = "ending one context so that another can begin; counted as zero";
        absent("reconfiguration".into(), about, Some(Step::Contexts));
    }
    if profile.link.to_device.is_none() {
        let about = "rate of the link to the device; counted as zero time";
        absent("link.to_device".into(), about, None);
    }
    if profile.link.from_device.is_none() {
        let about = "rate of the link from the device; counted as zero time";
        absent("link.from_device".into(), about, None);
    }
    for entry in &profile.operations {
        let key = entry.key();
        if entry.rate.is_none() && entry.patterns.is_empty() {
            absent(format!("{key}.rate"), "the engine's rate", jobs);
        }
        if entry.per_job.is_none() {
            let about = "the engine's cost of one job; counted as zero";
            absent(format!("{key}.per_job"), about, jobs);
        }
        if entry.latency.is_none() {
            let about = "from the doorbell to the engine and back; counted as zero";
            absent(format!("{key}.latency"), about, jobs);
        }
    }
}
