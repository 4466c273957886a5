//! Both cards pass the conformance suite in all modes.

macro_rules! card {
    ($name:ident, $card:literal, $mode:ident) => {
        mod $name {
            fn device() -> std::sync::Arc<dyn overside_device::Device> {
                use overside_backend_emulated::{EmulatedDevice, Mode};
                let profile = overside_model::profile($card).expect("built in");
                std::sync::Arc::new(EmulatedDevice::new(profile, Mode::$mode))
            }
            overside_testkit::conformance_suite!(device);
        }
    };
}

card!(bf2_functional, "bf2", Functional);
card!(bf2_paced, "bf2", Paced);
card!(bf2_replay, "bf2", Replay);
card!(bf3_functional, "bf3", Functional);
card!(bf3_paced, "bf3", Paced);
card!(bf3_replay, "bf3", Replay);
