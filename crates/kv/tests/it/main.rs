//! Tests of the key-value store.

mod oracle;
mod oracle_test;
