//! Conformance tests: the promises of every backend, as tests that can run on any device.
//!
//! Each promise is a function that takes a way to make the device and panics if it is broken.
//! The tests are selected by capability: a device that only decompresses is only tested with that.
//! [`crate::conformance_suite!`] makes a test of each:
//!
//! ```ignore
//! mod bf2 {
//!     fn device() -> std::sync::Arc<dyn overside_device::Device> { .. }
//!     overside_testkit::conformance_suite!(device);
//! }
//! ```

mod cases;
mod driver;
mod in_flight;
mod limits;
mod results;

use std::sync::Arc;

use overside_device::Device;

pub use driver::set_patience;
pub use in_flight::*;
pub use limits::*;
pub use results::*;

/// A way to make the device, each time a new one.
pub type Factory<'a> = &'a (dyn Fn() -> Arc<dyn Device> + Sync);

/// A promise and its name.
pub type Promise = (&'static str, fn(Factory<'_>));

/// Passes the list of all promises to a macro.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_promises {
    ($callback:ident, $($argument:expr)?) => {
        $crate::$callback! { $($argument)?;
            describes_itself,
            round_trip,
            segments_are_one_source,
            output_too_small,
            nothing_outside_the_destination_is_written,
            corrupt_input,
            incompressible_input,
            decompression_bomb,
            empty_source,
            config_limits,
            unsupported_operation,
            operation_that_cannot_be_prepared,
            oversized_buffers_refused,
            too_many_segments_refused,
            unregistered_memory_refused,
            other_devices_memory_refused,
            memory_out_of_reach_refused,
            memory_holds_what_is_written,
            back_pressure,
            every_tag_comes_back_once,
            deadline_passed,
            deadline_far,
            events_wake,
            polling_alone_is_enough,
            close_waits_for_jobs,
            close_gives_up,
            reconfigure,
            reconfigure_refused_in_flight,
            reconfigure_fails_whole,
            drop_without_close,
            many_contexts_in_many_threads,
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_list {
    (; $($name:ident,)*) => { &[$((stringify!($name), $crate::conformance::$name)),*] };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($factory:expr; $($name:ident,)*) => {
        $(
            #[test]
            fn $name() {
                $crate::conformance::$name(&$factory);
            }
        )*
    };
}

/// One test for each promise, named after it. The argument makes the device:
/// `Fn() -> Arc<dyn Device> + Sync`.
#[macro_export]
macro_rules! conformance_suite {
    ($factory:expr) => {
        $crate::conformance_promises!(conformance_tests, $factory);
    };
}

/// All promises by name.
pub const PROMISES: &[Promise] = crate::conformance_promises!(conformance_list,);
