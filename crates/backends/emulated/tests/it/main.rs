//! What emulated promises, through its public interface: one program, so that it is linked once.

mod card;
mod common;
mod conformance;
mod timing;
mod virtual_time;
