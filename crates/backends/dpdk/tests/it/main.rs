//! What dpdk promises, through its public interface: one program, so that it is linked once.

mod buffers;
mod cards;
mod common;
mod conformance;
mod ethernet;
mod regex;
