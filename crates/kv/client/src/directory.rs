//! The directory of endpoints, in etcd.
//!
//! 1. A server writes where clients can connect, each endpoint with a lease ([`Registration`]).
//! 2. Servers of a cluster also write there which hash slots they own ([`SlotTable`]).
//! 3. They read both, and follow every change ([`Follower`]).
//!
//! etcd is accessed through its JSON gateway over HTTP or HTTPS ([`Etcd`]), by threads that may block. Its
//! answers are bounded and checked.

pub mod entry;
mod error;
mod etcd;
mod follower;
mod location;
mod registration;
mod slots;
mod status;
mod tls;

pub use entry::Endpoint;
pub use error::DirectoryError;
pub use etcd::{Etcd, KEYS_MAX, KeyRange, KeyValue};
pub use follower::{Follower, View};
pub use location::{Location, is_host};
pub use registration::{LEASE, Registration};
pub use slots::{Assignment, SlotTable};
pub use status::RegistrationStatus;
