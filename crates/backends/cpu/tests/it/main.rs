//! What cpu promises, through its public interface: one program, so that it is linked once.

mod conformance;
mod options;
