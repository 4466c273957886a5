//! Builds the shim where DPDK is installed. It becomes a shared library of its own that is part of
//! this crate as bytes and loaded when a DPDK device is asked for: nothing that is linked needs
//! DPDK, and nothing has to be found beside the program.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The oldest version that has what the shim uses.
const OLDEST: &str = "22.11";
const SOURCES: [&str; 5] = [
    "environment.c",
    "memory.c",
    "compress.c",
    "copy.c",
    "match.c",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=shim");
    println!("cargo:rustc-check-cfg=cfg(shim)");
    watch_for_dpdk();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join("overside_dpdk.so");
    // One of a build when DPDK was there must not be found by anybody.
    let _ = fs::remove_file(&out);
    let mut probe = pkg_config::Config::new();
    probe.atleast_version(OLDEST).cargo_metadata(false);
    match probe.probe("libdpdk") {
        Ok(found) => {
            build(&out);
            println!("cargo:rustc-cfg=shim");
            println!("cargo:rustc-env=OVERSIDE_DPDK_VERSION={}", found.version);
            println!("cargo:rustc-env=OVERSIDE_DPDK_SHIM={}", out.display());
        }
        Err(error) => {
            // Not a warning: most machines have no DPDK.
            println!("libdpdk: {error}");
        }
    }
}

fn build(out: &Path) {
    let mut compiler = cc::Build::new().get_compiler().to_command();
    compiler
        .args([
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
            "-Wall",
            "-Wextra",
        ])
        .args(["-std=gnu11", "-O2", "-DALLOW_EXPERIMENTAL_API"])
        .args(pkg_config_flags("--cflags"))
        .args(SOURCES.map(|source| format!("shim/{source}")))
        .arg("-Wl,--as-needed,-z,defs")
        .args(pkg_config_flags("--libs"))
        .arg("-lpthread")
        .arg("-o")
        .arg(out);
    let status = compiler.status();
    assert!(
        matches!(&status, Ok(status) if status.success()),
        "the DPDK shim does not build ({status:?}): {compiler:?}"
    );
}

/// All flags, also those that the crate does not pass on, such as `-include` and `-march`.
fn pkg_config_flags(which: &str) -> Vec<String> {
    let program = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    let output = Command::new(program).args([which, "libdpdk"]).output();
    let output = output.expect("pkg-config found libdpdk a moment ago");
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_whitespace().map(str::to_owned).collect()
}

/// Builds again when DPDK comes or goes: when a directory changes where its description lies.
fn watch_for_dpdk() {
    println!("cargo:rerun-if-env-changed=PKG_CONFIG");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let program = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    let output = Command::new(program)
        .args(["--variable", "pc_path", "pkg-config"])
        .output();
    let text = output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    );
    let more = env::var("PKG_CONFIG_PATH").unwrap_or_default();
    for directory in text.trim().split(':').chain(more.split(':')) {
        let path = Path::new(directory);
        if directory.is_empty() || !path.is_dir() {
            continue;
        }
        let description = path.join("libdpdk.pc");
        if description.exists() {
            println!("cargo:rerun-if-changed={}", description.display());
        } else {
            println!("cargo:rerun-if-changed={directory}");
        }
    }
}
