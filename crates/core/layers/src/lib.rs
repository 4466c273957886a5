//! Behavior that can be added to any device.
//!
//! A layer is a device around a device, with additions to its contexts. It implements
//! [`DeviceLayer`] and [`ContextLayer`], which pass every call on to the inner object unless the
//! layer overrides it; [`Layered`] makes a [`Device`](overside_device::Device) of it, and
//! [`LayeredContext`] a [`Context`](overside_device::Context); the pattern is Apache OpenDAL's.
//!
//! | layer | effect |
//! |---|---|
//! | [`TimeLimit`] | gives each job a deadline, and loses a device that exceeds it without a completion |
//! | [`DeviceMemory`] | provides memory that the CPU cannot address, like a GPU's, for tests |
//! | [`FaultInjection`] | makes selected jobs and openings fail, for tests and for `overside audit` |

mod device_memory;
mod fault;
mod fault_context;
mod fault_injection;
mod job_table;
mod layered;
mod time_limit;

pub use device_memory::DeviceMemory;
pub use fault::{Fault, JobNumber};
pub use fault_injection::FaultInjection;
pub use layered::{ContextLayer, DeviceLayer, Layered, LayeredContext};
pub use time_limit::{TimeLimit, is_silence};
