//! Tests of the buffers that the shim passes to a driver, with a test driver that is as strict as a
//! card's.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use overside_backend_dpdk::{DpdkDevice, Environment};
use overside_device::Device;
use overside_testkit::conformance::PROMISES;

/// The shim and the card in one library; nothing if DPDK or a compiler is not here.
fn library(directory: &Path) -> Option<PathBuf> {
    let flags = |which| {
        let output = Command::new("pkg-config").args([which, "libdpdk"]).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let all: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        output.status.success().then_some(all)
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = std::fs::read_dir(root.join("shim")).unwrap();
    let sources = (sources.map(|entry| entry.unwrap().path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "c"));
    let out = directory.join("card.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-fvisibility=hidden", "-O1", "-std=gnu11"])
        .arg("-DALLOW_EXPERIMENTAL_API")
        .args(flags("--cflags")?)
        .args(sources)
        .arg(root.join("tests/it/card.c"))
        .arg("-Wl,--as-needed")
        .args(flags("--libs")?)
        .args(["-lz", "-lpthread", "-o"])
        .arg(&out)
        .status()
        .ok()?;
    assert!(built.success(), "the shim builds");
    Some(out)
}

/// DPDK starts once in a process, and the other tests start it without this card: this one runs
/// again in a process of its own, which the variable marks.
const INSIDE: &str = "OVERSIDE_TEST_INSIDE";

#[test]
fn buffers_are_what_a_card_wants() {
    if std::env::var_os(INSIDE).is_none() {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["buffers::buffers_are_what_a_card_wants", "--exact", "--nocapture"])
            .env(INSIDE, "yes")
            .status()
            .unwrap();
        assert!(status.success(), "{status}");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(library) = library(directory.path()) else {
        eprintln!("skipped: there is no DPDK to build a driver for");
        return;
    };
    let environment = Environment::with_library(&library).unwrap();
    let device = || DpdkDevice::open_in(&environment, "card0").unwrap();
    let operations: Vec<String> = (device().capabilities().iter())
        .map(|one| format!("{} {}", one.operation, one.max_segments))
        .collect();
    assert_eq!(operations, ["compress-deflate 1", "decompress-deflate 1"]);
    for (name, promise) in PROMISES {
        eprintln!("{name}");
        promise(&|| Arc::new(device()) as Arc<dyn Device>);
    }
}
