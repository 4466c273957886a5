//! Every driver serves alike.

use std::process::Command;

use overside_kv::server::{DriverKind, Server, ServerError, Settings};

use super::running::{DRIVER, Running, settings};

/// The tests of servers, which this one runs again.
const TESTS: [&str; 4] = ["server::", "partitions::serving", "replica::", "cluster::"];

/// Whether this system has io_uring; says why not.
fn has_io_uring() -> bool {
    let bound = Server::bind(Settings {
        driver: DriverKind::IoUring,
        ..Settings::default()
    });
    match bound {
        Ok(_) => true,
        Err(ServerError::Driver(error)) => {
            eprintln!("skipped: {error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn all_tests_of_servers_pass_with_io_uring() {
    if std::env::var_os(DRIVER).is_some() || !has_io_uring() {
        return;
    }
    let tests = std::env::current_exe().unwrap();
    let output = Command::new(tests)
        .args(TESTS)
        .env(DRIVER, "io_uring")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("running 0 tests"), "{text}");
}

#[test]
fn a_server_says_which_driver_it_has() {
    let running = Running::start(settings());
    let driver = settings().driver.name();
    let mut client = running.connect();
    client.say(b"INFO overside\r\nQUIT\r\n");
    let text = String::from_utf8(client.rest()).unwrap();
    assert!(text.contains(&format!("driver:{driver}\r\n")), "{text}");
}
