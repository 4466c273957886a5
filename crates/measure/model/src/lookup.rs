//! Look-up of parameters: checks that a table covers the requested point, and computes ratios
//! between machines.

use crate::{Evaluation, Evidence, ParameterValue, Values};

/// Way in which a parameter covers the point that is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Coverage {
    /// The user gave the value, for this place or for all.
    Given,
    /// Ratio between two points.
    Between(f64),
    /// Beyond the last point or before the first.
    Beyond,
}

/// Returns how `name` covers `x`; `None` if the parameter is not known at all.
pub(crate) fn coverage(evidence: &Evidence, name: &str, x: f64) -> Option<Coverage> {
    let ParameterValue::Table(table) = evidence.get(name)? else {
        return Some(Coverage::Given);
    };
    let after = table.at.partition_point(|at| *at < x);
    Some(match (after.checked_sub(1), table.at.get(after)) {
        (_, Some(at)) if *at == x => Coverage::Given,
        (Some(before), Some(at)) => Coverage::Between(at / table.at[before]),
        _ => Coverage::Beyond,
    })
}

/// The points of a table, in base units.
pub(crate) fn points(evidence: &Evidence, name: &str) -> Vec<(f64, f64)> {
    match evidence.get(name) {
        Some(ParameterValue::Table(table)) => (table.at.iter().zip(&table.value))
            .map(|(at, value)| (*at, value * table.unit.in_base()))
            .collect(),
        _ => Vec::new(),
    }
}

/// The geometric mean.
pub(crate) fn mean(values: &[f64]) -> f64 {
    let logs: f64 = values.iter().map(|value| value.ln()).sum();
    (logs / values.len().max(1) as f64).exp()
}

/// One published ratio on the way from one machine to another.
#[derive(Clone, Debug, PartialEq)]
struct Step {
    parameter: String,
    /// The source gives it the other way round.
    inverted: bool,
}

/// The ratio of a figure between two machines, as published: directly, or by way of a third.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ratio {
    steps: Vec<Step>,
}

impl Ratio {
    /// Searches a ratio: `prefix.over-OTHER` in a machine's profile gives its figure divided by the other's,
    /// `prefix.behind-OTHER` the other's divided by its own. `machines` are pairs of a profile's name and its
    /// word in such names.
    pub(crate) fn find(
        evidence: &Evidence,
        prefixes: &[&str],
        machines: &[(&str, &str)],
        (a, b): (&str, &str),
        x: f64,
    ) -> Option<Self> {
        let direct = |from: &str, to: &str| {
            prefixes.iter().find_map(|prefix| {
                let ways = [(from, to, "over", false), (from, to, "behind", true)]
                    .into_iter()
                    .chain([(to, from, "over", true), (to, from, "behind", false)]);
                ways.into_iter().find_map(|(own, other, word, inverted)| {
                    let (_, other) = machines.iter().find(|(name, _)| *name == other)?;
                    let parameter = format!("{own}/{prefix}.{word}-{other}");
                    let given = coverage(evidence, &parameter, x)? == Coverage::Given;
                    given.then_some(Step { parameter, inverted })
                })
            })
        };
        if let Some(step) = direct(a, b) {
            return Some(Self { steps: vec![step] });
        }
        machines.iter().find_map(|(third, _)| {
            let steps = vec![direct(a, third)?, direct(third, b)?];
            Some(Self { steps })
        })
    }

    /// Returns `true` if a source gives the ratio of these two machines directly, not by way of a
    /// third.
    pub(crate) fn is_direct(&self) -> bool {
        self.steps.len() == 1
    }

    /// Returns `true` if any step of the ratio uses a parameter with that prefix.
    pub(crate) fn passes(&self, prefix: &str) -> bool {
        (self.steps.iter()).any(|step| step.parameter.contains(&format!("/{prefix}.")))
    }

    /// Computes the ratio at `x` from the ratios of its steps.
    pub(crate) fn value(&self, values: &Values<'_>, x: f64) -> Evaluation {
        self.steps.iter().try_fold(1.0, |product, step| {
            let ratio = values.at(&step.parameter, x)?;
            Ok(if step.inverted { product / ratio } else { product * ratio })
        })
    }
}
