//! The suite passes on a device that keeps its promises and fails on one that does not.

mod faults;
mod toy;

overside_device::conformance_suite!(|| toy::toy(toy::Fault::Nothing));
