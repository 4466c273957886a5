//! Tests of placement through its public interface, in one program so that it is linked once.

mod adaptive;
mod chunk_size;
mod common;
mod controller;
mod emulated;
mod failures;
mod memory;
mod policy;
mod several;
mod split;
mod verify;
