//! Checks that must pass for any bytes that memcached clients send. The fuzz target uses them too.

#[path = "../twin_servers.rs"]
mod twin_servers;

use overside_kv::KeyHasher;
use overside_kv::protocol::{MemcachedEngine, Ready, Session};
use twin_servers::{OpenServer, twin_servers};

/// The first byte decides where the rest is divided. The answers do not depend on that.
pub(super) fn run(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else {
        return;
    };
    let hasher = KeyHasher::with_seeds([1, 2, 3, 4]);
    let [one, other] = twin_servers(&hasher);
    let at = data.len() * usize::from(*choice) / 256;
    let (front, back) = data.split_at(at);
    let whole = stream(&[data], one, &hasher);
    assert_eq!(whole, stream(&[front, back], other, &hasher));
}

fn stream(pieces: &[&[u8]], mut server: OpenServer, hasher: &KeyHasher) -> Vec<u8> {
    let mut engine = MemcachedEngine::default();
    let mut session = Session::new(1, true);
    let (mut input, mut output) = (Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        let mut ready = [Ready::new(&mut session, &input, &mut output)];
        engine.process(&mut ready, hasher, &mut server);
        let consumed = ready[0].consumed;
        input.drain(..consumed);
    }
    assert_eq!(session.memory_bytes(), 0);
    output
}
