//! What remote promises, through its public interface: one program, so that it is linked once.

mod common;
mod conformance;
mod executor;
mod faults;
mod hostile;
mod probes;
mod server;
