//! Moving bytes between a host and a DPU, or their substitutes: reads, writes and messages,
//! verified where they arrive. The sides, and their commands, are `overside_probe::dma`'s; here are
//! the paths between them, and the figures.

mod agent;
mod copying;
mod figures;
pub(crate) mod parameters;
mod path;
mod run;
mod shape;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_agent;
mod virtual_engine;

pub(crate) use run::{take, take_through};
