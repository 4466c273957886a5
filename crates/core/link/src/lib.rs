//! The data path between a host and its DPU, or between any two processes.
//!
//! [`verbs`] defines the operations and their guarantees: register memory, export it, import the
//! peer's, `read`, `write`, `send`, `receive`, and reap completions by polling or by event. A
//! transport does it. Users of a link need only [`verbs`] after it has connected.

pub mod agent;
pub mod codec;
mod doorbell;
pub mod listing;
#[cfg(all(test, loom))]
mod loom;
mod password;
mod primitive;
mod ring;
mod secret;
mod shared;
pub mod shm;
mod spsc;
mod stream;
pub mod ucx;
pub mod verbs;
mod volatile_slice;

pub use doorbell::Armed;
pub use password::{Password, PasswordError};
pub use secret::Secret;
pub use volatile_slice::VolatileSlice;
