//! Opens the port, and assigns datagrams to workers.

use std::net::SocketAddr;

use overside_backend_dpdk::DpdkError;
use overside_backend_dpdk::ethernet::EthernetPort;

use super::{Owner, PortListener, PortQueue};
use crate::ethernet::{PortSettings, port};
use crate::protocol::datagram::ANSWER_LIMIT_MIN_BYTES;
use crate::server::listeners::remove_stale;
use crate::server::packets::Endpoint;
use crate::server::{ServerError, Settings, Steering};

/// Reason why the port cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// DPDK does not open it.
    #[error("{0}")]
    Dpdk(#[from] DpdkError),
    /// No address is served at the port.
    #[error("no --datagram has its address")]
    NoAddress,
    /// Two addresses would have the same port, or it would be none.
    #[error(
        "UDP port {0} is not possible there, or taken: with several cores each has one, from that on"
    )]
    UdpPort(u16),
    /// Frames are too short.
    #[error("its frames carry {0} bytes; datagrams need {ANSWER_LIMIT_MIN_BYTES} at least")]
    TooShort(usize),
}

/// Opens the port of the settings, if they have one: a queue for each worker. Says in the settings how datagrams
/// come to the worker that has their keys.
pub(crate) fn bind(
    settings: &mut Settings,
    workers: usize,
    ports_only: bool,
) -> Result<Option<impl Iterator<Item = PortQueue> + use<>>, ServerError> {
    let Some(port) = settings.addresses.port.clone() else {
        return Ok(None);
    };
    let failed = |error: PortError| ServerError::Port { device: port.device.clone(), error };
    let addresses = &settings.addresses;
    let own = (addresses.datagram.iter()).filter(|address| addresses.is_of_port(address));
    let own: Vec<SocketAddr> = own.copied().collect();
    check(settings, &own).map_err(&failed)?;
    if let Some(path) = port.socket() {
        let removed = remove_stale(path);
        removed.map_err(|error| ServerError::ListenUnix { path: path.into(), error })?;
    }
    let queues = port::open(&port, workers, settings.rx_queue);
    let queues = queues.map_err(|error| failed(error.into()))?;
    let payload = queues[0].payload_max_bytes();
    if payload < ANSWER_LIMIT_MIN_BYTES {
        return Err(failed(PortError::TooShort(payload)));
    }
    let dpdk = queues[0].queue.port();
    settings.steering = steer(dpdk, &port, &own, workers, ports_only);
    let endpoint = |is_steered| Endpoint { is_steered, datagram_max_bytes: payload };
    let mut listeners = Vec::new();
    for address in own {
        listeners.push(PortListener {
            port: address.port(),
            endpoint: endpoint(settings.steering == Steering::Software),
            owner: Owner::OfPartition,
        });
        listeners.extend(ports_of_workers(address, workers).map(|(port, worker)| PortListener {
            port,
            endpoint: endpoint(false),
            owner: Owner::Worker(usize::from(worker)),
        }));
    }
    Ok(Some(PortQueue::all(queues, listeners, settings.rx_queue)))
}

/// Returns the UDP port and the number of each worker, if there are several. The ports follow the
/// one that all share.
fn ports_of_workers(address: SocketAddr, workers: usize) -> impl Iterator<Item = (u16, u16)> {
    let count = if workers > 1 { workers as u16 } else { 0 };
    (0..count).map(move |worker| (address.port().wrapping_add(worker + 1), worker))
}

fn check(settings: &Settings, own: &[SocketAddr]) -> Result<(), PortError> {
    if own.is_empty() {
        return Err(PortError::NoAddress);
    }
    let mut taken: Vec<u16> = Vec::new();
    for address in own {
        taken.push(address.port());
        taken.extend(ports_of_workers(*address, settings.workers).map(|(port, _)| port));
    }
    taken.sort_unstable();
    let twice = taken.windows(2).find(|pair| pair[0] == pair[1]);
    let impossible = taken.first().filter(|port| **port == 0);
    match impossible.or(twice.map(|pair| &pair[0])) {
        Some(port) => Err(PortError::UdpPort(*port)),
        None => Ok(()),
    }
}

/// Makes the device steer datagrams to the worker with their keys, if it can.
fn steer(
    dpdk: &EthernetPort,
    port: &PortSettings,
    own: &[SocketAddr],
    workers: usize,
    ports_only: bool,
) -> Steering {
    if workers == 1 {
        return Steering::None;
    }
    let rules = own.iter().flat_map(|address| ports_of_workers(*address, workers));
    match dpdk.steer(port.address, rules) {
        Ok(()) => Steering::RteFlow,
        Err(reason) => {
            let driver = &dpdk.info().driver;
            tracing::info!(driver, reason, "the driver has no rules for datagrams");
            match ports_only {
                true => Steering::Ports,
                false => Steering::Software,
            }
        }
    }
}
