//! Servers that answer alike, without clients of their own. Fuzz targets have them too.

use overside_kv::protocol::ServerContext;
use overside_kv::store::{MEMORY_MIN_BYTES, StoreOptions};
use overside_kv::{KeyHasher, ProcessingEngine, Store};

/// Time at which both servers begin, in milliseconds since 1970. It never advances.
const NOW_MS: u64 = 1_700_000_000_000;

/// A store without authentication.
pub(super) struct OpenServer(pub Store);

impl ServerContext for OpenServer {
    fn engine(&mut self) -> &mut dyn ProcessingEngine {
        &mut self.0
    }

    fn now_ms(&mut self) -> u64 {
        NOW_MS
    }

    fn authenticate(&mut self, _: &[u8], _: &[u8]) -> bool {
        false
    }

    fn has_password(&self) -> bool {
        false
    }
}

/// Two with empty stores whose versions are the same.
pub(super) fn twin_servers(hasher: &KeyHasher) -> [OpenServer; 2] {
    let server = || {
        let options = StoreOptions::new(MEMORY_MIN_BYTES, hasher);
        OpenServer(Store::starting_at(options, NOW_MS).unwrap())
    };
    [server(), server()]
}
