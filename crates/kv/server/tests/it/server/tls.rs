//! TLS, with certificates made here.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;

use overside_kv::server::{Addresses, Limits, Password, Settings, Tls};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use rustls::{crypto::ring, pki_types::ServerName};

use super::running::{Client, PATIENCE, Running, local, settings, until};

pub(crate) struct Keys {
    pub server: Arc<ServerConfig>,
    pub client: Arc<ClientConfig>,
    certificate_pem: String,
}

pub(crate) fn keys() -> Keys {
    let provider = || Arc::new(ring::default_provider());
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let key = signing_key.serialize_der().try_into().unwrap();
    let server = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Keys { server: Arc::new(server), client: Arc::new(client), certificate_pem: cert.pem() }
}

pub(crate) fn start(keys: &Keys, settings: Settings) -> Running {
    Running::start(Settings {
        addresses: Addresses { tls: vec![local()], metrics: Some(local()), ..Addresses::default() },
        tls: Some(Tls { config: Arc::clone(&keys.server), requires_certificates: false }),
        ..settings
    })
}

fn tcp(running: &Running) -> TcpStream {
    let addresses = &running.settings.addresses.tls;
    let stream = TcpStream::connect(addresses[0]).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn connect(running: &Running, keys: &Keys) -> Client<Stream> {
    let name = ServerName::try_from("localhost").unwrap();
    let tls = ClientConnection::new(Arc::clone(&keys.client), name).unwrap();
    Client(StreamOwned::new(tls, tcp(running)))
}

#[test]
fn clients_are_served_over_tls() {
    let keys = keys();
    let mut running = start(&keys, settings());
    let mut clients: Vec<_> = (0..4).map(|_| connect(&running, &keys)).collect();
    for client in &mut clients {
        client.ask("PING", "+PONG\r\n");
    }
    // More than one record each way, and one record of several commands.
    for client in &mut clients {
        client.say(&b"PING\r\n".repeat(20_000));
    }
    for client in &mut clients {
        client.hear(&b"+PONG\r\n".repeat(20_000));
        client.ask("PING", "+PONG\r\n");
    }
    let mut last = clients.pop().unwrap();
    last.say(b"QUIT\r\n");
    // With a proper end, or reading would fail.
    assert_eq!(last.rest(), b"+OK\r\n");
    running.stop();
    assert_eq!(clients[0].rest(), b"");
    assert!(running.wait());
}

#[test]
fn who_does_not_complete_the_handshake_is_closed() {
    let keys = keys();
    let running = start(
        &keys,
        Settings {
            limits: Limits {
                authentication: std::time::Duration::from_millis(100),
                ..Limits::default()
            },
            ..settings()
        },
    );
    let silent = tcp(&running);
    let mut wrong = tcp(&running);
    wrong.write_all(b"PING\r\n").unwrap();
    let mut answer = Vec::new();
    // An alert of TLS, and no reply.
    let _ = wrong.read_to_end(&mut answer);
    assert!(!answer.windows(4).any(|bytes| bytes == b"PONG"));
    assert!(Client(silent).rest().len() < 64);
    // On a busy machine one that completes it may be too late as well.
    until("one that completes it is served", || {
        let mut client = connect(&running, &keys).0;
        (client.write_all(b"PING\r\n").and(client.read_exact(&mut [0; 7]))).is_ok()
    });
}

#[test]
fn who_never_reads_holds_bounded_memory_over_tls_as_well() {
    let keys = keys();
    let running = start(&keys, settings());
    let mut greedy = connect(&running, &keys);
    greedy.ask("PING", "+PONG\r\n");
    let timeout = Some(std::time::Duration::from_millis(300));
    greedy.0.sock.set_write_timeout(timeout).unwrap();
    while greedy.0.write_all(&b"PING\r\n".repeat(10_000)).is_ok() {}
    let bytes = running.metric("overside_kv_connections_memory_bytes");
    assert!(bytes < f64::from(8 << 20), "{bytes}");
    connect(&running, &keys).ask("PING", "+PONG\r\n");
    drop(greedy);
    until("closed", || running.metric("overside_kv_connections ") == 0.0);
}

#[test]
fn redis_cli_talks_tls_to_it() {
    let help = Command::new("redis-cli").arg("--help").output();
    let has_tls = help.is_ok_and(|help| {
        [help.stdout, help.stderr]
            .iter()
            .any(|text| String::from_utf8_lossy(text).contains("--cacert"))
    });
    if !has_tls {
        eprintln!("skipped: no redis-cli with TLS is installed");
        return;
    }
    let keys = keys();
    let running = start(&keys, Settings { password: Some(Password::new(b"secret")), ..settings() });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.pem");
    std::fs::write(&path, &keys.certificate_pem).unwrap();
    let addresses = &running.settings.addresses.tls;
    let output = Command::new("redis-cli")
        .args(["--tls", "--no-auth-warning", "-a", "secret", "-h", "127.0.0.1", "--cacert"])
        .arg(&path)
        .args(["-p", &addresses[0].port().to_string(), "PING"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "PONG\n", "{output:?}");
}
