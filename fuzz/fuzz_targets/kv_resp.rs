//! Any bytes from clients are answered, the same however they are divided between two calls, and leave
//! nothing behind that is not bounded.

#![no_main]

use std::fmt::Display;

use libfuzzer_sys::fuzz_target;
use overside_kv::protocol::{ClientInfo, CommunicationEngine, Ready, ServerContext, Session};
use overside_kv::store::{MEMORY_MIN_BYTES, StoreOptions};
use overside_kv::{KeyHasher, ProcessingEngine, Statistics, Store};

struct Server(Store);

impl ServerContext for Server {
    fn engine(&mut self) -> &mut dyn ProcessingEngine {
        &mut self.0
    }

    fn now_ms(&mut self) -> u64 {
        1_700_000_000_000
    }

    fn authenticate(&mut self, _: &[u8], password: &[u8]) -> bool {
        password == b"secret"
    }

    fn has_password(&self) -> bool {
        true
    }

    fn info(&mut self, _: &Statistics, field: &mut dyn FnMut(&str, &str, &dyn Display)) {
        field("Server", "redis_version", &"7.0.15");
    }

    fn config(&mut self, parameter: &mut dyn FnMut(&str, &str)) {
        parameter("save", "");
    }

    fn clients(&mut self, client: &mut dyn FnMut(&ClientInfo<'_>)) {
        client(&ClientInfo {
            id: 1,
            address: "127.0.0.1:1",
            local_address: "127.0.0.1:2",
            name: b"",
            age_s: 0,
            idle_s: 0,
            input_bytes: 0,
            input_free_bytes: 0,
            output_bytes: 0,
            memory_bytes: 0,
        });
    }

    fn save_in_background(&mut self) -> Result<(), String> {
        Err("already\r\nrunning".into())
    }
}

/// Returns the replies of a new server to a client that sends these pieces.
fn replies(pieces: &[&[u8]], is_authenticated: bool) -> Vec<u8> {
    let hasher = KeyHasher::with_seeds([1, 2, 3, 4]);
    let options = StoreOptions::new(MEMORY_MIN_BYTES, &hasher);
    let mut server = Server(Store::new(options).unwrap());
    let mut engine = CommunicationEngine::default();
    let mut session = Session::new(1, is_authenticated);
    let (mut input, mut output) = (Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        let mut ready = [Ready::new(&mut session, &input, &mut output)];
        engine.process(&mut ready, &hasher, &mut server);
        let consumed = ready[0].consumed;
        input.drain(..consumed);
    }
    let sent: usize = pieces.iter().map(|piece| piece.len()).sum();
    assert!(session.memory_bytes() <= 64 * sent + 1024);
    output
}

fuzz_target!(|data: &[u8]| {
    let [choice, data @ ..] = data else {
        return;
    };
    let is_authenticated = choice & 1 == 0;
    let at = data.len() * usize::from(choice >> 1) / 128;
    let (front, back) = data.split_at(at);
    let whole = replies(&[data], is_authenticated);
    let divided = replies(&[front, back], is_authenticated);
    assert_eq!(whole, divided);
});
