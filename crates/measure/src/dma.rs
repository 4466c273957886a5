//! Moving bytes between a host and a DPU, or between what stands for them: reads, writes and
//! messages, verified where they arrive. The sides, and what they are told, are
//! `overside_probe::dma`'s; here is what they move bytes over, and what it came to.

mod agent;
mod copying;
mod path;
mod shape;
mod taking;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_agent;

pub(crate) use taking::{take, take_through};

use overside_probe::dma::{Failure, Kind};

use crate::measuring::NoSample;
use crate::sample;

impl From<Failure> for NoSample {
    fn from(failure: Failure) -> Self {
        let kind = match failure.kind {
            Kind::Unsupported => return Self::Skipped(failure.message),
            Kind::Verification => sample::Kind::Verification,
            Kind::Job => sample::Kind::Job,
            Kind::Lost => sample::Kind::Lost,
            Kind::Timeout => sample::Kind::Timeout,
            Kind::Internal => sample::Kind::Internal,
        };
        sample::Failure::new(kind, failure.message).into()
    }
}
