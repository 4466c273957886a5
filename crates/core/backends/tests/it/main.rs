//! Tests of the public interface of `overside-backends`: one program, so that it is linked once.

mod names;
