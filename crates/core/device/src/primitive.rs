//! The synchronisation that queues between threads are made of, exchanged for loom's when they
//! are model-checked. For devices and links; not for their users.

// Names of the standard library, and of loom under `--cfg loom`.

#[cfg(loom)]
pub use loom::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(loom))]
pub use std::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

/// Keeps a value away from its neighbours' cache lines; two lines, because processors fetch them
/// in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);
