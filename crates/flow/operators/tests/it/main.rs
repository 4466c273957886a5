//! Tests of operators through their public interface.

mod partition;
mod random;
mod rechunk;
mod sort;
mod sql;
mod suggest;
