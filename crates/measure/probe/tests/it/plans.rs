//! Plans of network tests, to vary.

use std::net::{Ipv4Addr, SocketAddr};

use overside_link::Secret;
use overside_probe::closed_loop::CompletionMode;
use overside_probe::network::{Load, Plan, Protocol, ReceiverConfig, Traffic};

pub(crate) fn any() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

pub(crate) fn load(traffic: Traffic) -> Load {
    Load {
        traffic,
        message_bytes: 64,
        connections: 1,
        threads: 1,
        waiting: CompletionMode::Event,
        socket_buffer: None,
        seed: 3,
        protocol: Protocol::Tcp,
        paced_messages: None,
    }
}

pub(crate) fn plan_to(destination: SocketAddr, secret: Secret, load: Load) -> Plan {
    Plan {
        destination,
        secret,
        load,
        depth: 1,
        batch: 1,
        rate_per_s: None,
        cores: None,
        namespace: None,
        slice: None,
        events: false,
    }
}

pub(crate) fn config(load: Load) -> ReceiverConfig {
    ReceiverConfig { load, secret: Secret::random().unwrap(), namespace: None, cores: None }
}
