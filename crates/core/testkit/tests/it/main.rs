//! The suite passes on devices that keep their promises and fails on those that do not: one
//! program, so that it is linked once.

mod faults;
mod layers;
mod toy;

mod threaded {
    overside_testkit::conformance_suite!(|| crate::toy::toy(crate::toy::Fault::Nothing));
}

mod with_memory_of_its_own {
    use std::sync::Arc;

    use overside_layers::DeviceMemory;
    use overside_testkit::{InlineDevice, InlineOptions};

    overside_testkit::conformance_suite!(|| {
        DeviceMemory::around(Arc::new(InlineDevice::new(InlineOptions::default())))
    });
}

mod inline {
    use overside_device::MemoryKind;
    use overside_testkit::{InlineDevice, InlineOptions};

    overside_testkit::conformance_suite!(|| {
        std::sync::Arc::new(InlineDevice::new(InlineOptions {
            memory: MemoryKind::Registered,
            ..InlineOptions::default()
        }))
    });
}
