//! The data path between a host and its DPU, or between any two processes.
//!
//! [`verbs`] says what can be done and what is promised: register memory, export it, import the
//! peer's, `read`, `write`, `send`, `receive`, and reap completions by polling or by event. A
//! transport does it. Whoever measures or uses a link names nothing but [`verbs`] after it has
//! connected.

pub mod agent;
pub mod codec;
pub mod conformance;
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
