//! Which published figures the model claims to predict, and how.
//!
//! A claim reads what a figure is about (its device, workload, metric, keys and conditions, not
//! its name), so that a collection that was never seen is answered the same way. Each field of the
//! model has a module with a `claim` function; the first that recognises a figure answers.

pub(crate) mod arrow;
mod compute;
mod dma;
mod engines;
mod kv;
pub(crate) mod link_words;
mod memory;
mod network;
mod query;
mod routing;
pub(crate) mod split;
mod storage;
mod subject;

use serde::Serialize;

use crate::facts::{Figure, Ordering};
use crate::{Answer, Interval};

pub use crate::library::Library;

/// A figure that the model claims to predict.
pub struct Claim {
    /// The scenario that predicts it, as in `dma`.
    pub scenario: &'static str,
    /// One of the figure's units in base units (bytes, bytes a second, nanoseconds, operations a
    /// second, plain numbers), so that it can be compared. Negative where the source prints a
    /// reduction as a negative number and a positive one is predicted: -0.01 for `-25 %`.
    pub unit_in_base: f64,
    /// Predicts it from what a library knows.
    pub predict: Box<dyn Fn(&Library) -> Answer>,
}

/// What the model says of an ordering.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "finding")]
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
#[rustfmt::skip]
const FIELDS: &[fn(&Figure<'_>) -> Option<Claim>] = &[
    engines::claim,
    split::claim,
    arrow::claim,
    kv::claim,
    compute::claim,
    memory::claim,
    storage::claim,
    query::claim,
    dma::claim,
    network::claim,
    routing::claim,
];

/// Modules that claim orderings.
#[rustfmt::skip]
const ORDERINGS: &[fn(&Ordering, &Library) -> Option<OrderingClaim>] = &[
    engines::ordering,
    split::ordering,
    arrow::ordering,
    kv::ordering,
    compute::ordering,
    memory::ordering,
    query::ordering,
    dma::ordering,
    network::ordering,
    routing::ordering,
];

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
