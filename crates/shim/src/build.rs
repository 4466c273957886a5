//! Building a shim, in a build script.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// What a shim is made of.
#[derive(Clone, Copy, Debug)]
pub struct Shim<'a> {
    /// The library's name for `pkg-config`.
    pub package: &'a str,
    /// Its oldest version that has what the shim uses.
    pub oldest: &'a str,
    /// The sources, in the directory `shim` of the crate.
    pub sources: &'a [&'a str],
    /// Flags of the compiler beside the usual ones.
    pub flags: &'a [&'a str],
    /// The condition that the crate is compiled under where the shim was built.
    pub condition: &'a str,
    /// The environment variables `NAME_SHIM`, the shared library's path, and `NAME_VERSION`, the
    /// library's version, are set for the crate.
    pub name: &'a str,
}

impl Shim<'_> {
    /// Builds it if the library is there. Where it is not, the crate is compiled without the
    /// condition: most machines have none, so there is no warning.
    ///
    /// # Panics
    /// If the library is there and the shim does not compile.
    pub fn build(&self) {
        println!("cargo:rerun-if-changed=build.rs");
        println!("cargo:rerun-if-changed=shim");
        println!("cargo:rustc-check-cfg=cfg({})", self.condition);
        self.watch();
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
        let out = out.join(format!("{}.so", self.name.to_lowercase()));
        // One of a build when the library was there must not be found by anybody.
        let _ = fs::remove_file(&out);
        let mut probe = pkg_config::Config::new();
        probe.atleast_version(self.oldest).cargo_metadata(false);
        match probe.probe(self.package) {
            Ok(found) => {
                self.compile(&out);
                println!("cargo:rustc-cfg={}", self.condition);
                println!("cargo:rustc-env={}_VERSION={}", self.name, found.version);
                println!("cargo:rustc-env={}_SHIM={}", self.name, out.display());
            }
            Err(error) => println!("{}: {error}", self.package),
        }
    }

    fn compile(&self, out: &Path) {
        let mut compiler = cc::Build::new().get_compiler().to_command();
        compiler
            .args(["-shared", "-fPIC", "-fvisibility=hidden"])
            .args(["-Wall", "-Wextra", "-std=gnu11", "-O2"])
            .args(self.flags)
            .args(self.flags_for("--cflags"))
            .args(self.sources.iter().map(|source| format!("shim/{source}")))
            .arg("-Wl,--as-needed,-z,defs")
            .args(self.flags_for("--libs"))
            .arg("-lpthread")
            .arg("-o")
            .arg(out);
        let status = compiler.status();
        assert!(
            matches!(&status, Ok(status) if status.success()),
            "the shim of {} does not build ({status:?}): {compiler:?}",
            self.package
        );
    }

    /// All flags, also those that the crate does not pass on, such as `-include` and `-march`.
    fn flags_for(&self, which: &str) -> Vec<String> {
        let program = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
        let output = Command::new(program).args([which, self.package]).output();
        let output = output.expect("pkg-config found the package a moment ago");
        let text = String::from_utf8_lossy(&output.stdout);
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// Builds again when the library comes or goes: when a directory changes where its
    /// description lies.
    fn watch(&self) {
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
            let description = path.join(format!("{}.pc", self.package));
            if description.exists() {
                println!("cargo:rerun-if-changed={}", description.display());
            } else {
                println!("cargo:rerun-if-changed={directory}");
            }
        }
    }
}
