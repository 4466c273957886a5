//! Tests of overside-device, through its public interface: one program, so that it is linked once.

mod regions;
mod threads;
