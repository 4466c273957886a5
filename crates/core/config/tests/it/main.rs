//! Tests of reading settings, through the crate's public interface.

mod documents;
mod units;
