//! Where a server says that it listens.

use std::net::SocketAddr;

use overside_kv::server::{Server, Settings};
use serde_json::{Value, json};

use super::dpu_side::DpuSide;
use crate::messages::shown;

/// Says where clients connect, here and on the DPU.
pub fn print(server: Option<&Server>, dpu: Option<&DpuSide>, as_json: bool) {
    let here = server.map(Server::settings);
    let there = dpu.filter(|dpu| !dpu.addresses().is_empty());
    let text = match as_json {
        true => {
            let mut said = match (here, there) {
                (None, Some(dpu)) => json!({"listen": texts(dpu.addresses())}),
                (here, _) => here.map_or_else(|| json!({}), endpoints),
            };
            said["schema"] = json!("kv-server/1");
            if let Some(dpu) = dpu {
                said["dpu"] = json!(dpu.node());
            }
            if let (Some(_), Some(dpu)) = (here, there) {
                said["dpu_listen"] = json!(texts(dpu.addresses()));
            }
            format!("{said}\n")
        }
        false => {
            let on_dpu =
                |dpu: &DpuSide| format!("{} on {}", texts(dpu.addresses()).join(", "), dpu.node());
            let all: Vec<_> = here
                .map(listed)
                .into_iter()
                .chain(there.map(on_dpu))
                .collect();
            format!("listening at {}\n", all.join(", "))
        }
    };
    // A closed stdout is no reason to end.
    let _ = crate::print(&text);
}

/// Each as text.
pub fn texts(addresses: &[SocketAddr]) -> Vec<String> {
    addresses.iter().map(SocketAddr::to_string).collect()
}

fn tls_addresses(settings: &Settings) -> &[SocketAddr] {
    (settings.tls.as_ref()).map_or(&[], |(addresses, _)| addresses)
}

/// Addresses as JSON.
pub fn endpoints(settings: &Settings) -> Value {
    json!({
        "listen": texts(&settings.tcp),
        "tls": texts(tls_addresses(settings)),
        "memcached": texts(&settings.memcached),
        "memcached_udp": texts(&settings.memcached_udp),
        "datagram": texts(&settings.datagram),
        "dpdk_port": settings.port.as_ref().map(|port| &port.device),
        "herd": settings.herd.as_ref().map(ToString::to_string),
        "unix": settings.unix,
        "metrics": settings.metrics.map(|address| address.to_string()),
    })
}

/// Addresses as text.
pub fn listed(settings: &Settings) -> String {
    let tls = texts(tls_addresses(settings));
    let unix = settings.unix.iter();
    let all: Vec<String> = (texts(&settings.tcp).into_iter())
        .chain(tls.into_iter().map(|address| format!("{address} (TLS)")))
        .chain((settings.memcached.iter()).map(|address| format!("{address} (memcached)")))
        .chain((settings.memcached_udp.iter()).map(|address| format!("{address} (memcached, UDP)")))
        .chain((settings.datagram.iter()).map(|address| format!("{address} (datagrams)")))
        .chain((settings.herd.iter()).map(|place| format!("{place} (request regions)")))
        .chain(unix.map(shown))
        .chain((settings.metrics).map(|address| format!("http://{address}/metrics")))
        .collect();
    all.join(", ")
}
