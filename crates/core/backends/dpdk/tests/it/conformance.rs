//! The software drivers keep the contract.

/// The suite on one device; if the device is not available, each test prints that and passes.
macro_rules! suite {
    ($name:ident, $instance:literal) => {
        mod $name {
            use std::sync::Arc;

            use overside_backend_dpdk::DpdkDevice;
            use overside_device::Device;

            #[test]
            fn keeps_each_promise() {
                if let Err(error) = DpdkDevice::new($instance) {
                    eprintln!("skipped: {error}");
                    return;
                }
                let device = || Arc::new(DpdkDevice::new($instance).unwrap()) as Arc<dyn Device>;
                for (name, promise) in overside_testkit::conformance::PROMISES {
                    eprintln!("{name}");
                    promise(&device);
                }
            }
        }
    };
}

suite!(isal, "compress_isal");
suite!(zlib, "compress_zlib");
suite!(skeleton, "dma_skeleton");
