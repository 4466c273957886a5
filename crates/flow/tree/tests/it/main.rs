//! Tests of trees through their public interface.

mod tree;
