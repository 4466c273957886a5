//! Tests of compression through its public interface, in one program so that it is linked once.

mod common;
mod foreign;
mod hostile;
mod placement;
mod reader;
mod streams;
mod submitters;
