//! An agent's part in key-value stores: those of hosts, and the load on them.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use overside_kv_bench::remote::LoadProbe;
use overside_kv_offload::agent::EngineProbe;
use overside_link::agent::Probe;

/// Options for the resources that hosts' key-value stores may use on this machine.
#[derive(clap::Args)]
pub struct StoreArguments {
    /// Let hosts keep key-value stores (`kv serve --dir`) in this directory, 16 at most, each under a name of its
    /// own [default: in memory only]
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    kv_dir: Option<PathBuf>,
    /// Certificates for TLS clients of hosts' key-value stores here: directory with server.pem and server.key,
    /// and ca.pem for client certificates
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    kv_tls_keys: Option<PathBuf>,
    /// Let hosts' key-value stores serve datagrams at this network port by DPDK (`kv serve --dpdk-port`); may be
    /// repeated
    #[arg(long = "kv-dpdk-port", value_name = "DEVICE")]
    kv_dpdk_ports: Vec<String>,
}

impl StoreArguments {
    /// Returns what answers hosts.
    ///
    /// # Errors
    /// A relative directory, where the current one is not there any more.
    pub fn probes(&self) -> io::Result<Vec<Arc<dyn Probe>>> {
        let kept = self.kv_dir.as_deref().map(std::path::absolute);
        Ok(vec![
            Arc::new(EngineProbe {
                kept: kept.transpose()?,
                tls_keys: self.kv_tls_keys.clone(),
                ports: self.kv_dpdk_ports.clone(),
            }),
            Arc::new(LoadProbe),
        ])
    }
}
