//! The directory of endpoints, in etcd.
//!
//! 1. A server writes where clients can connect, each endpoint with a lease ([`Registration`]).
//! 2. The operator defines which servers are a cluster ([`Membership`]).
//! 3. Clients read both, and follow every change ([`Follower`]).
//!
//! etcd is accessed through its JSON gateway over HTTP or HTTPS ([`Etcd`]), by threads that may block. Its
//! answers are bounded and checked.

pub mod cluster;
pub mod entry;
mod error;
mod etcd;
mod follower;
mod location;
mod registration;
mod status;
mod tls;

pub use cluster::Membership;
pub use entry::Endpoint;
pub use error::DirectoryError;
pub use etcd::{Etcd, KEYS_MAX, KeyRange, KeyValue};
pub use follower::{Follower, View};
pub use location::{Location, is_host};
pub use registration::{LEASE, Registration};
pub use status::RegistrationStatus;
