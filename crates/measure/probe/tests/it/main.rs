//! Tests of the crate's public interface, in one program so that it is linked once.

mod closed_loop;
mod dma;
mod network;
mod network_paced;
mod network_remote;
mod perftest;
mod plans;
mod wire;
