//! A context of UCX's: its devices, and memory registered with them.

// Registers memory by its address, and gives it out as regions.
#![allow(unsafe_code)]

use std::any::Any;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use overside_device::{DeviceId, ExternalBytes, MemoryError, Region, Registration, Slice};

use super::buffer::Buffer;
use super::shim::{RawContext, Shim, text};
use crate::verbs::ConnectError;

/// An open context; closed with its last user.
pub(crate) struct Context {
    pub(crate) shim: Shim,
    raw: RawContext,
    /// Identifier of the device that the context's memory is registered with.
    pub(crate) device: DeviceId,
}

// SAFETY: UCX was told that several threads use the context, and locks it.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: workers and registrations each hold the context; the last is gone.
        unsafe { self.shim.close(self.raw) };
    }
}

/// Memory that the context's devices reach.
pub(crate) struct Mapped {
    context: Arc<Context>,
    memory: NonNull<c_void>,
}

// SAFETY: a registration is a record of UCX's, which any thread may name.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: whatever names it holds the memory, which holds this.
        unsafe { self.context.shim.unmap(self.context.raw, self.memory) };
    }
}

impl Mapped {
    pub(crate) fn as_ptr(&self) -> *mut c_void {
        self.memory.as_ptr()
    }

    /// The key that a peer needs.
    pub(crate) fn key(&self) -> Result<Vec<u8>, String> {
        // SAFETY: the registration lives.
        unsafe { self.context.shim.pack(self.context.raw, self.memory) }
    }
}

impl Context {
    /// Opens one with these transports and network devices; `None` leaves them to UCX's variables.
    pub(crate) fn open(
        shim: Shim,
        transports: Option<&str>,
        devices: Option<&str>,
    ) -> Result<Arc<Self>, ConnectError> {
        let unavailable = |reason| ConnectError::Unavailable { transport: super::NAME, reason };
        let transports = transports.map(text).transpose().map_err(unavailable)?;
        let devices = devices.map(text).transpose().map_err(unavailable)?;
        let raw = shim.open(transports.as_deref(), devices.as_deref()).map_err(unavailable)?;
        Ok(Arc::new(Self { shim, raw, device: DeviceId::unique() }))
    }

    pub(crate) fn raw(&self) -> RawContext {
        self.raw
    }

    /// Registers memory.
    ///
    /// # Safety
    /// The memory is there for as long as the answer.
    pub(crate) unsafe fn map(
        self: &Arc<Self>,
        start: *mut u8,
        len: usize,
    ) -> Result<Mapped, String> {
        // SAFETY: the caller's.
        let memory = unsafe { self.shim.map(self.raw, start, len) }?;
        Ok(Mapped { context: Arc::clone(self), memory })
    }

    /// Registered memory.
    pub(crate) fn alloc(self: &Arc<Self>, len: usize, align: usize) -> Result<Region, MemoryError> {
        if !align.is_power_of_two() {
            return Err(MemoryError::Alignment(align));
        }
        if len == 0 {
            return Region::allocate(0, align, None);
        }
        let buffer = Buffer::zeroed(len, align).ok_or(MemoryError::Exhausted { len })?;
        let start = buffer.window().as_ptr();
        // SAFETY: the region holds both, and lets go of the registration first.
        let mapped = unsafe { self.map(start, len) }.map_err(|reason| self.unreachable(reason))?;
        let registration = self.registration(mapped);
        let start = NonNull::new(start).expect("memory is not at null");
        let owner: Box<dyn Any + Send + Sync> = Box::new(buffer);
        // SAFETY: the bytes are the buffer's, which nothing else accesses.
        Ok(unsafe { Region::from_owner(start, len, owner, Some(registration)) })
    }

    /// Registers memory of the caller's for being read.
    pub(crate) fn register(self: &Arc<Self>, foreign: ExternalBytes) -> Result<Slice, MemoryError> {
        let bytes = foreign.as_bytes();
        let (start, len) = (bytes.as_ptr().cast_mut(), bytes.len());
        if len == 0 {
            return Ok(Slice::from_external(foreign, None));
        }
        // SAFETY: the slice holds both, and lets go of the registration first.
        let mapped = unsafe { self.map(start, len) }.map_err(|reason| self.unreachable(reason))?;
        Ok(Slice::from_external(foreign, Some(self.registration(mapped))))
    }

    fn registration(&self, mapped: Mapped) -> Registration {
        Registration { device: self.device, handle: Arc::new(mapped) }
    }

    fn unreachable(&self, reason: String) -> MemoryError {
        MemoryError::Unreachable { device: super::NAME.to_owned(), reason }
    }

    /// The registration of memory with this context, for naming it in an operation.
    pub(crate) fn mapped(&self, registration: Option<&Registration>) -> *mut c_void {
        registration
            .filter(|registration| registration.device == self.device)
            .and_then(|registration| registration.handle.downcast_ref::<Mapped>())
            .map_or(std::ptr::null_mut(), Mapped::as_ptr)
    }
}
