//! What measure promises, through its public interface: one program, so that it is linked once.

mod boxes;
mod hashes;
mod tasks;
mod worker;
