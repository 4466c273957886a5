//! A load generator for key-value servers: this one, Redis and memcached alike.
//!
//! 1. [`load`] writes every record once.
//! 2. [`run`] has each thread drive its connections by one epoll set: closed loop (a connection sends
//!    its next pipeline when the last is answered) or open loop (requests have intended send times, and
//!    latency counts from those, so that a stalled server cannot hide its queue).
//! 3. Every answer is verified: a value carries its record's number. A wrong answer is an error of
//!    the run, never a fast answer.
//! 4. The run is cut into windows; the headline is their median with the range of the windows.
//! 5. The report also has the time of a cache line from core to core and back ([`CoreRoundTrip`]),
//!    because on shared machines that differs from day to day.
//!
//! Workloads are those of YCSB (Cooper et al., SoCC 2010), on strings. Each connection has a seed of
//! its own: with a shared one, all of them ask for the same keys at the same time, which keeps those in
//! the server's cache.

mod calibration;
mod connection;
mod datagram;
mod error;
mod port;
mod protocol;
mod records;
pub mod remote;
mod report;
mod runner;
mod settings;
mod stream;
mod transport;
mod workload;

pub use calibration::{CoreRoundTrip, hash_ns};
pub use error::BenchError;
pub use port::LoadPort;
pub use protocol::ProtocolKind;
pub use records::Records;
pub use report::{Point, Window};
pub use runner::{load, run};
pub use settings::{Address, Generator, LoadMode, Settings};
pub use workload::{Distribution, Kind, Workload};
