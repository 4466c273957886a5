//! Stores that answer alike. Fuzz targets have them too.

use std::time::SystemTime;

use overside_kv::store::{MEMORY_MIN_BYTES, Semantics, StoreOptions};
use overside_kv::{KeyHasher, Store};

/// Two empty stores whose versions are the same: these begin at the time in milliseconds.
pub fn twin_stores(hasher: &KeyHasher) -> [Store; 2] {
    let now_ms = || {
        let now = SystemTime::UNIX_EPOCH.elapsed();
        now.map_or(0, |now| now.as_millis())
    };
    let store = || {
        let options = StoreOptions {
            memory_bytes: MEMORY_MIN_BYTES,
            semantics: Semantics::Store,
            hasher: hasher.clone(),
            huge_pages: false,
        };
        Store::new(options).unwrap()
    };
    loop {
        let before_ms = now_ms();
        let stores = [store(), store()];
        if now_ms() == before_ms {
            return stores;
        }
    }
}
