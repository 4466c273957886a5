//! The measuring loop, and the box format that says what to measure.

pub mod boxes;
