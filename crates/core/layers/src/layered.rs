//! Traits and wrappers of layers. By default, a layer passes every call on to the device or context
//! inside.

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

    fn context_bytes(&self, config: &ContextConfig) -> u64 {
        self.inner().context_bytes(config)
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        self.inner().open(config)
    }
}

/// Part of a layer that wraps a context. Each method has the contract of the [`Context`] method of
/// the same name, and calls `inner` by default.
#[allow(missing_docs, clippy::missing_errors_doc)]
pub trait ContextLayer: Send {
    fn submit(
        &mut self,
        inner: &mut dyn Context,
        jobs: &mut VecDeque<Job>,
    ) -> Result<usize, SubmitError> {
        inner.submit(jobs)
    }

    fn poll(
        &mut self,
        inner: &mut dyn Context,
        out: &mut Vec<Completion>,
        max: usize,
    ) -> Result<usize, Lost> {
        inner.poll(out, max)
    }

    fn arm(&mut self, inner: &mut dyn Context) -> Result<bool, Lost> {
        inner.arm()
    }

    fn put_off(&mut self, inner: &mut dyn Context, until: Instant) {
        inner.put_off(until);
    }

    fn in_flight(&self, inner: &dyn Context) -> usize {
        inner.in_flight()
    }

    fn quarantined(&self, inner: &dyn Context) -> usize {
        inner.quarantined()
    }

    fn reconfigure(
        &mut self,
        inner: &mut dyn Context,
        config: ContextConfig,
    ) -> Result<(), OpenError> {
        inner.reconfigure(config)
    }

    fn close(self, inner: Box<dyn Context>, deadline: Instant) -> Closed
    where
        Self: Sized,
    {
        inner.close(deadline)
    }
}

/// The device that a layer makes.
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

    fn context_bytes(&self, config: &ContextConfig) -> u64 {
        self.0.context_bytes(config)
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        self.0.open(config)
    }
}

/// The context that a layer makes of the one inside.
pub struct LayeredContext<L> {
    inner: Box<dyn Context>,
    layer: L,
}

impl<L: ContextLayer + 'static> LayeredContext<L> {
    /// A layer around `inner`.
    pub fn around(inner: Box<dyn Context>, layer: L) -> Box<dyn Context> {
        Box::new(Self { inner, layer })
    }
}

impl<L: ContextLayer> Context for LayeredContext<L> {
    fn submit(&mut self, jobs: &mut VecDeque<Job>) -> Result<usize, SubmitError> {
        self.layer.submit(&mut *self.inner, jobs)
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, Lost> {
        self.layer.poll(&mut *self.inner, out, max)
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.event_fd()
    }

    fn arm(&mut self) -> Result<bool, Lost> {
        self.layer.arm(&mut *self.inner)
    }

    fn put_off(&mut self, until: Instant) {
        self.layer.put_off(&mut *self.inner, until);
    }

    fn in_flight(&self) -> usize {
        self.layer.in_flight(&*self.inner)
    }

    fn quarantined(&self) -> usize {
        self.layer.quarantined(&*self.inner)
    }

    fn reconfigure(&mut self, config: ContextConfig) -> Result<(), OpenError> {
        self.layer.reconfigure(&mut *self.inner, config)
    }

    fn lifecycle(&self) -> Lifecycle {
        self.inner.lifecycle()
    }

    fn cpu_time(&self) -> CpuTime {
        self.inner.cpu_time()
    }

    fn close(self: Box<Self>, deadline: Instant) -> Closed {
        self.layer.close(self.inner, deadline)
    }
}
