//! The device contract: promises of a backend to the code that runs jobs on it.

pub mod backend;
mod capabilities;
mod clock;
mod config;
mod context;
mod deadlines;
mod error;
mod info;
mod job;
pub mod primitive;
mod region;
pub mod threads;
mod virtual_context;
mod wait;

pub use capabilities::{Capabilities, Capability, MemoryKind};
pub use clock::Clock;
pub use config::ContextConfig;
pub use context::{Closed, Context, CpuTime, Device, Lifecycle, within};
pub use deadlines::Deadlines;
pub use error::{Lost, MemoryError, OpenError, Refusal, SubmitError};
pub use info::{Applied, DeviceInfo, Provenance, Timing};
pub use job::{Completion, Job, JobError, Outcome, Source, Stages};
pub use region::{DeviceId, ExternalBytes, Region, Registration, Slice};
pub use virtual_context::{ComputedJob, SetUp, VirtualContext, VirtualEngine, VirtualParts};
pub use wait::{backoff, wait};

pub use overside_ops::{Config as OperationConfig, Operation, Output};
