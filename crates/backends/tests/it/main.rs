//! What backends promises, through its public interface: one program, so that it is linked once.

mod names;
