//! Devices with wrong results while files are replaced: no file is lost, and the error is reported.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use overside_agent::{Agent, Settings};
use overside_device::Device;
use overside_layers::{Fault, FaultInjection};
use overside_testkit::{InlineDevice, InlineOptions};

use super::*;

/// Kinds of wrong bytes that the device does not report itself.
const LIES: [Fault; 5] = [
    Fault::WrongByte,
    Fault::FewerBytes,
    Fault::FirstSource,
    Fault::EarlyCompletion,
    Fault::FailureAsDone,
];

/// Starts an agent in this process whose device `liar` gives a wrong result for its third job, and
/// writes an inventory with it as `dpu0`.
fn lying(directory: &Directory, lie: Fault) -> Agent {
    let name = "liar";
    let inside = InlineDevice::new(InlineOptions { name, ..InlineOptions::default() });
    let device: Arc<dyn Device> =
        FaultInjection::new(Arc::new(inside), move |job| (job.of_device == 2).then_some(lie))
            .device();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let open = |_: &str| Ok::<_, String>(Arc::clone(&device));
    let agent = Agent::start(Settings::new(address, None), &[name.into()], open).unwrap();
    let text = format!("[agents.dpu0]\naddress = \"{}\"\n", agent.address());
    directory.write("agents.toml", text.as_bytes());
    agent
}

/// Runs `overside` with the agent. Returns the exit code and stderr.
fn run(directory: &Directory, line: &str) -> (i32, String) {
    let mut command = directory.command("timeout");
    command
        .args(["120", COMMAND])
        .args(line.split_whitespace())
        .env("OVERSIDE_AGENTS", directory.path("agents.toml"));
    let output = command.output().unwrap();
    (code(&output), err(&output))
}

#[test]
fn no_file_is_lost_to_a_device_that_lies() {
    let plain = words(6 * MIB, 1);
    for format in ["gzip", "zlib", "lz4", "zstd"] {
        for lie in LIES {
            for policy in ["device", "split:70", "adaptive"] {
                let directory = Directory::with("a", &plain);
                let _agent = lying(&directory, lie);
                let what = format!("{format} {lie:?} {policy}");
                let device = format!("--device dpu0/liar --placement {policy} --chunk 512k");
                let line = format!("compress --format {format} --level 1 {device} a");
                let (compressed, said) = run(&directory, &line);
                let names = directory.names();
                assert!(!names.contains("a agents"), "{what}: {names}");
                // Adaptive placement may give the device fewer than three jobs.
                if policy != "adaptive" {
                    assert_eq!(compressed, 2, "{what}: {said}");
                    for part in ["wrong result", "run again on the cpu", "not tried again"] {
                        assert_contains(&said, part);
                    }
                }
                let archive = names.split(' ').next().unwrap().to_owned();
                let back = directory.quietly(&format!("decompress -kc {archive}"));
                assert!(back == plain, "{what}");
            }
        }
    }
}

#[test]
fn no_archive_is_lost_to_a_device_that_lies() {
    let plain = words(6 * MIB, 2);
    for format in ["gzip", "lz4", "zstd"] {
        let directory = Directory::with("original", &plain);
        let line = format!("compress -c --format {format} --chunk 512k original");
        let archive = directory.quietly(&line);
        for lie in LIES {
            let name = format!("a.{format}").replace("gzip", "gz").replace("zstd", "zst");
            directory.write(&name, &archive);
            let _agent = lying(&directory, lie);
            let (code, said) = run(
                &directory,
                &format!("decompress --device dpu0/liar --placement device {name}"),
            );
            assert_eq!(code, 2, "{format} {lie:?}: {said}");
            assert_contains(&said, "wrong result");
            assert!(directory.read("a") == plain, "{format} {lie:?}");
            assert!(!directory.path(&name).exists());
            std::fs::remove_file(directory.path("a")).unwrap();
        }
    }
}

#[test]
fn the_cost_of_verifying_is_told_and_can_be_saved() {
    let directory = Directory::with("a", &words(4 * MIB, 1));
    let device = "--device emulated:bf2 --placement device";
    let said = |line: &str| err(&directory.run(line));
    let all = said(&format!("compress -kfv {device} a"));
    for part in ["4 of 4 results of emulated:bf2 verified in", "CPU time"] {
        assert_contains(&all, part);
    }
    let none = said(&format!("compress -kfv --verify none {device} a"));
    assert!(!none.contains("verified"), "{none}");
    let sampled = said(&format!("compress -kfv --verify sampled {device} a"));
    assert_contains(&sampled, "of 4 results of emulated:bf2 verified in");
}
