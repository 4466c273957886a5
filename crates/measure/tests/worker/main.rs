//! The worker, through its public interface: what a sample says, and what never becomes one.

mod faults;
mod faulty;
mod inputs;
mod placements;
mod samples;
