//! Tests of the public interface of `overside-backend-cpu`: one program, so that it is linked once.

mod conformance;
mod options;
