//! Tests of the crate's public interface, in one program so that it is linked once.

mod boxes;
mod hashes;
mod tasks;
mod worker;
