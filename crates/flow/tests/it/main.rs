//! Tests of what other crates use.

mod partition;
mod random;
