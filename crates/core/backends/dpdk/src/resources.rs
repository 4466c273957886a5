//! DPDK objects that a context uses: a slot for each job in flight, and the transforms.

// Keeps and frees what the shim gave out.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{Operation, OperationConfig};
use overside_ops::Format;

use crate::engine::Engine;
use crate::runtime::Runtime;
use crate::shim::{Kind, SHARED_TRANSFORM, Transform};

pub(crate) struct Resources {
    runtime: Arc<Runtime>,
    kind: Kind,
    id: i32,
    pool: *mut c_void,
    slots: Vec<*mut c_void>,
    /// One transform for all jobs, or one for each place.
    transforms: Vec<*mut c_void>,
    /// Time that allocating the slots took; `init` is the time for the transforms.
    pub(crate) memory: Duration,
    pub(crate) init: Duration,
}

// SAFETY: the pointers are DPDK's objects, used by one thread at a time: the owner of the resources.
unsafe impl Send for Resources {}

impl Resources {
    /// Allocates the resources of `depth` jobs.
    pub(crate) fn new(
        runtime: &Arc<Runtime>,
        engine: &Engine,
        operation: &OperationConfig,
        depth: usize,
        segments: usize,
    ) -> Result<Self, String> {
        let begin = Instant::now();
        let mut resources = Self {
            runtime: Arc::clone(runtime),
            kind: engine.found.kind,
            id: engine.found.id,
            pool: ptr::null_mut(),
            slots: vec![ptr::null_mut(); depth],
            transforms: Vec::new(),
            memory: Duration::ZERO,
            init: Duration::ZERO,
        };
        resources.take_places(engine, depth, segments)?;
        resources.memory = begin.elapsed();
        resources.take_transforms(engine, operation, depth)?;
        resources.init = begin.elapsed() - resources.memory;
        Ok(resources)
    }

    fn take_places(
        &mut self,
        engine: &Engine,
        depth: usize,
        segments: usize,
    ) -> Result<(), String> {
        let runtime = Arc::clone(&self.runtime);
        let _control = runtime.control();
        // SAFETY: `depth` places are written.
        let result = unsafe {
            (runtime.shim.0.slots)(
                self.kind as u32,
                depth as u32,
                segments as u32,
                engine.limits.matches,
                self.slots.as_mut_ptr(),
                &mut self.pool,
            )
        };
        runtime.shim.check(result)
    }

    fn take_transforms(
        &mut self,
        engine: &Engine,
        operation: &OperationConfig,
        depth: usize,
    ) -> Result<(), String> {
        let Some(transform) = transform_of(operation.operation) else {
            return Ok(());
        };
        let count = match engine.limits.flags & SHARED_TRANSFORM {
            0 => depth,
            _ => 1,
        };
        let level = operation.level.map_or(-1, |level| level as i32);
        let runtime = Arc::clone(&self.runtime);
        let _control = runtime.control();
        for _ in 0..count {
            let mut made = ptr::null_mut();
            let create = runtime.shim.0.transform;
            // SAFETY: a transform is written if there is no error.
            let result = unsafe { create(self.id, transform as u32, level, &mut made) };
            runtime.shim.check(result)?;
            self.transforms.push(made);
        }
        Ok(())
    }

    pub(crate) fn slot(&self, number: u32) -> *mut c_void {
        self.slots[number as usize]
    }

    pub(crate) fn transform(&self, number: u32) -> *mut c_void {
        let own = self.transforms.get(number as usize);
        own.or(self.transforms.first()).copied().unwrap_or(ptr::null_mut())
    }
}

impl Drop for Resources {
    fn drop(&mut self) {
        let _control = self.runtime.control();
        let shim = self.runtime.shim;
        for transform in &self.transforms {
            // SAFETY: made by this device; no job is in flight with it, because who drops a resources
            // has all jobs back.
            unsafe { (shim.0.transform_free)(self.id, *transform) };
        }
        if !self.pool.is_null() {
            // SAFETY: as above.
            unsafe { (shim.0.slots_free)(self.kind as u32, self.pool) };
        }
    }
}

/// Returns the transform that a compressdev needs for the operation; `None` for operations of other
/// device classes.
pub(crate) fn transform_of(operation: Operation) -> Option<Transform> {
    match operation {
        Operation::Compress(Format::Deflate) => Some(Transform::DeflateCompress),
        Operation::Decompress(Format::Deflate) => Some(Transform::DeflateDecompress),
        Operation::Compress(Format::Lz4Block) => Some(Transform::Lz4Compress),
        Operation::Decompress(Format::Lz4Block) => Some(Transform::Lz4Decompress),
        _ => None,
    }
}
