//! Moving bytes between a host and a DPU, or between what stands for them: reads, writes and
//! messages, verified where they arrive. The sides, and what they are told, are
//! `overside_probe::dma`'s; here is what they move bytes over, and what it came to.

mod agent;
mod copying;
mod path;
mod run;
mod shape;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_agent;
mod virtual_engine;

pub(crate) use run::{take, take_through};
