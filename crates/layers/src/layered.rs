//! What a layer need not say: every call goes to what is inside.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use overside_device::{
    Capabilities, Closed, Completion, Context, ContextConfig, CpuTime, Device, DeviceInfo,
    ExternalBytes, Job, Lifecycle, Lost, MemoryError, OpenError, Region, Slice, SubmitError,
};

/// A device around another one; as [`Device`].
#[allow(missing_docs, clippy::missing_errors_doc)]
pub trait DeviceLayer: Send + Sync {
    /// The device inside.
    fn inner(&self) -> &dyn Device;

    fn info(&self) -> &DeviceInfo {
        self.inner().info()
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner().capabilities()
    }

    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError> {
        self.inner().alloc(len, align)
    }

    fn write(&self, to: &mut Region, offset: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        self.inner().write(to, offset, bytes)
    }

    fn read(&self, from: &Region, offset: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        self.inner().read(from, offset, into)
    }

    fn register(&self, foreign: ExternalBytes) -> Result<Slice, MemoryError> {
        self.inner().register(foreign)
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        self.inner().open(config)
    }
}

/// A context around another one; as [`Context`].
#[allow(missing_docs, clippy::missing_errors_doc)]
pub trait ContextLayer: Send {
    /// The context inside.
    fn inner(&self) -> &dyn Context;

    /// The context inside.
    fn inner_mut(&mut self) -> &mut dyn Context;

    /// The context inside, to be closed.
    fn into_inner(self: Box<Self>) -> Box<dyn Context>;

    fn submit(&mut self, jobs: &mut VecDeque<Job>) -> Result<usize, SubmitError> {
        self.inner_mut().submit(jobs)
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, Lost> {
        self.inner_mut().poll(out, max)
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner().event_fd()
    }

    fn arm(&mut self) -> Result<bool, Lost> {
        self.inner_mut().arm()
    }

    fn in_flight(&self) -> usize {
        self.inner().in_flight()
    }

    fn quarantined(&self) -> usize {
        self.inner().quarantined()
    }

    fn reconfigure(&mut self, config: ContextConfig) -> Result<(), OpenError> {
        self.inner_mut().reconfigure(config)
    }

    fn lifecycle(&self) -> Lifecycle {
        self.inner().lifecycle()
    }

    fn cpu_time(&self) -> CpuTime {
        self.inner().cpu_time()
    }

    fn close(self: Box<Self>, deadline: Instant) -> Closed {
        self.into_inner().close(deadline)
    }
}

/// The device or the context that a layer makes.
pub struct Layered<L>(pub L);

impl<L: DeviceLayer> Device for Layered<L> {
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }

    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError> {
        self.0.alloc(len, align)
    }

    fn write(&self, to: &mut Region, offset: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        self.0.write(to, offset, bytes)
    }

    fn read(&self, from: &Region, offset: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        self.0.read(from, offset, into)
    }

    fn register(&self, foreign: ExternalBytes) -> Result<Slice, MemoryError> {
        self.0.register(foreign)
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        self.0.open(config)
    }
}

impl<L: ContextLayer> Context for Layered<L> {
    fn submit(&mut self, jobs: &mut VecDeque<Job>) -> Result<usize, SubmitError> {
        self.0.submit(jobs)
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, Lost> {
        self.0.poll(out, max)
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.event_fd()
    }

    fn arm(&mut self) -> Result<bool, Lost> {
        self.0.arm()
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    fn quarantined(&self) -> usize {
        self.0.quarantined()
    }

    fn reconfigure(&mut self, config: ContextConfig) -> Result<(), OpenError> {
        self.0.reconfigure(config)
    }

    fn lifecycle(&self) -> Lifecycle {
        self.0.lifecycle()
    }

    fn cpu_time(&self) -> CpuTime {
        self.0.cpu_time()
    }

    fn close(self: Box<Self>, deadline: Instant) -> Closed {
        Box::new(self.0).close(deadline)
    }
}
