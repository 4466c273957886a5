//! Announcement of the addresses at which a server listens, as text or JSON.

use std::net::SocketAddr;

use overside_kv::server::{Addresses, Server};
use serde_json::{Value, json};

use super::dpu_side::DpuSide;
use overside_command::messages::shown;

/// Says where clients connect, here and on the DPU.
pub(super) fn print(server: Option<&Server>, dpu: Option<&DpuSide>, as_json: bool) {
    let here = server.map(|server| &server.settings().addresses);
    let there = dpu.filter(|dpu| dpu.addresses().has_clients());
    let text = match as_json {
        true => {
            let mut said = match (here, there) {
                (None, Some(dpu)) => endpoints(dpu.addresses()),
                (here, _) => here.map_or_else(|| json!({}), endpoints),
            };
            said["schema"] = json!("kv-server/1");
            if let Some(dpu) = dpu {
                said["dpu"] = json!(dpu.node());
            }
            if let (Some(_), Some(dpu)) = (here, there) {
                said["dpu_listen"] = json!(texts(&dpu.addresses().tcp));
                said["dpu_endpoints"] = endpoints(dpu.addresses());
            }
            format!("{said}\n")
        }
        false => {
            let on_dpu = |dpu: &DpuSide| format!("{} on {}", listed(dpu.addresses()), dpu.node());
            let all: Vec<_> = here.map(listed).into_iter().chain(there.map(on_dpu)).collect();
            format!("listening at {}\n", all.join(", "))
        }
    };
    // A closed stdout is no reason to end.
    let _ = overside_command::print(&text);
}

/// Each as text.
pub(super) fn texts(addresses: &[SocketAddr]) -> Vec<String> {
    addresses.iter().map(SocketAddr::to_string).collect()
}

/// Addresses as JSON.
pub(super) fn endpoints(addresses: &Addresses) -> Value {
    json!({
        "listen": texts(&addresses.tcp),
        "tls": texts(&addresses.tls),
        "memcached": texts(&addresses.memcached),
        "datagram": texts(&addresses.datagram),
        "dpdk_port": addresses.port.as_ref().map(|port| &port.device),
        "herd": addresses.herd.as_ref().map(ToString::to_string),
        "unix": addresses.unix,
        "metrics": addresses.metrics.map(|address| address.to_string()),
    })
}

/// Addresses as text.
pub(super) fn listed(addresses: &Addresses) -> String {
    let tls = texts(&addresses.tls);
    let unix = addresses.unix.iter();
    let all: Vec<String> = (texts(&addresses.tcp).into_iter())
        .chain(tls.into_iter().map(|address| format!("{address} (TLS)")))
        .chain((addresses.memcached.iter()).map(|address| format!("{address} (memcached)")))
        .chain((addresses.datagram.iter()).map(|address| format!("{address} (datagrams)")))
        .chain((addresses.herd.iter()).map(|place| format!("{place} (request regions)")))
        .chain(unix.map(shown))
        .chain((addresses.metrics).map(|address| format!("http://{address}/metrics")))
        .collect();
    all.join(", ")
}
