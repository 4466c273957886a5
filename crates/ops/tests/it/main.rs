//! What ops promises, through its public interface: one program, so that it is linked once.

mod codecs;
mod common;
mod corpus;
mod hashes;
mod matching;
mod operations;
mod streams;
mod variants;
