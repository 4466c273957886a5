//! Agents to test with, on this machine.

// Each test file uses a part of it.
#![allow(dead_code)]

pub(crate) mod jobs;
pub(crate) mod proxy;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use overside_agent::{Agent, Limits, Settings};
use overside_backend_cpu::{CpuDevice, CpuOptions};
use overside_backend_emulated::{EmulatedDevice, Mode};
use overside_backend_remote::{Entry, RemoteDevice, Timeouts};
use overside_device::Device;
use overside_layers::DeviceLayer;
use overside_link::agent::{Probe, control};
use overside_link::codec::Message;

use proxy::{Fault, Proxy};

pub(crate) const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Longer than a busy machine keeps any thread from its turn.
pub(crate) const PATIENT: Timeouts = Timeouts {
    connect: Duration::from_secs(60),
    open: Duration::from_secs(60),
    ask: Duration::from_millis(200),
    silence: Duration::from_secs(60),
};

/// For tests in which an agent that falls silent is lost.
pub(crate) const SHORT: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    open: Duration::from_secs(20),
    silence: Duration::from_secs(2),
    ..PATIENT
};

/// Keys of an authority that all tests share.
pub(crate) fn keys() -> PathBuf {
    static KEYS: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
        let directory = tempfile::tempdir().expect("a directory");
        overside_agent::keys::make(directory.path()).expect("keys");
        directory
    });
    KEYS.path().to_owned()
}

pub(crate) fn cpu(threads: usize) -> Arc<dyn Device> {
    let options = CpuOptions { threads, cores: None };
    Arc::new(CpuDevice::new(options).expect("a device of these cores"))
}

pub(crate) fn emulated(profile: &str) -> Arc<dyn Device> {
    let profile = overside_model::profile(profile).expect("built in");
    Arc::new(EmulatedDevice::new(profile, Mode::Functional))
}

/// An agent on this machine that offers one device, with keys or without.
pub(crate) fn agent(device: Arc<dyn Device>, secure: bool) -> Agent {
    agent_with(device, secure, Limits::default())
}

pub(crate) fn agent_with(device: Arc<dyn Device>, secure: bool, limits: Limits) -> Agent {
    agent_playing(device, secure, limits, Vec::new())
}

/// An agent that plays ends of tests as well.
pub(crate) fn agent_playing(
    device: Arc<dyn Device>,
    secure: bool,
    limits: Limits,
    probes: Vec<Arc<dyn Probe>>,
) -> Agent {
    let keys = secure.then(|| overside_agent::keys::agent(&keys()).expect("the agent's keys"));
    let settings = Settings { limits, probes, ..Settings::new(LOOPBACK, keys) };
    let names = [device.info().name.clone()];
    let open = |_: &str| Ok::<_, String>(Arc::clone(&device));
    Agent::start(settings, &names, open).expect("an agent")
}

/// Returns the inventory entry that a host uses to reach the agent.
pub(crate) fn entry(address: SocketAddr, secure: bool) -> Entry {
    Entry { address: address.to_string(), keys: secure.then(keys) }
}

/// The device that an agent there offers.
pub(crate) fn remote(address: SocketAddr, secure: bool, device: &str) -> RemoteDevice {
    RemoteDevice::connect("dpu0", &entry(address, secure), device, PATIENT)
        .expect("the agent's device")
}

/// A remote device, an optional proxy, and the agent.
pub(crate) struct WithAgent {
    pub device: RemoteDevice,
    pub proxy: Option<Proxy>,
    pub agent: Agent,
}

impl WithAgent {
    pub(crate) fn new(device: Arc<dyn Device>, secure: bool) -> Self {
        let name = device.info().name.clone();
        let agent = agent(device, secure);
        Self { device: remote(agent.address(), secure, &name), proxy: None, agent }
    }

    /// Makes an agent's device whose connections all have this fault, in both directions.
    pub(crate) fn over(device: Arc<dyn Device>, fault: Fault) -> Self {
        let name = device.info().name.clone();
        let agent = agent(device, true);
        let proxy = Proxy::both(agent.address(), fault);
        Self { device: remote(proxy.address(), true, &name), proxy: Some(proxy), agent }
    }
}

impl DeviceLayer for WithAgent {
    fn inner(&self) -> &dyn Device {
        &self.device
    }
}

/// Messages as whole frames.
pub(crate) trait Framed {
    fn framed(&self) -> Vec<u8>;
}

impl<M: Message> Framed for M {
    fn framed(&self) -> Vec<u8> {
        control(self)
    }
}

/// Longer than anything here takes, however busy the machine is.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Bytes that an agent sends to a client that sends `bytes`, until the agent ends the connection.
pub(crate) fn told(agent: &Agent, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(agent.address()).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    // It may end the connection before it has read all.
    let _ = socket.write_all(bytes);
    let mut said = Vec::new();
    match socket.read_to_end(&mut said) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => {
            panic!("the agent does not end the connection: {error}")
        }
        _ => said,
    }
}
