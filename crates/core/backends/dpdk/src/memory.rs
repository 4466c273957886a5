//! Memory that DPDK and its devices know.
//!
//! Hardware reads and writes only registered memory; software drivers accept any pointer, which
//! would hide a missing registration. So all DPDK devices require registered memory, and each
//! allocation and registration is checked with DPDK.

// Takes memory from DPDK and hands it out as regions.
#![allow(unsafe_code)]

use std::any::Any;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use overside_base::lock;
use overside_device::{DeviceId, ExternalBytes, MemoryError, Region, Registration, Slice};

use crate::runtime::Runtime;
use crate::shim::Shim;

/// Memory out of DPDK's heap.
struct Allocation {
    runtime: Arc<Runtime>,
    start: NonNull<u8>,
}

// SAFETY: a pointer to memory that only the region around it uses; freeing it may be done by any
// thread.
unsafe impl Send for Allocation {}
// SAFETY: as above; nothing is done through a shared reference.
unsafe impl Sync for Allocation {}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: came from `allocate`, and is freed once.
        unsafe { (self.runtime.shim.0.release)(self.start.as_ptr().cast()) }
    }
}

/// Implements `Device::alloc`: allocates memory from DPDK's heap. `align` must be a power of two.
pub(crate) fn allocate(
    runtime: &Arc<Runtime>,
    (device, name): (DeviceId, &str),
    len: usize,
    align: usize,
) -> Result<Region, MemoryError> {
    if !align.is_power_of_two() {
        return Err(MemoryError::Alignment(align));
    }
    runtime.enter_thread();
    let shim = runtime.shim;
    // SAFETY: the function takes any length and alignment.
    let start = unsafe { (shim.0.allocate)(len, align.max(64)) };
    let start = NonNull::new(start.cast::<u8>()).ok_or(MemoryError::Exhausted { len })?;
    let owner = Allocation { runtime: Arc::clone(runtime), start };
    check_known(shim, name, start.as_ptr(), len)?;
    let registration = Registration { device, handle: Arc::new(()) as Arc<dyn Any + Send + Sync> };
    // SAFETY: `allocate` returned `len` zeroed bytes that nothing else uses, and they stay until
    // the owner is dropped.
    Ok(unsafe { Region::from_owner(start, len, Box::new(owner), Some(registration)) })
}

/// Implements `Device::register`: registers memory of the caller with DPDK.
pub(crate) fn register(
    runtime: &Arc<Runtime>,
    (device, name): (DeviceId, &str),
    foreign: ExternalBytes,
) -> Result<Slice, MemoryError> {
    runtime.enter_thread();
    let (start, len) = (foreign.as_bytes().as_ptr(), foreign.as_bytes().len());
    let mapping = Mapping::new(runtime, start as usize, len)
        .map_err(|reason| MemoryError::Unreachable { device: name.into(), reason })?;
    check_known(runtime.shim, name, start, len)?;
    let registration =
        Registration { device, handle: Arc::new(mapping) as Arc<dyn Any + Send + Sync> };
    Ok(Slice::from_external(foreign, Some(registration)))
}

fn check_known(shim: Shim, name: &str, start: *const u8, len: usize) -> Result<(), MemoryError> {
    // SAFETY: the addresses are looked up, not read.
    if len > 0 && unsafe { (shim.0.known)(start.cast::<c_void>(), len) } == 0 {
        return Err(MemoryError::Unreachable {
            device: name.into(),
            reason: "DPDK does not know it after it was registered".into(),
        });
    }
    Ok(())
}

/// Areas of registered memory that one registration uses. When it is dropped, areas that no other
/// registration uses are unmapped.
struct Mapping {
    runtime: Arc<Runtime>,
    areas: Vec<usize>,
}

impl Mapping {
    fn new(runtime: &Arc<Runtime>, start: usize, len: usize) -> Result<Self, String> {
        let page = rustix::param::page_size();
        let mut mapping = Self { runtime: Arc::clone(runtime), areas: Vec::new() };
        if len == 0 {
            return Ok(mapping);
        }
        let (mut at, end) = (start / page * page, (start + len).next_multiple_of(page));
        let mut areas = lock(&runtime.areas);
        let there: Vec<(usize, usize)> = (areas.0.range(..end))
            .filter(|(_, (area_end, _))| *area_end > at)
            .map(|(start, (area_end, _))| (*start, *area_end))
            .collect();
        for (area, area_end) in there.into_iter().chain([(end, end)]) {
            if at < area.min(end) {
                match map(runtime.shim, at, area.min(end)) {
                    Ok(true) => {
                        areas.0.insert(at, (area.min(end), 1));
                        mapping.areas.push(at);
                    }
                    Ok(false) => {}
                    Err(reason) => {
                        drop(areas);
                        return Err(reason);
                    }
                }
            }
            if let Some((_, users)) = areas.0.get_mut(&area)
                && area_end > area
            {
                *users += 1;
                mapping.areas.push(area);
            }
            at = at.max(area_end);
        }
        drop(areas);
        Ok(mapping)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let runtime = &self.runtime;
        let mut areas = lock(&runtime.areas);
        for start in &self.areas {
            let Some((end, users)) = areas.0.get_mut(start) else {
                continue;
            };
            *users -= 1;
            if *users == 0 {
                let len = *end - *start;
                areas.0.remove(start);
                // SAFETY: mapped by `map` with this length; no job uses it, because jobs hold
                // slices of it. If it fails there is nothing to be done.
                unsafe { (runtime.shim.0.unmap)(*start as *mut c_void, len) };
            }
        }
    }
}

/// Makes DPDK know whole pages; `false`: it did already.
fn map(shim: Shim, start: usize, end: usize) -> Result<bool, String> {
    let (pointer, len) = (start as *mut c_void, end - start);
    // SAFETY: looks an address up.
    if unsafe { (shim.0.known)(pointer, len) } != 0 {
        return Ok(false);
    }
    // SAFETY: DPDK notes the pages' addresses; it does not read or write them.
    let result = unsafe { (shim.0.map)(pointer, len) };
    shim.check(result).map(|()| true)
}
