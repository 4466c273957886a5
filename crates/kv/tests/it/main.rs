//! Tests of the key-value store.

mod codec;
mod oracle;
mod oracle_test;
mod persistence;
mod requests;
mod server;
