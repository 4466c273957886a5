//! What must hold for any bytes; for the fuzzer, and for its corpus.

use std::net::Ipv4Addr;

use overside_probe::dma::far::{BYTES_MAX, Question, Reply};
use overside_probe::network::far::{Ask, Told};
use overside_probe::network::{Plan, Token, Traffic, Waiting};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The first byte says what the rest is: a question to an agent about a link or a network, or its
/// answer. It is one, which is then written so that it is read as the same, or it is refused; and what
/// it asks for or claims is within bounds, or refused. Returns whether it was not refused.
pub fn probe_wire(data: &[u8]) -> bool {
    let Some((what, json)) = data.split_first() else {
        return false;
    };
    match what % 4 {
        0 => match again(json) {
            Some(Question::Open(opening)) => {
                let fits = opening.check().is_ok();
                assert!(!fits || opening.plan.memory_bytes() <= BYTES_MAX);
                fits
            }
            question => question.is_some(),
        },
        1 => again::<Reply>(json).is_some(),
        2 => again::<Ask>(json).is_some(),
        _ => match Told::parse(json) {
            Ok(Told::Passed(passed)) => {
                let right = passed.pass(&plan());
                if let Ok((pass, latencies)) = &right {
                    assert!(pass.messages > 0 && latencies.count() == pass.messages);
                }
                right.is_ok()
            }
            told => told.is_ok(),
        },
    }
}

/// Reads it, and reads it again from what it is written as.
fn again<T: DeserializeOwned + Serialize>(json: &[u8]) -> Option<T> {
    let read: T = serde_json::from_slice(json).ok()?;
    let written = serde_json::to_vec(&read).expect("it is JSON");
    let second: T = serde_json::from_slice(&written).expect("it was read before");
    let rewritten = serde_json::to_vec(&second).expect("it is JSON");
    assert_eq!(written, rewritten);
    Some(read)
}

/// What the figures of a pass are held against.
fn plan() -> Plan {
    Plan {
        destination: (Ipv4Addr::LOCALHOST, 7).into(),
        token: Token::default(),
        traffic: Traffic::RoundTrips,
        message_bytes: 64,
        connections: 2,
        threads: 1,
        depth: 1,
        batch: 1,
        rate_per_s: None,
        waiting: Waiting::Poll,
        cores: None,
        namespace: None,
        socket_buffer: None,
        slice: None,
        seed: 0,
    }
}
