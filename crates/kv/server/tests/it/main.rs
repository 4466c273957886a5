//! Tests of the key-value store.

mod bench;
mod cluster;
mod codec;
mod datagram;
mod designs;
mod directory;
mod ethernet;
mod memcached;
mod offload;
mod offload_flow;
mod oracle;
mod oracle_test;
mod partitions;
mod peers;
mod persistence;
mod reordering;
mod replica;
mod requests;
mod resp;
mod resp_client;
mod resp_docs;
mod resp_redis;
mod resp_wire;
mod sending;
mod server;
mod store;
