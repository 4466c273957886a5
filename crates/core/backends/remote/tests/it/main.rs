//! Tests of the public interface of `overside-backend-remote`: one program, so that it is linked
//! once.

mod common;
mod conformance;
mod executor;
mod faults;
mod hostile;
mod probes;
mod server;
