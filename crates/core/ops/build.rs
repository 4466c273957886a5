//! Finds the system libraries, builds the RE2 shim, and records the versions of the linked libraries.

use std::path::PathBuf;
use std::process::exit;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // RUSTFLAGS="--cfg without_hyperscan" builds without that library.
    println!("cargo:rustc-check-cfg=cfg(without_hyperscan)");
    let isal = system_library("libisal", "libisal-dev");
    println!("cargo:rustc-env=OVERSIDE_VERSION_ISAL={}", isal.version);
    re2_shim();
    println!("cargo:rustc-env=OVERSIDE_VERSION_LIBDEFLATE={}", libdeflate_version());
}

fn system_library(name: &str, package: &str) -> pkg_config::Library {
    pkg_config::Config::new().probe(name).unwrap_or_else(|error| {
        eprintln!(
            "{error}\n\n{name} was not found; on Debian: apt-get install {package} pkg-config"
        );
        exit(1)
    })
}

fn re2_shim() {
    let source = "src/matching/re2.cc";
    println!("cargo:rerun-if-changed={source}");
    let re2 = system_library("re2", "libre2-dev");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").file(source).includes(&re2.include_paths);
    build.compile("overside_re2");
    // The shim needs RE2, so RE2 has to follow it on the linker's command line.
    for library in &re2.libs {
        println!("cargo:rustc-link-lib={library}");
    }
    // Debian's re2.pc says 0.0.0; the shared library's file name says more.
    let version = match re2.version.as_str() {
        "0.0.0" => shared_library("libre2.so").unwrap_or_else(|| "unknown".into()),
        version => version.into(),
    };
    println!("cargo:rustc-env=OVERSIDE_VERSION_RE2={version}");
}

/// Returns the name of the file that the linker's `name` is a link to: `libre2.so.9.0.0` for
/// `libre2.so`.
fn shared_library(name: &str) -> Option<String> {
    let mut compiler = cc::Build::new().get_compiler().to_command();
    let output = compiler.arg(format!("-print-file-name={name}")).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    let target = fs::canonicalize(path.trim()).ok()?;
    Some(target.file_name()?.to_string_lossy().into_owned())
}

fn libdeflate_version() -> String {
    let header = env::var_os("DEP_LIBDEFLATE_INCLUDE")
        .map(|directory| PathBuf::from(directory).join("libdeflate.h"))
        .and_then(|path| fs::read_to_string(path).ok())
        .unwrap_or_default();
    let quoted = header.lines().find(|line| line.contains("LIBDEFLATE_VERSION_STRING"));
    quoted.and_then(|line| line.split('"').nth(1)).unwrap_or("unknown").into()
}
