//! Access to a key-value store: addresses, certificates and password.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::ArgAction;
use overside_kv::herd::RegionAddress;
use overside_kv::server::{Addresses, Password, Protection, Settings, Tls, UnauthenticatedAccess};
use overside_link::agent::keys;

use super::dpdk::DpdkArguments;
use super::limits::one_of;

/// Redis's port, and memcached's.
const PORT: u16 = 6379;
const MEMCACHED_PORT: u16 = 11211;

#[derive(clap::Args)]
#[command(next_help_heading = "Access")]
pub(super) struct Access {
    /// Address to listen at, with or without a port; may be repeated [default: 127.0.0.1:6379, unless
    /// --unix, --tls-listen, --memcached, --datagram, --herd or --dpdk-port is given]
    #[arg(long = "listen", value_name = "ADDRESS", value_parser = address)]
    listen: Vec<SocketAddr>,
    /// Listen at a Unix socket too, for this user only
    #[arg(long, value_name = "PATH", allow_hyphen_values = true)]
    unix: Option<PathBuf>,
    /// Address to listen at for TLS 1.3, with --tls-keys; may be repeated
    #[arg(long = "tls-listen", value_name = "ADDRESS", value_parser = address)]
    tls_listen: Vec<SocketAddr>,
    /// Address to listen at for memcached's clients; may be repeated. Their protocol has no password:
    /// addresses of this machine only
    #[arg(long, value_name = "ADDRESS", value_parser = memcached_address)]
    memcached: Vec<SocketAddr>,
    /// Address to answer datagrams at (docs/kv/kv-datagram.md); may be repeated. They have no password: addresses of
    /// this machine only
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    datagram: Vec<SocketAddr>,
    /// Let clients write requests into a region of this server's memory that it polls, as in HERD
    /// (docs/kv/kv-datagram.md): a PATH for shared memory with this user's programs, or HOST:PORT for UCX,
    /// with --password-file, whose clients are trusted
    #[arg(long, value_name = "PATH|ADDRESS", value_parser = herd_place)]
    herd: Option<RegionAddress>,
    /// Directory with server.pem and server.key, and ca.pem for client certificates; a DPU has its own
    /// (overside agent --kv-tls-keys DIR)
    #[arg(long, value_name = "DIR", allow_hyphen_values = true, requires = "tls_listen")]
    tls_keys: Option<PathBuf>,
    /// Certificates of TLS clients: `required` admits those that ca.pem signed
    #[arg(long, value_name = "WHICH", default_value = "none", requires = "tls_listen", action = ArgAction::Set,
          value_parser = one_of([("none", false), ("required", true)]))]
    tls_clients: bool,
    /// File whose first line is the password that clients send with AUTH; others must not be able to
    /// read it. Required where other machines can connect without a certificate
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    password_file: Option<PathBuf>,
    /// Serve metrics for Prometheus at http://ADDRESS/metrics: counts and sizes, to anyone who can
    /// connect
    #[arg(long, value_name = "ADDRESS", value_parser = full_address)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    pub dpdk: DpdkArguments,
}

/// A TCP address for Redis clients.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    with_port(text, PORT)
}

/// A TCP address for memcached's clients.
pub(super) fn memcached_address(text: &str) -> Result<SocketAddr, String> {
    with_port(text, MEMCACHED_PORT)
}

/// An address, with the usual port if it has none.
fn with_port(text: &str, port: u16) -> Result<SocketAddr, String> {
    let ip = || text.parse().map(|ip| SocketAddr::new(ip, port));
    (text.parse().or_else(|_| ip()))
        .map_err(|_| format!("not an IP address; write it as 127.0.0.1:{port}"))
}

/// An address with its port.
pub(super) fn full_address(text: &str) -> Result<SocketAddr, String> {
    (text.parse()).map_err(|_| "not an address; write it as 127.0.0.1:9121".into())
}

/// A port makes it an address.
fn herd_place(text: &str) -> Result<RegionAddress, String> {
    match text.parse() {
        Ok(address) => Ok(RegionAddress::Address(address)),
        Err(_) if text.is_empty() => Err("write it as /path/of/socket or 127.0.0.1:6380".into()),
        Err(_) => Ok(RegionAddress::Path(text.into())),
    }
}

/// Process that listens at the given addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Listener {
    /// This process.
    Host,
    /// The DPU's agent, which has certificates and files of its own.
    Agent,
}

impl Access {
    /// Refuses what would admit other machines by mistake, and what `listener` has no use for.
    pub(super) fn check(&self, listener: Listener) -> Result<(), String> {
        let addresses = self.addresses();
        match (listener, self.tls_keys.is_some()) {
            (Listener::Host, false) if !addresses.tls.is_empty() => {
                return Err(
                    "--tls-listen needs --tls-keys DIR with server.pem and server.key".into()
                );
            }
            (Listener::Agent, true) => {
                return Err(
                    "the DPU's agent has its own certificates (overside agent --kv-tls-keys DIR): \
                     leave --tls-keys away"
                        .into(),
                );
            }
            _ => {}
        }
        let is_path =
            addresses.unix.is_some() || matches!(addresses.herd, Some(RegionAddress::Path(_)));
        if listener == Listener::Agent && is_path {
            return Err(
                "a DPU listens at addresses and no paths: leave --unix and --herd PATH away".into(),
            );
        }
        self.check_exposure(&addresses)
    }

    /// Refuses addresses at which other machines could use the store.
    pub(super) fn check_exposure(&self, addresses: &Addresses) -> Result<(), String> {
        (addresses.check(self.protection())).map_err(|exposed| with_remedy(&exposed))
    }

    fn protection(&self) -> Protection {
        Protection {
            has_password: self.password_file.is_some(),
            requires_certificates: self.requires_certificates(),
            trusts_port: self.dpdk.is_trusted(),
        }
    }

    /// Clients by TLS need a certificate.
    pub(super) fn requires_certificates(&self) -> bool {
        self.tls_clients
    }

    /// Addresses at which clients can connect; Redis's port of 127.0.0.1 if no address for clients
    /// is given.
    pub(super) fn addresses(&self) -> Addresses {
        let mut addresses = Addresses {
            tcp: self.listen.clone(),
            tls: self.tls_listen.clone(),
            memcached: self.memcached.clone(),
            datagram: (self.datagram.iter().copied()).chain(self.dpdk.address()).collect(),
            herd: self.herd.clone(),
            port: self.dpdk.settings(),
            unix: self.unix.clone(),
            metrics: self.metrics,
        };
        if !addresses.has_clients() {
            addresses.tcp = vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT)];
        }
        addresses
    }

    /// The password; `None` if clients need none.
    pub(super) fn password(&self) -> Result<Option<Vec<u8>>, String> {
        let read = self.password_file.as_deref().map(Password::read_line).transpose();
        read.map_err(|error| error.to_string())
    }

    /// Addresses, keys and password.
    pub(super) fn settings(&self) -> Result<Settings, String> {
        let read = |path: &PathBuf| Password::read(path).map_err(|error| error.to_string());
        let requires_certificates = self.requires_certificates();
        let config = (self.tls_keys.as_deref())
            .map(|directory| keys::server(directory, requires_certificates))
            .transpose()
            .map_err(|error| error.to_string())?;
        Ok(Settings {
            addresses: self.addresses(),
            tls: config.map(|config| Tls { config, requires_certificates }),
            trusts_port: self.dpdk.is_trusted(),
            password: self.password_file.as_ref().map(read).transpose()?,
            ..Settings::default()
        })
    }
}

/// Message that names the exposed address and a remedy.
fn with_remedy(exposed: &UnauthenticatedAccess) -> String {
    const CREATE: &str = "create FILE with `(umask 077; openssl rand -base64 24 > FILE)`";
    match exposed {
        UnauthenticatedAccess::Memcached(_) => format!(
            "{exposed}: give --memcached an address of this machine only, such as 127.0.0.1"
        ),
        UnauthenticatedAccess::Herd(_) => {
            format!("{exposed}: --password-file FILE; a PATH is shared memory, which is not")
        }
        UnauthenticatedAccess::Port(_) => {
            format!("{exposed}: add --dpdk-trusted if only your own programs can send frames to it")
        }
        UnauthenticatedAccess::Datagram(_) => format!(
            "{exposed}: use an address of this machine, such as 127.0.0.1, or --dpdk-port with --dpdk-trusted; other \
             machines can use connections (--listen, --tls-listen)"
        ),
        UnauthenticatedAccess::Stream(_) => format!(
            "{exposed}: --password-file FILE, or --tls-clients required with --tls-listen; {CREATE}"
        ),
    }
}
