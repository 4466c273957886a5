//! Arguments that make a key-value server a replica of another one.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use overside_command::options::size_within;
use overside_kv::client::ServerTls;
use overside_kv::replica::ReplicaHandshake;
use overside_kv::server::{Password, Settings, StorageBackend};
use overside_link::agent::keys;

const BACKLOG: RangeInclusive<usize> = 16 << 10..=1 << 40;

#[derive(clap::Args)]
#[command(next_help_heading = "Replication")]
pub(super) struct ReplicaArguments {
    /// Be a replica of this server: copy it, follow it, and take no writes until a client says REPLICAOF
    /// NO ONE
    #[arg(long, value_name = "HOST:PORT", value_parser = primary)]
    replica_of: Option<(String, u16)>,
    /// File whose first line is the password of that server, or of one that REPLICAOF names; others must
    /// not be able to read it
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    replica_password_file: Option<PathBuf>,
    /// Reach that server by TLS: directory with ca.pem, host.pem and host.key, as `overside agent keys`
    /// makes them
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    replica_tls_keys: Option<PathBuf>,
    /// Name that its certificate must have [default: that of agents]
    #[arg(long, value_name = "NAME", requires = "replica_tls_keys")]
    replica_tls_name: Option<String>,
    /// Newest changes that are kept in memory for replicas: one that is further behind, or was away for
    /// longer, gets a copy of everything. Divided among the cores
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size_within(BACKLOG))]
    replica_backlog: usize,
}

/// A name or address, and a port; an IPv6 address in brackets.
fn primary(text: &str) -> Result<(String, u16), String> {
    let wrong = || "a server's name or address, and port: 192.0.2.1:6379".to_owned();
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().ok().filter(|port| *port > 0);
    let host = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.strip_suffix(']').ok_or_else(wrong)?,
        None if host.contains(':') => return Err(wrong()),
        None => host,
    };
    match port {
        Some(port) if !host.is_empty() => Ok((host.to_owned(), port)),
        _ => Err(wrong()),
    }
}

impl ReplicaArguments {
    pub(super) fn is_replica(&self) -> bool {
        self.replica_of.is_some()
    }

    pub(super) fn backlog_bytes(&self) -> usize {
        self.replica_backlog
    }

    /// Refuses to be a replica in ways in which a server cannot be one. `can_replicate`: see
    /// [`can_replicate`]; `is_registered`: it would be in a directory.
    pub(super) fn check(
        &self,
        can_replicate: Result<(), &'static str>,
        is_registered: bool,
    ) -> Result<(), String> {
        match (&self.replica_of, can_replicate) {
            (Some(_), Err(reason)) => Err(format!("--replica-of: {reason}")),
            (Some(_), _) if is_registered => Err(
                "--replica-of: clients that find a server in a directory write to it, which a replica \
                 refuses; leave --directory away, and restart with it after promotion"
                    .into(),
            ),
            _ => Ok(()),
        }
    }

    /// Starts a server in its role.
    pub(super) fn begin(
        &self,
        settings: &Settings,
        is_registered: bool,
        backing: &mut dyn StorageBackend,
    ) -> Result<(), String> {
        let Some(replication) = backing.replication_mut() else {
            return Ok(());
        };
        if is_registered {
            replication.introduce(None);
            return Ok(());
        }
        let tls = self.replica_tls_keys.as_deref().map(keys::host).transpose();
        let tls = tls.map_err(|error| error.to_string())?;
        let file = self.replica_password_file.as_deref();
        let password = file.map(Password::read_line).transpose();
        let password = password.map_err(|error| error.to_string())?;
        let plain = settings.addresses.tcp.first();
        let encrypted = settings.addresses.tls.first();
        let port = plain.or(encrypted).map_or(0, |address| address.port());
        let name = self.replica_tls_name.as_deref().unwrap_or(keys::AGENT);
        let tls = tls.map(|config| ServerTls::new(config, name)).transpose();
        replication.introduce(Some(ReplicaHandshake {
            password,
            own_port: port,
            tls: tls.map_err(|error| format!("--replica-tls-name: {error}"))?,
        }));
        match &self.replica_of {
            Some((host, port)) => replication.follow(host, *port),
            None => Ok(()),
        }
    }
}

/// Returns `Ok` if a server can have replicas and can be one; otherwise the reason why not.
pub(super) fn can_replicate(has_dpu: bool, is_cache: bool) -> Result<(), &'static str> {
    match () {
        () if has_dpu => {
            Err("a server with a DPU has no copies and is none; use --design cpu-only")
        }
        () if is_cache => Err(
            "what a cache drops depends on what was asked of it, so it has no copies and is none; \
             use --semantics store",
        ),
        () => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::primary;

    #[test]
    fn a_primary_is_a_host_and_a_port() {
        let parsed = |text| primary(text).ok();
        assert_eq!(parsed("db:6379"), Some(("db".into(), 6379)));
        assert_eq!(parsed("[::1]:7"), Some(("::1".into(), 7)));
        for wrong in ["db", ":1", "db:0", "db:70000", "::1:7", "[::1:7", ""] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
