//! A port that DPDK drives, in which datagrams come and go without the kernel.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use overside_kv::ethernet::PortSettings;
use overside_kv_bench::LoadPort;

/// The usual port of datagrams.
const UDP_PORT: u16 = 6379;

#[derive(clap::Args)]
#[command(next_help_heading = "DPDK")]
pub(super) struct DpdkArguments {
    /// Answer datagrams at a network port that DPDK drives, without the kernel (docs/kv/kv.md): DPDK's name of the
    /// device, with its driver's arguments, such as net_memif0,role=server,socket=PATH or
    /// net_af_packet0,iface=NAME or 0000:03:00.0
    #[arg(long, value_name = "DEVICE", requires = "dpdk_address")]
    dpdk_port: Option<String>,
    /// IPv4 address of that port, which no other host has, and the UDP port of datagrams [default port: 6379]
    #[arg(long, value_name = "ADDRESS", requires = "dpdk_port", value_parser = address)]
    dpdk_address: Option<SocketAddrV4>,
    /// Confirm that any client that can send frames to the port may use the store: datagrams have no password. Required
    /// with --dpdk-port and --dpu-dpdk-port
    #[arg(long)]
    dpdk_trusted: bool,
}

#[derive(clap::Args)]
#[command(next_help_heading = "DPDK")]
pub(super) struct LoadPortArguments {
    /// Send datagrams by a network port of this machine that DPDK drives, without the kernel: DPDK's name of the
    /// device, with its driver's arguments, such as net_memif0,role=client,socket=PATH
    #[arg(long, value_name = "DEVICE", requires = "dpdk_address")]
    dpdk_port: Option<String>,
    /// IPv4 address of that port, which no other host has
    #[arg(long, value_name = "ADDRESS", requires = "dpdk_port", value_parser = host)]
    dpdk_address: Option<Ipv4Addr>,
    /// Queues of that port: over memif as many as the server has cores, so that datagrams come to the core that
    /// has their keys
    #[arg(long, value_name = "N", requires = "dpdk_port", default_value_t = 1)]
    dpdk_queues: u8,
}

impl LoadPortArguments {
    /// The port, if there is one.
    pub(super) fn settings(&self) -> Option<LoadPort> {
        let (device, address) = (self.dpdk_port.clone()?, self.dpdk_address?);
        Some(LoadPort { port: PortSettings { device, address }, queues: self.dpdk_queues.into() })
    }
}

fn host(text: &str) -> Result<Ipv4Addr, String> {
    let form = "not an IPv4 address; write it as 10.0.0.1";
    let ip = text.parse::<Ipv4Addr>().map_err(|_| form)?;
    address(&format!("{ip}:1")).map(|address| *address.ip())
}

/// An address of IPv4, with or without a port.
pub(super) fn address(text: &str) -> Result<SocketAddrV4, String> {
    let ip = || text.parse().map(|ip| SocketAddrV4::new(ip, UDP_PORT));
    let address = text.parse::<SocketAddrV4>().or_else(|_| ip());
    let address =
        address.map_err(|_| format!("not an IPv4 address; write it as 10.0.0.2:{UDP_PORT}"))?;
    let ip: &Ipv4Addr = address.ip();
    let is_for_many = ip.is_multicast() || ip.is_broadcast() || ip.is_unspecified();
    match address.port() {
        _ if ip.is_loopback() || is_for_many => Err("no address of a host on a network".into()),
        0 => Err("the UDP port is from 1 to 65535".into()),
        _ => Ok(address),
    }
}

impl DpdkArguments {
    /// Address at which the store answers datagrams that arrive at the port; `None` without a port.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.dpdk_address.map(SocketAddr::V4)
    }

    /// Returns `true` if every program that can send frames to the port may use the store
    /// (`--dpdk-trusted`).
    pub(super) fn is_trusted(&self) -> bool {
        self.dpdk_trusted
    }

    /// The port.
    pub(super) fn settings(&self) -> Option<PortSettings> {
        let device = self.dpdk_port.clone()?;
        let address = *self.dpdk_address?.ip();
        Some(PortSettings { device, address })
    }
}
