//! Tests of what other crates use.

mod pack;
mod partition;
mod random;
