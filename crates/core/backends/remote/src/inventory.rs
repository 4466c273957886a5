//! Inventory of agents: a file, written by hand or by `overside agents`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use overside_config::{Document, Error, Limits, LockedFile, Source, quoted, read_text};
use overside_link::agent::PORT;
use serde::{Deserialize, Serialize};

/// The variable that names the file.
pub const INVENTORY: &str = "OVERSIDE_AGENTS";
/// Default path of the inventory, relative to the user's configuration directory.
const BELOW_CONFIG: &str = "overside/agents.toml";
/// The longest file in bytes, and the most agents in it.
const LIMITS: Limits = Limits::bytes(1 << 20);
const AGENTS_MAX: usize = 1000;
/// The longest name of an agent.
const NAME_BYTES_MAX: usize = 64;

/// Address and keys by which a host reaches an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Host name or address, and port: `192.168.100.2:7433`.
    pub address: String,
    /// The directory with `ca.pem`, `host.pem` and `host.key`; without it nothing is encrypted,
    /// which is for agents of this machine only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<PathBuf>,
}

/// Agents by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inventory {
    #[serde(default)]
    agents: BTreeMap<String, Entry>,
}

impl Inventory {
    /// Returns the path of the inventory: the value of [`INVENTORY`], otherwise
    /// `overside/agents.toml` in the user's configuration directory. `None` for a user who has no
    /// such directory.
    pub fn path() -> Option<PathBuf> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(path) = variable(INVENTORY) {
            return Some(path.into());
        }
        let config = variable("XDG_CONFIG_HOME").map(PathBuf::from);
        let config = config.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")))?;
        Some(config.join(BELOW_CONFIG))
    }

    /// The agents in [`Inventory::path`]; none if there is no such file.
    ///
    /// # Errors
    /// [`Error`].
    pub fn load() -> Result<Self, Error> {
        Self::path().map_or_else(|| Ok(Self::default()), |path| Self::read(&path))
    }

    /// The agents in a file; none if there is no such file.
    ///
    /// # Errors
    /// [`Error`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        if matches!(path.try_exists(), Ok(false)) {
            return Ok(Self::default());
        }
        let text = read_text(path, LIMITS.bytes, Source::Any)?;
        let file = path.display().to_string();
        let document = Document::toml(&file, &text, LIMITS)?;
        let inventory: Self = document.read()?;
        document.count("agents", inventory.agents.len(), 0..=AGENTS_MAX, "agents")?;
        for (name, entry) in &inventory.agents {
            check(name, entry).map_err(|(problem, remedy)| {
                document.error(&format!("agents.{name}"), problem, remedy)
            })?;
        }
        // A path in the file is seen from where the file is.
        let base = path.parent().unwrap_or(Path::new(""));
        let agents = inventory.agents.into_iter().map(|(name, entry)| {
            let keys = entry.keys.map(|keys| base.join(keys));
            (name, Entry { keys, ..entry })
        });
        Ok(Self { agents: agents.collect() })
    }

    /// Adds an agent, or replaces its entry. An address without a port has the port that agents
    /// listen at by default.
    ///
    /// # Errors
    /// The name or the address is invalid, or keys are missing.
    pub fn add(&mut self, name: &str, mut entry: Entry) -> Result<(), String> {
        entry.address = with_port(&entry.address);
        check(name, &entry).map_err(|(problem, remedy)| format!("{problem}; {remedy}"))?;
        if entry.keys.is_none() && !is_here(&entry.address) {
            return Err(format!(
                "{} is not this machine, so it takes --keys DIR; `overside agent keys DIR` makes \
                 them",
                entry.address
            ));
        }
        if self.agents.len() >= AGENTS_MAX && !self.agents.contains_key(name) {
            return Err(format!("there are {AGENTS_MAX} agents already"));
        }
        self.agents.insert(name.into(), entry);
        Ok(())
    }

    /// Removes an agent. Returns `true` if it was in the inventory.
    pub fn remove(&mut self, name: &str) -> bool {
        self.agents.remove(name).is_some()
    }

    /// The agent of that name.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.agents.get(name)
    }

    /// All agents, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.agents.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    /// Writes the file. To change it, lock it, [read](Self::read) it, and then write it.
    ///
    /// # Errors
    /// [`Error`].
    pub fn write(&self, file: &LockedFile) -> Result<(), Error> {
        let text = toml::to_string(self).map_err(|error| {
            let file = file.path().display().to_string();
            Error::of_file(&file, error.to_string(), "name another file")
        })?;
        file.replace(&text)
    }
}

fn with_port(address: &str) -> String {
    match address.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, PORT).to_string(),
        Err(_) if address.contains(':') => address.into(),
        Err(_) => format!("{address}:{PORT}"),
    }
}

/// Returns `true` if every address that the name resolves to is this machine's own.
fn is_here(address: &str) -> bool {
    address.to_socket_addrs().is_ok_and(|mut all| {
        let first = all.next().is_some_and(is_this_machine);
        first && all.all(is_this_machine)
    })
}

/// Checks an agent's name and address. The error contains the problem and the allowed values.
fn check(name: &str, entry: &Entry) -> Result<(), (String, String)> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(plain) {
        return Err((
            format!("{} is no name for an agent", quoted(name)),
            format!("1 to {NAME_BYTES_MAX} letters, digits, - _ and ."),
        ));
    }
    let (host, port) = entry.address.rsplit_once(':').unwrap_or_default();
    let port = port.parse::<u16>().unwrap_or_default();
    if host.is_empty() || port == 0 || entry.address.len() > 300 {
        return Err((
            format!("agent {name}: {} is no address", quoted(&entry.address)),
            "write HOST:PORT, as in 192.168.100.2:7433".into(),
        ));
    }
    Ok(())
}

/// Returns `true` for a loopback address: no other machine can read traffic sent there.
pub(crate) fn is_this_machine(address: SocketAddr) -> bool {
    match address.ip() {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => {
            v6.is_loopback() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback())
        }
    }
}
