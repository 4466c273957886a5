//! The device contract: what a backend promises to whoever runs jobs on it.
//!
//! A [`Device`] says what it is and what it can do, gives out memory that it can reach, and opens
//! [`Context`]s. A context is configured for one operation and belongs to one thread. Jobs are
//! handed over in batches with [`Context::submit`] and come back, in any order, through
//! [`Context::poll`]. Between the two nothing blocks.
//!
//! The contract is made so that four very different devices can keep it without a copy or a lock
//! of their own: DPDK's compressdev (burst enqueue and dequeue, polling only, registered mbufs),
//! DOCA's progress engine (arm a notification, then wait on its descriptor), an agent at the other
//! end of an RDMA link (late completions after a broken connection, hence quarantine), and threads
//! on this machine's cores ([`threads`]).
//!
//! * Sources are shared ([`Slice`]), so a job can be run again elsewhere. Destinations are owned
//!   ([`Region`]): submitting a job gives its destination away until its completion.
//! * A job that is past its deadline completes as [`JobError::DeadlineExceeded`] *without* its
//!   destination: that is quarantined until the engine confirms, because a late engine would write
//!   into whatever the memory is used for next.
//! * Memory comes from the device ([`Device::alloc`]) or is registered with it. Some devices take
//!   only memory that the CPU cannot address ([`MemoryKind::Device`]); [`Device::write`] and
//!   [`Device::read`] move bytes for all of them.
//! * A device that cannot do an operation says so; it never runs it elsewhere. [`Applied`] names
//!   what really ran.
//!
//! Every backend passes the conformance suite of `overside-testkit`.

pub mod backend;
mod capabilities;
mod clock;
mod context;
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
pub use context::{Closed, Context, ContextConfig, CpuTime, Device, Lifecycle, within};
pub use error::{Lost, MemoryError, OpenError, Refusal, SubmitError};
pub use info::{Applied, DeviceInfo, Provenance, Timing};
pub use job::{Completion, Job, JobError, Outcome, Source, Stages};
pub use region::{DeviceId, ExternalBytes, Region, Registration, Slice};
pub use virtual_context::{ComputedJob, SetUp, VirtualContext, VirtualEngine, VirtualParts};
pub use wait::{backoff, wait};

pub use overside_ops::{Config as OperationConfig, Operation, Output};
