//! Tests of the public interface of `overside-ops`: one program, so that it is linked once.

mod ciphers;
mod codecs;
mod common;
mod corpus;
mod hashes;
mod matching;
mod operations;
mod streams;
mod variants;
