//! The worker, through its public interface: the content of a sample, and invalid ones.

mod agents;
mod audit;
mod dma;
mod emulated_shape;
mod evidence;
mod faults;
mod inputs;
mod network;
mod network_nodes;
mod output_size;
mod partition;
mod placements;
mod samples;
mod sizes;
mod tasks;
mod virtual_time;
