//! Who may use a key-value store: addresses, and what is needed to be let in there.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use overside_kv::herd::Place;
use overside_kv::server::{Password, Settings};
use overside_link::agent::keys;

use super::dpdk::DpdkArguments;

/// Redis's port, and memcached's.
const PORT: u16 = 6379;
const MEMCACHED_PORT: u16 = 11211;

#[derive(clap::Args)]
#[command(next_help_heading = "Access")]
pub struct Access {
    /// Address to listen at, with or without a port; may be repeated [default: 127.0.0.1:6379, unless
    /// --unix, --tls-listen, --memcached, --memcached-udp, --datagram, --herd or --dpdk-port is given]
    #[arg(long = "listen", value_name = "ADDRESS", value_parser = address)]
    listen: Vec<SocketAddr>,
    /// Listen at a Unix socket too, for this user only
    #[arg(long, value_name = "PATH", allow_hyphen_values = true)]
    unix: Option<PathBuf>,
    /// Address to listen at for TLS 1.3; may be repeated
    #[arg(long = "tls-listen", value_name = "ADDRESS", value_parser = address, requires = "tls_keys")]
    tls_listen: Vec<SocketAddr>,
    /// Address to listen at for memcached's clients; may be repeated. Their protocol has no password:
    /// addresses of this machine only
    #[arg(long, value_name = "ADDRESS", value_parser = memcached_address)]
    memcached: Vec<SocketAddr>,
    /// Address to answer memcached's clients at by UDP; may be repeated. Addresses of this machine only
    #[arg(long, value_name = "ADDRESS", value_parser = memcached_address)]
    memcached_udp: Vec<SocketAddr>,
    /// Address to answer datagrams at (docs/kv-datagram.md); may be repeated. Where other machines can send
    /// some, with --password-file: clients seal their datagrams with the password
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    datagram: Vec<SocketAddr>,
    /// Let clients write requests into a region of this server's memory that it polls, as in HERD
    /// (docs/kv-datagram.md): a PATH for shared memory with this user's programs, or HOST:PORT for UCX,
    /// with --password-file, whose clients are trusted
    #[arg(long, value_name = "PATH|ADDRESS", value_parser = herd_place)]
    herd: Option<Place>,
    /// Directory with server.pem and server.key, and ca.pem for client certificates
    #[arg(
        long,
        value_name = "DIR",
        allow_hyphen_values = true,
        requires = "tls_listen"
    )]
    tls_keys: Option<PathBuf>,
    /// Certificates of TLS clients: `required` admits those that ca.pem signed
    #[arg(
        long,
        value_name = "WHICH",
        value_enum,
        default_value_t = ClientCertificates::None,
        requires = "tls_keys"
    )]
    tls_clients: ClientCertificates,
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

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ClientCertificates {
    None,
    Required,
}

/// A TCP address for Redis clients.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    with_port(text, PORT)
}

fn memcached_address(text: &str) -> Result<SocketAddr, String> {
    with_port(text, MEMCACHED_PORT)
}

/// An address, with the usual port if it has none.
fn with_port(text: &str, port: u16) -> Result<SocketAddr, String> {
    let ip = || text.parse().map(|ip| SocketAddr::new(ip, port));
    (text.parse().or_else(|_| ip()))
        .map_err(|_| format!("not an IP address; write it as 127.0.0.1:{port}"))
}

fn full_address(text: &str) -> Result<SocketAddr, String> {
    (text.parse()).map_err(|_| "not an address; write it as 127.0.0.1:9121".into())
}

/// A port makes it an address.
fn herd_place(text: &str) -> Result<Place, String> {
    match text.parse() {
        Ok(address) => Ok(Place::Address(address)),
        Err(_) if text.is_empty() => Err("write it as /path/of/socket or 127.0.0.1:6380".into()),
        Err(_) => Ok(Place::Path(text.into())),
    }
}

impl Access {
    /// Refuses what would admit other machines by mistake.
    pub fn check(&self) -> Result<(), String> {
        let mut memcached = self.memcached.iter();
        if let Some(address) = memcached.find(|address| !address.ip().is_loopback()) {
            return Err(format!(
                "other machines can reach {address}, and memcached's protocol has no password: give \
                 --memcached an address of this machine only, such as 127.0.0.1"
            ));
        }
        let is_private = |ip: IpAddr| ip.is_loopback() || self.dpdk.trusted() == Some(ip);
        let mut memcached = self.memcached_udp.iter();
        if let Some(address) = memcached.find(|address| !is_private(address.ip())) {
            return Err(format!(
                "other machines can reach {address}, and memcached's protocol has no password: give \
                 --memcached-udp an address of this machine only, such as 127.0.0.1, or that of a port with \
                 --dpdk-trusted"
            ));
        }
        self.dpdk.check(self.password_file.is_some())?;
        if self.password_file.is_some() {
            return Ok(());
        }
        if let Some(Place::Address(address)) = &self.herd {
            return Err(format!(
                "--herd {address} needs --password-file FILE: a client that comes by UCX is trusted with this \
                 process; a PATH is shared memory, which is not"
            ));
        }
        let mut datagram = self.datagram.iter();
        if let Some(address) = datagram.find(|address| !is_private(address.ip())) {
            return Err(format!(
                "other machines can reach {address}, so --password-file FILE is required: datagrams are sealed \
                 with the password; create one with `(umask 077; openssl rand -base64 24 > FILE)`"
            ));
        }
        let has_certificates = self.tls_clients == ClientCertificates::Required;
        let tls = self.tls_listen.iter().filter(|_| !has_certificates);
        let plain = self.plain();
        let mut open = plain.iter().chain(tls);
        match open.find(|address| !address.ip().is_loopback()) {
            None => Ok(()),
            Some(address) => Err(format!(
                "other machines can reach {address}, so --password-file FILE is required, or \
                 --tls-clients required with --tls-listen; create a password with \
                 `(umask 077; openssl rand -base64 24 > FILE)`"
            )),
        }
    }

    /// Refuses addresses of a DPU that would admit other machines by mistake.
    pub fn check_dpu(&self, addresses: &[SocketAddr]) -> Result<(), String> {
        let mut open = addresses
            .iter()
            .filter(|address| !address.ip().is_loopback());
        match open.next() {
            Some(address) if self.password_file.is_none() => Err(format!(
                "other machines can reach {address}, so --password-file FILE is required"
            )),
            _ => Ok(()),
        }
    }

    /// Refuses what an agent does not listen at.
    pub fn check_for_agent(&self) -> Result<(), String> {
        let is_elsewhere = self.unix.is_some() || !self.tls_listen.is_empty();
        let is_more = is_elsewhere
            || !self.memcached.is_empty()
            || !self.memcached_udp.is_empty()
            || !self.datagram.is_empty()
            || self.herd.is_some()
            || self.dpdk.device().is_some()
            || self.metrics.is_some();
        match is_more {
            true => Err("a DPU listens at TCP addresses (--listen) only".into()),
            false => Ok(()),
        }
    }

    /// Where clients of any protocol can connect.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let mut addresses = self.plain();
        let others = self.tls_listen.iter().chain(&self.memcached);
        addresses.extend(others.chain(&self.datagram));
        addresses.extend(self.dpdk.address());
        addresses
    }

    /// Where to listen in the clear.
    fn plain(&self) -> Vec<SocketAddr> {
        let is_elsewhere = self.unix.is_some()
            || !self.tls_listen.is_empty()
            || !self.memcached.is_empty()
            || !self.memcached_udp.is_empty()
            || !self.datagram.is_empty()
            || self.herd.is_some()
            || self.dpdk.device().is_some();
        match self.listen.is_empty() && !is_elsewhere {
            true => vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT)],
            false => self.listen.clone(),
        }
    }

    /// Addresses, keys and password.
    pub fn settings(&self) -> Result<Settings, String> {
        let read = |path: &PathBuf| Password::read(path).map_err(|error| error.to_string());
        let requires_certificates = self.tls_clients == ClientCertificates::Required;
        let config = (self.tls_keys.as_deref())
            .map(|directory| keys::server(directory, requires_certificates))
            .transpose()
            .map_err(|error| error.to_string())?;
        Ok(Settings {
            tcp: self.plain(),
            tls: config.map(|config| (self.tls_listen.clone(), config)),
            memcached: self.memcached.clone(),
            memcached_udp: self.memcached_udp.clone(),
            datagram: (self.datagram.iter().copied())
                .chain(self.dpdk.address())
                .collect(),
            port: self.dpdk.settings(),
            trusts_port: self.dpdk.trusted().is_some(),
            herd: self.herd.clone(),
            unix: self.unix.clone(),
            metrics: self.metrics,
            password: self.password_file.as_ref().map(read).transpose()?,
            ..Settings::default()
        })
    }
}
