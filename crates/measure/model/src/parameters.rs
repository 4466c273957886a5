//! Parameters that a profile may give: the name and meaning of each, and the step that measures it.
//!
//! A profile with other parameters is refused, so a misspelt name cannot pass for an unused value.
//! A new parameter is one more line of [`PARAMETERS`].

mod known;

use crate::{Axis, Dimension};

pub use known::PARAMETERS;

/// A parameter that profiles may give in `[values]` or `[tables]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Name of the parameter. `*` matches one word between dots, `**` at the end one or more.
    pub name: &'static str,
    /// Dimensions in which it may be counted. There are several where some sources give absolute
    /// figures and others only relative ones.
    pub dimensions: &'static [Dimension],
    /// Axes that a table of it may depend on; empty if it is one number. Instead of a table, one
    /// number for all points is allowed too.
    pub by: &'static [Axis],
    /// The smallest and the largest value allowed, in base units of the first dimension; those of
    /// the dimension if absent.
    pub range: Option<(f64, f64)>,
    /// Meaning of the parameter, in a few words.
    pub about: &'static str,
    /// Step of `overside calibrate` that measures it; `None` if it must be looked up or measured otherwise.
    pub measured_by: Option<Step>,
    /// Source of the value where no step measures it: a tool, a measurement or a document. Empty if
    /// a step does.
    pub otherwise: &'static str,
}

/// A step of `overside calibrate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Reads the machine's description of itself.
    Machine,
    /// Memory latency by block size, and rates of streams over memory.
    Memory,
    /// Jobs on the device: cost of a job and of a batch by completion, rate, latency, scaling.
    Jobs,
    /// Initialising, changing and ending contexts.
    Contexts,
    /// Copies by the device, from 2 bytes on.
    Copies,
    /// Copies by the device beside traffic to another machine.
    Traffic,
}

impl Step {
    /// Returns the step's name in lower case, such as `machine`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Memory => "memory",
            Self::Jobs => "jobs",
            Self::Contexts => "contexts",
            Self::Copies => "copies",
            Self::Traffic => "traffic",
        }
    }
}

impl Parameter {
    /// One number.
    pub(crate) const fn number(
        name: &'static str,
        dimensions: &'static [Dimension],
        about: &'static str,
    ) -> Self {
        Self { name, dimensions, by: &[], range: None, about, measured_by: None, otherwise: "" }
    }

    /// A number for each of several sizes or counts, or one for all of them.
    pub(crate) const fn table(
        name: &'static str,
        by: &'static [Axis],
        dimensions: &'static [Dimension],
        about: &'static str,
    ) -> Self {
        Self { by, ..Self::number(name, dimensions, about) }
    }

    /// Allows only values from `low` to `high`, in base units of the first dimension.
    pub(crate) const fn between(mut self, low: f64, high: f64) -> Self {
        self.range = Some((low, high));
        self
    }

    /// Says which step of `overside calibrate` measures it.
    pub(crate) const fn measured(mut self, step: Step) -> Self {
        self.measured_by = Some(step);
        self
    }

    /// Names the tool that gives it where no step of `overside calibrate` does.
    pub(crate) const fn with(mut self, tool: &'static str) -> Self {
        self.otherwise = tool;
        self
    }

    /// Returns advice on how to obtain the parameter of that name. A machine's name and `/` may
    /// precede it.
    pub fn remedy(name: &str) -> String {
        let key = name.rsplit('/').next().unwrap_or(name);
        let Some(known) = Self::of(key) else {
            return format!("measure {key} on such a machine");
        };
        if let Some(step) = known.measured_by {
            let peer = match step {
                Step::Traffic => " --network DEST",
                _ => "",
            };
            let step = step.name();
            return format!(
                "`overside calibrate{peer}` measures {key} on such a machine (step {step})"
            );
        }
        let kinds: Vec<&str> = known.dimensions.iter().map(|one| units(*one)).collect();
        format!(
            "get {key} by {}, and give it in a profile of such a machine, in {}",
            known.otherwise,
            kinds.join(", or ")
        )
    }

    /// Returns `true` if `name` matches the parameter's name, wildcards included.
    pub fn covers(&self, name: &str) -> bool {
        let mut words = name.split('.');
        for pattern in self.name.split('.') {
            match (pattern, words.next()) {
                ("**", Some(_)) => return words.all(is_word),
                ("*", Some(word)) if is_word(word) => {}
                (same, Some(word)) if same == word => {}
                _ => return false,
            }
        }
        words.next().is_none()
    }

    /// The smallest and the largest value allowed where it is counted in `dimension`, in base
    /// units.
    pub fn allowed(&self, dimension: Dimension) -> (f64, f64) {
        match self.range {
            Some(range) if self.dimensions.first() == Some(&dimension) => range,
            _ => allowed(dimension),
        }
    }

    /// Returns the entry for `name`; the first if there are several.
    pub fn of(name: &str) -> Option<&'static Self> {
        PARAMETERS.iter().find(|one| one.covers(name))
    }

    /// The known name that is nearest to `name`, if one is near: words that a pattern leaves open
    /// are taken from it.
    pub fn nearest(name: &str) -> Option<String> {
        let words: Vec<&str> = name.split('.').collect();
        let filled = PARAMETERS.iter().map(|one| {
            let patterns = one.name.split('.').enumerate();
            let filled: Vec<&str> = patterns
                .map(|(at, pattern)| match pattern {
                    "*" | "**" => words.get(at).copied().unwrap_or("NAME"),
                    same => same,
                })
                .collect();
            filled.join(".")
        });
        overside_config::suggest(name, &filled.collect::<Vec<_>>())
    }
}

/// The smallest and the largest value of a dimension that is not absurd, in base units.
pub(crate) const fn allowed(dimension: Dimension) -> (f64, f64) {
    match dimension {
        // 1 B to 1 PiB.
        Dimension::Size => (1.0, 1_125_899_906_842_624.0),
        // 1 B/s to 1 PB/s.
        Dimension::Rate => (1.0, 1e15),
        // 1 ps to an hour.
        Dimension::Time => (1e-3, 3.6e12),
        // 1 in a thousand seconds to 10^15 a second.
        Dimension::Frequency => (1e-3, 1e15),
        Dimension::Power => (1e-3, 1e6),
        Dimension::Count => (1e-9, 1e12),
    }
}

/// The units in which values of a dimension are given, in words.
pub(crate) const fn units(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Size => "B, KiB, MiB, GiB, MB or GB",
        Dimension::Rate => "MB/s, GB/s, MiB/s, GiB/s or Gb/s",
        Dimension::Time => "ns, us, ms or s",
        Dimension::Frequency => "Mops/s, Gops/s, MHz or GHz",
        Dimension::Power => "W",
        Dimension::Count => "count or %",
    }
}

/// Returns `true` if `word` may be a part of a name, between dots: 1 to 32 lower-case letters,
/// digits and `-`.
pub(crate) fn is_word(word: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !word.is_empty() && word.len() <= 32 && word.chars().all(allowed)
}
