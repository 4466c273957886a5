//! A server for one measurement.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use overside_kv::store::{MEMORY_MAX_BYTES, MEMORY_MIN_BYTES};
use overside_kv_bench::{Address, Settings};
use serde_json::Value;

use super::OwnServerArguments;
use overside_command::system;

/// Memory of a record without key and value, with free space around it; generously.
const RECORD_BYTES: usize = 128;
const SPARE_BYTES: usize = 64 << 20;

/// `overside kv serve` at a port of this machine. It ends with this, or with this process.
pub(super) struct ServerProcess {
    process: Child,
    address: SocketAddr,
}

impl ServerProcess {
    pub(super) fn start(
        arguments: &OwnServerArguments,
        settings: &Settings,
    ) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("no server could be started: {error}");
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command
            .args(["kv", "serve", "--json", "--listen", "127.0.0.1:0", "--drain", "0"])
            .args(["--memory", &memory_bytes(settings).to_string()])
            .args(["--log", "error"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if let Some(core) = arguments.server_core {
            command.args(["--core", &core.to_string()]);
        }
        if arguments.server_busy_poll {
            command.arg("--busy-poll");
        }
        command.args(&arguments.options);
        system::end_with_this_thread(&mut command);
        let process = command.spawn().map_err(failed)?;
        let mut own = Self { process, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let mut line = String::new();
        if let Some(out) = own.process.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(failed)?;
        }
        let announced: Value = serde_json::from_str(&line).unwrap_or_default();
        let address = announced["listen"][0].as_str().and_then(|text| text.parse().ok());
        // Why not, it has said on stderr.
        own.address = address.ok_or("the server that was started for this has ended")?;
        Ok(own)
    }

    pub(super) fn address(&self) -> Address {
        Address::Tcp(self.address)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It has ended already, or does so at once; its data are not needed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Room for all records twice: inserts add some.
fn memory_bytes(settings: &Settings) -> usize {
    let records = &settings.records;
    let one = records.key_bytes + records.value_bytes + RECORD_BYTES;
    let all = usize::try_from(records.count).unwrap_or(usize::MAX).saturating_mul(one);
    let wanted = all.saturating_mul(2).saturating_add(SPARE_BYTES);
    wanted.clamp(MEMORY_MIN_BYTES, MEMORY_MAX_BYTES)
}
