//! Tests of the types of tables in each format.

mod types;
