//! A server without sockets, and one client of it.

use std::fmt::Display;
use std::sync::Arc;

use overside_kv::protocol::cluster::ClusterView;
use overside_kv::protocol::{ClientInfo, CommunicationEngine, Ready, ServerContext, Session};
use overside_kv::{KeyHasher, ProcessingEngine, Statistics};

use crate::oracle::Oracle;

/// Server context of the tests: answers of the server to the communication engine, and a record of
/// the actions that it requests.
pub(crate) struct TestServer {
    pub engine: Box<dyn ProcessingEngine>,
    pub now_ms: u64,
    pub password: Option<&'static str>,
    pub names: Vec<(u64, Vec<u8>)>,
    pub killed: Vec<u64>,
    pub is_shut_down: bool,
    pub sends_early: bool,
    pub cluster: Option<Arc<ClusterView>>,
}

impl TestServer {
    pub(crate) fn new(engine: Box<dyn ProcessingEngine>) -> Self {
        Self {
            engine,
            now_ms: 1_700_000_000_000,
            password: None,
            names: Vec::new(),
            killed: Vec::new(),
            is_shut_down: false,
            sends_early: false,
            cluster: None,
        }
    }
}

impl ServerContext for TestServer {
    fn engine(&mut self) -> &mut dyn ProcessingEngine {
        &mut *self.engine
    }

    fn now_ms(&mut self) -> u64 {
        self.now_ms
    }

    fn authenticate(&mut self, user: &[u8], password: &[u8]) -> bool {
        user == b"default" && self.password.is_none_or(|p| p.as_bytes() == password)
    }

    fn sends_early(&self) -> bool {
        self.sends_early
    }

    fn cluster(&self) -> Option<&Arc<ClusterView>> {
        self.cluster.as_ref()
    }

    fn has_password(&self) -> bool {
        self.password.is_some()
    }

    fn info(&mut self, statistics: &Statistics, field: &mut dyn FnMut(&str, &str, &dyn Display)) {
        field("Server", "redis_version", &"7.0.15");
        field("Server", "redis_mode", &"standalone");
        field("Stats", "keyspace_hits", &statistics.hits);
    }

    fn config(&mut self, parameter: &mut dyn FnMut(&str, &str)) {
        parameter("appendonly", "no");
        parameter("maxmemory", "0");
        parameter("save", "");
    }

    fn clients(&mut self, client: &mut dyn FnMut(&ClientInfo<'_>)) {
        for (id, address) in [(1, "127.0.0.1:1001"), (2, "127.0.0.1:1002")] {
            if self.killed.contains(&id) {
                continue;
            }
            let name = self.names.iter().rev().find(|(named, _)| *named == id);
            client(&ClientInfo {
                id,
                address,
                local_address: "127.0.0.1:6379",
                name: name.map_or(b"", |(_, name)| name),
                age_s: 3,
                idle_s: 0,
                input_bytes: 0,
                input_free_bytes: 0,
                output_bytes: 0,
                memory_bytes: 0,
            });
        }
    }

    fn set_client_name(&mut self, id: u64, name: &[u8]) {
        self.names.push((id, name.to_vec()));
    }

    fn kill_client(&mut self, id: u64) -> bool {
        self.killed.push(id);
        true
    }

    fn save(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn save_in_background(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn rewrite_log_in_background(&mut self) -> Result<(), String> {
        Err("Background append only file rewriting already in progress".into())
    }

    fn last_save_s(&mut self) -> u64 {
        1_700_000_000
    }

    fn shutdown(&mut self, _: Option<bool>) -> Result<(), String> {
        self.is_shut_down = true;
        Ok(())
    }
}

/// One client, with its unanswered input.
pub(crate) struct Client {
    pub session: Session,
    pub input: Vec<u8>,
}

impl Client {
    pub(crate) fn new(id: u64) -> Self {
        Self { session: Session::new(id, true), input: Vec::new() }
    }
}

/// The server and its engines.
pub(crate) struct Bench {
    pub server: TestServer,
    pub communication: CommunicationEngine,
    pub hasher: KeyHasher,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(Box::<Oracle>::default())
    }

    pub(crate) fn with(engine: Box<dyn ProcessingEngine>) -> Self {
        Self {
            server: TestServer::new(engine),
            communication: CommunicationEngine::default(),
            hasher: KeyHasher::with_seeds([1, 2, 3, 4]),
        }
    }

    /// Sends the given bytes for each client, processes those of all clients together, and returns
    /// the replies to each client.
    pub(crate) fn send_all(&mut self, clients: &mut [(&mut Client, &[u8])]) -> Vec<Vec<u8>> {
        let mut outputs = vec![Vec::new(); clients.len()];
        for (client, bytes) in clients.iter_mut() {
            client.input.extend_from_slice(bytes);
        }
        let ready = clients.iter_mut().zip(&mut outputs);
        let ready = ready
            .map(|((client, _), output)| Ready::new(&mut client.session, &client.input, output));
        let mut ready: Vec<_> = ready.collect();
        (self.communication).process(&mut ready, &self.hasher, &mut self.server);
        let consumed: Vec<_> = ready.iter().map(|ready| ready.consumed).collect();
        for ((client, _), consumed) in clients.iter_mut().zip(consumed) {
            client.input.drain(..consumed);
        }
        outputs
    }

    /// Sends `bytes` for one client and returns the replies.
    pub(crate) fn send(&mut self, client: &mut Client, bytes: &[u8]) -> Vec<u8> {
        self.send_all(&mut [(client, bytes)]).remove(0)
    }

    /// Sends inline commands for one client and returns its replies as text.
    pub(crate) fn talk(&mut self, client: &mut Client, lines: &str) -> String {
        let replies = self.send(client, format!("{lines}\r\n").as_bytes());
        String::from_utf8(replies).unwrap().replace("\r\n", " ").trim_end().to_owned()
    }

    /// Sends what stands before each ` -> `, and compares the reply with what stands behind.
    pub(crate) fn talks(&mut self, client: &mut Client, exchanges: &str) {
        for exchange in exchanges.trim().lines() {
            let (line, expected) = exchange.trim().split_once(" -> ").unwrap();
            assert_eq!(self.talk(client, line), expected, "{line}");
        }
    }
}

/// A command as an array of bulk strings.
pub(crate) fn command<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let words: Vec<_> = arguments.iter().map(AsRef::as_ref).collect();
    overside_kv::client::command(&words, &mut bytes);
    bytes
}
