//! `overside agents deploy`: installs an agent on another machine that only needs ssh and a shell.
//!
//! One ssh connection transfers everything, so the user enters a password once: first the script
//! `deploy.sh`, then the files, which the script reads from its standard input by their lengths.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};

use overside_agent::keys;
use overside_command::{complain, messages::shown};
use overside_link::agent::keys::{AGENT_FILES, CA_CERTIFICATE};

const SCRIPT: &str = include_str!("deploy.sh");
const UNIT: &str = include_str!("../../../../contrib/overside-agent.service");
/// Maximum number of bytes that are read from the other machine.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Machine that gets the agent, as ssh knows it
    #[arg(value_name = "[USER@]HOST")]
    pub host: String,
    /// Name of the agent here [default: the host's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Directory with the keys, which are created if they do not exist [default: keys beside the inventory]
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    keys: Option<PathBuf>,
    /// Command to copy, such as dist/overside-aarch64, which `make dist` builds [default: this one]
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    binary: Option<PathBuf>,
    /// Address that the agent listens at [default: the one that ssh reached]
    #[arg(long, value_name = "ADDRESS", value_parser = crate::agent::address)]
    listen: Option<SocketAddr>,
    /// Install into the home directory there, without root, and start a process instead of a service
    #[arg(long)]
    user: bool,
    /// Command and options of ssh
    #[arg(long, value_name = "COMMAND", default_value = "ssh", allow_hyphen_values = true)]
    ssh: String,
}

/// Result of a deployment.
pub(super) struct Deployed {
    /// Name of the agent in this host's inventory.
    pub name: String,
    /// Address at which the agent listens.
    pub address: String,
    /// Directory with this host's keys for the agent.
    pub keys: PathBuf,
    /// Sentence for users about how the agent was started.
    pub started: String,
    /// Command that shows the agent's log.
    pub log: String,
}

impl Arguments {
    /// Installs and starts the agent. `keys` is the default directory of keys.
    ///
    /// # Errors
    /// The problem and the remedy.
    pub(super) fn deploy(&self, inventory: &Path) -> Result<Deployed, String> {
        let name = self.agent_name()?;
        let keys = match &self.keys {
            Some(keys) => keys.clone(),
            None => inventory.parent().unwrap_or(Path::new("")).join("keys"),
        };
        let keys = std::path::absolute(keys).map_err(|error| format!("--keys: {error}"))?;
        if !keys.exists() {
            keys::make(&keys).map_err(|error| error.to_string())?;
            complain!("made keys in {}", shown(&keys));
        }
        let files = self.files(&keys)?;
        let answer = self.send(&files)?;
        let value = |key: &str| {
            let mut lines = answer.lines();
            lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        };
        let address = value("listen").ok_or("it did not say where the agent listens")?;
        let started = match (value("process"), self.user) {
            (None, _) => "the service overside-agent runs there".into(),
            (Some(process), true) => {
                format!("it runs as process {process}, until that machine ends")
            }
            (Some(process), false) => {
                format!("no systemd there: it runs as process {process}, until that machine ends")
            }
        };
        let log = value("log").unwrap_or_default().trim();
        let log = format!("{} {} {log}", self.ssh, self.host);
        Ok(Deployed { name, address: address.into(), keys, started, log })
    }

    fn agent_name(&self) -> Result<String, String> {
        if self.host.starts_with('-') {
            return Err(format!("{:?} is no host", self.host));
        }
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let host = self.host.rsplit('@').next().unwrap_or_default();
        match host.parse::<IpAddr>() {
            Ok(_) => Err("a host without a name takes --name, as in --name dpu0".into()),
            Err(_) => Ok(host.split('.').next().unwrap_or_default().into()),
        }
    }

    /// Returns the contents of the files in the order in which the script reads them.
    fn files(&self, keys: &Path) -> Result<[Vec<u8>; 5], String> {
        let read = |path: &Path| {
            fs::read(path).map_err(|error| format!("cannot read {}: {error}", shown(path)))
        };
        let own = || std::env::current_exe().map_err(|error| error.to_string());
        let binary = self.binary.clone().map_or_else(own, Ok)?;
        Ok([
            read(&binary)?,
            read(&keys.join(CA_CERTIFICATE))?,
            read(&keys.join(AGENT_FILES[0]))?,
            read(&keys.join(AGENT_FILES[1]))?,
            UNIT.into(),
        ])
    }

    /// Runs the script on the other machine. Returns its output.
    fn send(&self, files: &[Vec<u8>; 5]) -> Result<String, String> {
        let mut words = self.ssh.split_whitespace();
        let program = words.next().ok_or("--ssh names no program")?;
        let mut child = Command::new(program)
            .args(words)
            .arg(&self.host)
            .arg(self.remote_command(files)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program} cannot be started: {error}"))?;
        let sent = child.stdin.take().map(|stdin| send_all(stdin, files));
        let mut answer = String::new();
        let read = (child.stdout.take())
            .map(|stdout| stdout.take(ANSWER_BYTES_MAX).read_to_string(&mut answer));
        let status = child.wait().map_err(|error| error.to_string())?;
        match (status.code(), sent, read) {
            (Some(0), Some(Ok(())), Some(Ok(_))) => Ok(answer),
            (Some(255), ..) => Err(format!("ssh could not reach {}", self.host)),
            _ => Err(format!("{} did not take the agent, for the reason above", self.host)),
        }
    }

    /// Returns the command for the remote shell: it reads the script from stdin and runs it, and
    /// the script reads the files that follow.
    fn remote_command(&self, files: &[Vec<u8>; 5]) -> Result<String, String> {
        let listen = self.listen.map(|listen| listen.to_string());
        let whose = if self.user { "user" } else { "system" };
        let sizes: Vec<String> = files.iter().map(|file| file.len().to_string()).collect();
        Ok(format!(
            "sh -c \"$(head -c {})\" deploy {} '{}' {whose} {}",
            SCRIPT.len(),
            architecture(&files[0]).ok_or("--binary is no command for Linux on x86-64 or Arm")?,
            listen.unwrap_or_default(),
            sizes.join(" ")
        ))
    }
}

/// Sends the script and the files. A broken pipe is no error: the other side reports the reason.
fn send_all(mut stdin: ChildStdin, files: &[Vec<u8>; 5]) -> io::Result<()> {
    stdin.write_all(SCRIPT.as_bytes())?;
    files.iter().try_for_each(|file| stdin.write_all(file))
}

/// Returns the architecture of a program as `uname -m` prints it (ELF, generic ABI: `e_machine`).
/// `None` if it is neither x86-64 nor 64-bit Arm.
fn architecture(program: &[u8]) -> Option<&'static str> {
    if !program.starts_with(b"\x7fELF") {
        return None;
    }
    match program.get(18..20)? {
        [62, 0] => Some("x86_64"),
        [183, 0] => Some("aarch64"),
        _ => None,
    }
}
