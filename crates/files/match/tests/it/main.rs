//! Tests of searches through the public interface, in one program so that it is linked once.

mod common;
mod context;
mod corpus;
mod memory;
mod tables;
mod text;
