//! The worker, through its public interface: what a sample says, and what never becomes one.

mod audit;
mod dma;
mod faults;
mod inputs;
mod kinds;
mod network;
mod placements;
mod samples;
