//! An agent's devices keep every promise of the device contract, in the clear and encrypted.

use crate::common;

use std::sync::Arc;

use overside_layers::Layered;

use common::{WithAgent, cpu, emulated};
use overside_device::Device;

fn remote(device: Arc<dyn Device>, secure: bool) -> Arc<dyn Device> {
    Arc::new(Layered(WithAgent::new(device, secure)))
}

mod cpu_one_thread {
    overside_testkit::conformance_suite!(|| super::remote(super::cpu(1), false));
}

mod cpu_one_thread_encrypted {
    overside_testkit::conformance_suite!(|| super::remote(super::cpu(1), true));
}

mod cpu_three_threads_encrypted {
    overside_testkit::conformance_suite!(|| super::remote(super::cpu(3), true));
}

mod emulated_bf2_encrypted {
    overside_testkit::conformance_suite!(|| super::remote(super::emulated("bf2"), true));
}

mod cpu_over_a_slow_connection {
    use super::common::proxy::Fault;

    overside_testkit::conformance_suite!(|| {
        let slow = Fault::Delay(std::time::Duration::from_micros(100), 64 << 10);
        std::sync::Arc::new(overside_layers::Layered(super::WithAgent::over(super::cpu(1), slow)))
            as std::sync::Arc<dyn super::Device>
    });
}
