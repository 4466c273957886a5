//! Checks that must hold for any bytes; used by the fuzzer and for its corpus.

use std::net::Ipv4Addr;

use overside_link::Secret;
use overside_link::codec::Message;
use overside_probe::closed_loop::CompletionMode;
use overside_probe::dma::remote::{BYTES_MAX, DmaReply, DmaRequest};
use overside_probe::network::remote::{NetworkReply, NetworkRequest};
use overside_probe::network::{Load, Plan, Protocol, Traffic};
use overside_probe::perftest::PerftestRequest;

/// Checks that bytes are refused, or are a request to an agent about a link, a network or perftest,
/// or its answer, with values within bounds and the same after it is encoded and parsed again. The
/// first byte selects the kind. Returns `true` if they were accepted.
pub(super) fn probe_wire(data: &[u8]) -> bool {
    let Some((what, bytes)) = data.split_first() else {
        return false;
    };
    match what % 5 {
        0 => match again(bytes) {
            Some(DmaRequest::Open(opening)) => {
                let fits = opening.check().is_ok();
                assert!(!fits || opening.plan.memory_bytes() <= BYTES_MAX);
                fits
            }
            request => request.is_some(),
        },
        1 => again::<DmaReply>(bytes).is_some(),
        2 => again::<NetworkRequest>(bytes).is_some(),
        4 => match again(bytes) {
            Some(PerftestRequest::Serve { test, .. } | PerftestRequest::Run { test, .. }) => {
                let is_one = test.check().is_ok();
                // Nothing of a host's becomes an option.
                let device = test.device.as_deref().unwrap_or_default();
                assert!(!is_one || !device.starts_with('-'));
                is_one
            }
            None => false,
        },
        _ => match again(bytes) {
            Some(NetworkReply::Passed(pass)) => {
                let is_right = pass.check(&plan()).is_ok();
                assert!(
                    !is_right || (pass.messages > 0 && pass.latencies.count() == pass.messages)
                );
                is_right
            }
            reply => reply.is_some(),
        },
    }
}

/// Reads a message, encodes it, and reads the encoding.
fn again<M: Message>(bytes: &[u8]) -> Option<M> {
    let read = M::decode(bytes).ok()?;
    let written = read.encode();
    // Escaped control characters become spaces, and numbers get longer than they were written.
    let second = M::decode(&written).ok()?;
    assert_eq!(written, second.encode());
    Some(read)
}

/// Returns the plan against which the figures of a pass are checked.
fn plan() -> Plan {
    Plan {
        destination: (Ipv4Addr::LOCALHOST, 7).into(),
        secret: Secret::from_hex(&"0".repeat(32)).expect("a secret"),
        load: Load {
            traffic: Traffic::RoundTrips,
            message_bytes: 64,
            connections: 2,
            threads: 1,
            waiting: CompletionMode::Poll,
            socket_buffer: None,
            seed: 0,
            protocol: Protocol::Tcp,
            paced_messages: None,
        },
        depth: 1,
        batch: 1,
        rate_per_s: None,
        cores: None,
        namespace: None,
        slice: None,
        events: false,
    }
}
