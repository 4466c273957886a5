//! What compress promises, through its public interface: one program, so that it is linked once.

mod common;
mod foreign;
mod hostile;
mod placement;
mod reader;
mod streams;
mod submitters;
