//! Clients of clusters, with a real directory.

mod failing;
mod serving;

use std::io::{BufRead, BufReader};
use std::time::Duration;

use overside_kv::client::{Cluster, ClusterOptions};
use overside_kv::directory::{Etcd, Location, Membership, Registration};
use overside_kv::server::Settings;

use crate::directory::{endpoint, register};
use crate::server::running::{Running, settings};

/// A server of this name that is registered.
pub(crate) struct Member {
    // In this order: it is registered as long as it serves.
    _registration: Registration,
    pub server: Running,
}

impl Member {
    pub(crate) fn start(location: &Location, name: &str, is_cache: bool) -> Self {
        let server = Running::start(Settings { name: Some(name.into()), ..settings() });
        let mut entry = endpoint(name, &random(), "redis", server.address().port());
        entry.semantics = if is_cache { "cache" } else { "store" }.into();
        Self { _registration: register(location, &[entry]).0, server }
    }

    /// Returns the number of keys that this member of the cluster has.
    pub(crate) fn keys(&self) -> usize {
        let mut client = self.server.connect();
        client.say(b"DBSIZE\r\n");
        let mut line = String::new();
        BufReader::new(client.0).read_line(&mut line).unwrap();
        line.trim_start_matches(':').trim().parse().unwrap()
    }
}

fn random() -> String {
    overside_base::random_hex().unwrap()
}

/// Stores the membership of the cluster.
pub(crate) fn create(location: &Location, membership: &Membership) {
    let etcd = Etcd::new(location.clone());
    let key = Membership::key(location);
    assert_eq!(etcd.create(&key, &membership.value()), Ok(true));
}

pub(crate) fn fixed(names: &[&str]) -> Membership {
    Membership::Fixed(names.iter().map(|name| (*name).into()).collect())
}

pub(crate) fn connect(location: &Location) -> Cluster {
    let options = ClusterOptions { timeout: Duration::from_secs(20), ..ClusterOptions::default() };
    Cluster::connect(location.clone(), options).unwrap()
}
