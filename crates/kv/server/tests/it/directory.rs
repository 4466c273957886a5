//! Tests of a server's endpoints in a real etcd, and with a server that is not etcd.

mod fake;
mod registration;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use overside_kv::directory::{Endpoint, Etcd, Location, Registration, RegistrationStatus};

use crate::peers;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn location(etcd: &peers::Etcd) -> Location {
    format!("etcd://{}/test", etcd.address).parse().unwrap()
}

pub(crate) fn endpoint(server: &str, instance: &str, protocol: &str, port: u16) -> Endpoint {
    Endpoint {
        server: server.into(),
        instance: instance.into(),
        protocol: protocol.into(),
        address: format!("127.0.0.1:{port}"),
        design: "cpu-only".into(),
        side: "host".into(),
        partitions: 1,
        semantics: "store".into(),
        is_in_cluster: false,
    }
}

/// Registers endpoints, and how that does.
pub(crate) fn register(
    location: &Location,
    endpoints: &[Endpoint],
) -> (Registration, Arc<RegistrationStatus>) {
    let status = Arc::<RegistrationStatus>::default();
    let registration =
        Registration::start(location.clone(), endpoints.to_vec(), Arc::clone(&status)).unwrap();
    (registration, status)
}

/// Endpoints that are registered, with their leases.
pub(crate) fn registered(etcd: &Etcd) -> Vec<(Endpoint, i64)> {
    let location = etcd.location();
    let found = etcd.range(location.prefix()).unwrap();
    (found.entries.iter())
        .map(|entry| {
            let endpoint = Endpoint::parse(location, &entry.key, &entry.value).unwrap();
            (endpoint, entry.lease)
        })
        .collect()
}

pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "it does not come to that");
        thread::sleep(Duration::from_millis(20));
    }
}
