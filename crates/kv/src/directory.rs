//! The directory of endpoints, in etcd.
//!
//! 1. A server writes where clients can connect, each endpoint with a lease ([`Registration`]).
//! 2. Clients read and watch it, and find servers wherever they are.
//!
//! etcd is asked by its JSON gateway over HTTP ([`Etcd`]), by threads that may block. What it answers is
//! bounded and checked.

pub mod entry;
mod error;
mod etcd;
mod location;
mod registration;
mod status;

pub use entry::Endpoint;
pub use error::DirectoryError;
pub use etcd::{Etcd, KEYS_MAX, KeyRange, KeyValue};
pub use location::{Location, is_host};
pub use registration::{LEASE, Registration};
pub use status::RegistrationStatus;
