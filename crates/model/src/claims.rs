//! Which published figures the model claims to predict, and how.
//!
//! A claim reads what a figure is about (its device, workload, metric, keys and conditions, not
//! its name), so that a collection that was never seen is answered the same way. Each field of the
//! model has a module with a `claim` function; the first that recognises a figure answers.

use crate::facts::{Figure, Ordering};
use crate::{Answer, Evidence, Interval, Profile};

/// What may be known when a figure is predicted: the profiles, without what was left out.
#[derive(Clone, Debug)]
pub struct Library {
    profiles: Vec<Profile>,
}

impl Library {
    /// Of these profiles.
    pub fn new(profiles: Vec<Profile>) -> Self {
        Self { profiles }
    }

    /// The profile of that name.
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.name == name)
    }

    /// What the profiles of those names know, each under its name: `bf2/tcp.sm2.rate`.
    pub fn evidence(&self, names: &[&str]) -> Evidence {
        let mut all = Evidence::new();
        for profile in names.iter().filter_map(|name| self.profile(name)) {
            all.insert_all(&profile.name, &profile.evidence());
        }
        all
    }
}

/// A figure that the model claims to predict.
pub struct Claim {
    /// The scenario that predicts it, as in `dma`.
    pub scenario: &'static str,
    /// One of the figure's units in base units (bytes, bytes a second, nanoseconds, operations a
    /// second, plain numbers), so that it can be compared.
    pub unit_in_base: f64,
    /// Predicts it from what a library knows.
    pub predict: Box<dyn Fn(&Library) -> Answer>,
}

/// What the model says of an ordering.
#[derive(Clone, Debug, PartialEq)]
pub enum OrderingClaim {
    /// A scenario claims it: whether the typical predictions stand in that order, and the
    /// intervals compared, in words.
    Claimed {
        /// The scenario.
        scenario: &'static str,
        /// Whether it holds.
        holds: bool,
        /// The two sides, predicted.
        sides: Vec<(String, Interval)>,
    },
    /// Nothing in the model speaks of it.
    NotModelled {
        /// Why not.
        reason: String,
    },
}

/// Modules that claim figures, in the order in which they are asked.
const FIELDS: &[fn(&Figure<'_>) -> Option<Claim>] = &[];

/// Modules that claim orderings.
const ORDERINGS: &[fn(&Ordering, &Library) -> Option<OrderingClaim>] = &[];

/// The claim on a figure; `None` if the model says nothing of it.
pub fn claim(figure: &Figure<'_>) -> Option<Claim> {
    FIELDS.iter().find_map(|field| field(figure))
}

/// The claim on an ordering.
pub fn ordering(ordering: &Ordering, library: &Library) -> OrderingClaim {
    (ORDERINGS.iter().find_map(|field| field(ordering, library))).unwrap_or_else(|| {
        OrderingClaim::NotModelled {
            reason: "no scenario speaks of it".into(),
        }
    })
}
