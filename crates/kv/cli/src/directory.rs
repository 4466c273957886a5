//! A server in a directory of endpoints.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use overside_base::lock;
use overside_base::random_hex;
use overside_kv::cluster::{ClusterMember, ClusterSetup, ClusterState};
use overside_kv::directory::entry::is_server_name;
use overside_kv::directory::{Endpoint, Location, Registration, RegistrationStatus, is_host};
use overside_kv::server::Settings;
use overside_link::agent::keys;

use super::access::Access;
use super::limits::SlotList;

#[derive(clap::Args)]
#[command(next_help_heading = "Directory")]
pub(super) struct DirectoryArguments {
    /// Register in etcd where clients can connect: etcd://HOST:PORT[,HOST:PORT...][/PREFIX], or etcds://
    /// with TLS
    #[arg(long, value_name = "URL")]
    directory: Option<Location>,
    /// Keys for etcds://: directory with ca.pem, and with host.pem and host.key where etcd wants a client's
    /// certificate
    #[arg(long, value_name = "DIR", allow_hyphen_values = true, requires = "directory")]
    directory_tls_keys: Option<PathBuf>,
    /// This server's name there: always the same for the same data [default: the machine's name]
    #[arg(long, value_name = "NAME", value_parser = name, requires = "directory")]
    name: Option<String>,
    /// Host name or IP address that clients reach this server by [default: those that it listens at]
    #[arg(long, value_name = "HOST", value_parser = host, requires = "directory")]
    advertise: Option<String>,
    /// Be a server of a Redis Cluster: serve the hash slots that the directory gives this server
    #[arg(long, requires = "directory")]
    cluster: bool,
    /// Slots that nobody owns and this server takes at its first start, such as 0-5460,9000. Without it `overside kv
    /// cluster share` or `move` gives it some
    #[arg(long, value_name = "SLOTS", requires = "cluster")]
    slots: Option<SlotList>,
}

/// Options that name a directory, for commands that need one.
#[derive(clap::Args)]
pub(super) struct DirectoryUrl {
    /// The directory: etcd://HOST:PORT[,HOST:PORT...][/PREFIX], or etcds:// with TLS
    #[arg(long, value_name = "URL")]
    directory: Location,
    /// Keys for etcds://: directory with ca.pem, and with host.pem and host.key where etcd wants a client's
    /// certificate
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    directory_tls_keys: Option<PathBuf>,
}

impl DirectoryUrl {
    /// The directory, with its keys.
    pub(super) fn location(&self) -> Result<Location, String> {
        with_keys(&self.directory, self.directory_tls_keys.as_deref())
    }
}

fn with_keys(location: &Location, directory: Option<&Path>) -> Result<Location, String> {
    let location = location.clone();
    match (location.is_tls(), directory) {
        (true, Some(directory)) => {
            let config = keys::client(directory).map_err(|error| error.to_string())?;
            Ok(location.with_tls(config))
        }
        (true, None) => Err("etcds:// needs --directory-tls-keys DIR with ca.pem".into()),
        (false, Some(_)) => Err("--directory-tls-keys is for etcds://HOST:PORT".into()),
        (false, None) => Ok(location),
    }
}

/// Description of a server in its directory entry; clients use it before they connect.
#[derive(Clone, Copy)]
pub(super) struct Description<'d> {
    pub design: &'d str,
    /// The side that clients connect to.
    pub side: &'d str,
    /// Parts of the keys.
    pub partitions: usize,
    /// `--advertise` is about this side.
    pub is_advertised: bool,
}

/// Server to be registered when its addresses are known.
pub(super) struct ServerRegistration {
    location: Location,
    name: String,
    advertise: Option<String>,
    status: Arc<RegistrationStatus>,
    cluster: Option<Arc<ClusterState>>,
    slots: Vec<u16>,
    running: Mutex<Option<(Registration, Option<ClusterMember>)>>,
}

fn name(text: &str) -> Result<String, String> {
    match is_server_name(text) {
        true => Ok(text.into()),
        false => Err("a name has letters, digits, `-`, `_` and `.`".into()),
    }
}

fn host(text: &str) -> Result<String, String> {
    let is_ipv6 = text.parse::<std::net::Ipv6Addr>().is_ok();
    let text = if is_ipv6 { format!("[{text}]") } else { text.into() };
    let is_none = text.parse().is_ok_and(|ip: std::net::Ipv4Addr| ip.is_unspecified());
    match is_host(&text) && text != "[::]" && !is_none {
        true => Ok(text),
        false => Err("not a host name or IP address, without a port".into()),
    }
}

impl DirectoryArguments {
    /// Returns `true` if the server must be registered in a directory.
    pub(super) fn is_given(&self) -> bool {
        self.directory.is_some()
    }

    /// Refuses addresses that no client could connect to, and protocols without slots. `has_dpu`: there is a DPU,
    /// which executes commands by itself.
    pub(super) fn check(&self, access: &Access, has_dpu: bool) -> Result<(), String> {
        if self.directory.is_none() {
            return Ok(());
        }
        if self.cluster {
            let all = access.addresses();
            let others = [
                (!all.memcached.is_empty(), "--memcached"),
                (all.has_datagrams(), "--datagram or --dpdk-port"),
                (all.herd.is_some(), "--herd"),
                (has_dpu, "--dpu"),
            ];
            if let Some((_, option)) = others.iter().find(|(is_given, _)| *is_given) {
                return Err(format!("--cluster goes without {option}: that knows no hash slots"));
            }
        }
        if let Some(location) = &self.directory {
            with_keys(location, self.directory_tls_keys.as_deref())?;
        }
        let all = access.addresses();
        if all.of_clients().next().is_none() {
            return Err("--directory needs an address: --listen ADDRESS gives it one".into());
        }
        let mut addresses = all.of_clients().filter(|_| self.advertise.is_none());
        match addresses.find(|address| address.ip().is_unspecified()) {
            None => Ok(()),
            Some(address) => Err(format!(
                "clients cannot connect to {address}: --advertise HOST says where they find this server"
            )),
        }
    }

    /// Returns the server's registration, if it must be registered.
    pub(super) fn prepare(&self) -> Result<Option<Arc<ServerRegistration>>, String> {
        let Some(location) = &self.directory else {
            return Ok(None);
        };
        let location = with_keys(location, self.directory_tls_keys.as_deref())?;
        let name = self.name.clone().map_or_else(host_name, Ok)?;
        Ok(Some(Arc::new(ServerRegistration {
            location,
            advertise: self.advertise.clone(),
            status: Arc::default(),
            cluster: self.cluster.then(|| Arc::new(ClusterState::new(&name))),
            slots: self.slots.clone().unwrap_or_default().0,
            name,
            running: Mutex::default(),
        })))
    }
}

/// The address at which a server that listens at `address` reaches itself.
fn own_address(address: &SocketAddr) -> String {
    let mut address = *address;
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address.to_string()
}

/// The machine's name.
fn host_name() -> Result<String, String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name(text.trim()).map_err(|_| "this machine has no usable name: give --name NAME".into())
}

impl ServerRegistration {
    /// Makes the server report its name and the state of its registration.
    pub(super) fn apply(&self, settings: &mut Settings) {
        settings.name = Some(self.name.clone());
        settings.registration = Some(Arc::clone(&self.status));
        settings.cluster.clone_from(&self.cluster);
    }

    /// Registers the addresses of a server, on each side, and joins its cluster if it has one, with the password of
    /// its servers.
    pub(super) fn register(
        &self,
        sides: &[(Settings, Description<'_>)],
        password: Option<Vec<u8>>,
    ) -> Result<(), String> {
        // Of all sides: they are one server.
        let instance = random_hex().map_err(|error| error.to_string())?;
        let endpoints = (sides.iter())
            .flat_map(|(settings, description)| self.endpoints(&instance, settings, *description))
            .collect();
        let (location, status) = (self.location.clone(), Arc::clone(&self.status));
        let registration = Registration::start(location, endpoints, status)
            .map_err(|error| format!("starting a thread: {error}"))?;
        let member = self.cluster.as_ref().map(|state| {
            let settings = sides.first().map(|(settings, _)| settings);
            let address = settings.and_then(|settings| settings.addresses.tcp.first());
            let setup = ClusterSetup {
                location: self.location.clone(),
                name: self.name.clone(),
                slots: self.slots.clone(),
                own_address: address.map(own_address),
                password,
                registration: Arc::clone(&self.status),
            };
            ClusterMember::start(setup, Arc::clone(state))
        });
        let member = member.transpose().map_err(|error| format!("--cluster: {error}"))?;
        *lock(&self.running) = Some((registration, member));
        Ok(())
    }

    /// Begins to remove the endpoints, so that clients look elsewhere before the server ends.
    pub(super) fn withdraw(&self) {
        if let Some((registration, _)) = &*lock(&self.running) {
            registration.withdraw();
        }
    }

    /// Returns when the endpoints are removed, or the directory does not answer.
    pub(super) fn end(&self) {
        let running = lock(&self.running).take();
        drop(running);
    }

    fn endpoints(
        &self,
        instance: &str,
        settings: &Settings,
        description: Description<'_>,
    ) -> Vec<Endpoint> {
        let addresses = &settings.addresses;
        let all = (addresses.tcp.iter().map(|address| ("redis", address)))
            .chain((addresses.tls.iter()).map(|address| ("rediss", address)))
            .chain((addresses.memcached.iter()).map(|address| ("memcached", address)))
            .chain((addresses.datagram.iter()).map(|address| ("datagram", address)));
        let endpoint = |(protocol, address): (&str, &SocketAddr)| Endpoint {
            server: self.name.clone(),
            instance: instance.to_owned(),
            protocol: protocol.into(),
            address: match description.is_advertised {
                true => self.advertised(address),
                false => address.to_string(),
            },
            design: description.design.into(),
            side: description.side.into(),
            partitions: description.partitions,
            semantics: if settings.is_cache { "cache" } else { "store" }.into(),
            is_in_cluster: self.cluster.is_some(),
        };
        all.map(endpoint).collect()
    }

    fn advertised(&self, address: &SocketAddr) -> String {
        match &self.advertise {
            None => address.to_string(),
            Some(host) => format!("{host}:{}", address.port()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{host, name};

    #[test]
    fn names_and_hosts_are_those_that_clients_can_use() {
        for (text, expected) in
            [("dpu-7.lan", "dpu-7.lan"), ("10.0.0.1", "10.0.0.1"), ("fd00::1", "[fd00::1]")]
        {
            assert_eq!(host(text).as_deref(), Ok(expected));
        }
        for wrong in ["", "0.0.0.0", "::", "a:1", "a/b", "a b"] {
            assert!(host(wrong).is_err(), "{wrong}");
        }
        assert_eq!(name("store_1").as_deref(), Ok("store_1"));
        for wrong in ["", "a/b", "a b", "\n"] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
