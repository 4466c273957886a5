//! Building a shim, in a build script.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::compiler;

/// Description of a shim for a build script. The source files are in the directory `shim` of the
/// crate.
#[derive(Clone, Copy, Debug)]
pub struct Shim<'a> {
    /// Name of the C library, as texts print it.
    pub title: &'a str,
    /// The C library's name as a word of the command line.
    pub name: &'a str,
    /// The library's name for `pkg-config`.
    pub package: &'a str,
    /// Oldest version of the library that has all functions that the shim uses.
    pub oldest: &'a str,
    /// Debian packages of the library and of everything that compiling with it needs.
    pub debian: &'a str,
    /// Flags of the compiler in addition to the usual ones.
    pub flags: &'a [&'a str],
}

impl Shim<'_> {
    /// Compiles it if the library is there; most machines have none, so there is no warning. Leaves
    /// `shim.rs` in `OUT_DIR`, which is an `overside_shim::Description`.
    ///
    /// # Panics
    /// If the library is there and the shim does not compile.
    pub fn build(&self) {
        println!("cargo:rerun-if-changed=build.rs");
        println!("cargo:rerun-if-changed=shim");
        self.watch();
        let place = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
        let library = place.join(format!("{}.so", self.name));
        let sources = sources();
        let mut probe = pkg_config::Config::new();
        probe.atleast_version(self.oldest).cargo_metadata(false);
        let built = match probe.probe(self.package) {
            Ok(_) => {
                self.compile(&sources, &library);
                format!("Some(include_bytes!({library:?}))")
            }
            Err(error) => {
                println!("{}: {error}", self.package);
                "None".into()
            }
        };
        let mut files = String::new();
        for source in &sources {
            let name = source.file_name().expect("a file").to_string_lossy();
            write!(files, "({name:?}, include_str!({source:?})), ").expect("it is a string");
        }
        let Self { title, name, package, oldest, debian, flags } = self;
        let text = format!(
            "::overside_shim::Description {{ title: {title:?}, name: {name:?}, package: {package:?}, \
             oldest: {oldest:?}, debian: {debian:?}, flags: &{flags:?}, files: &[{files}], \
             built: {built} }}"
        );
        fs::write(place.join("shim.rs"), text).expect("OUT_DIR can be written to");
    }

    fn compile(&self, files: &[PathBuf], out: &Path) {
        let sources = compiler::sources(files);
        let compiler = cc::Build::new().get_compiler().to_command();
        let compiler = compiler::arguments(compiler, self.package, self.flags, &sources, out);
        let mut compiler = compiler.expect("pkg-config found the package a moment ago");
        let status = compiler.status();
        assert!(
            matches!(&status, Ok(status) if status.success()),
            "the shim of {} does not build ({status:?}): {compiler:?}",
            self.package
        );
    }

    /// Builds again when the library comes or goes: when a directory changes where its
    /// description lies.
    fn watch(&self) {
        println!("cargo:rerun-if-env-changed=PKG_CONFIG");
        println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
        let output = compiler::pkg_config().args(["--variable", "pc_path", "pkg-config"]).output();
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

/// All files of the crate's shim, in the order of their names.
fn sources() -> Vec<PathBuf> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let entries = fs::read_dir(root.join("shim")).expect("the crate has a directory `shim`");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("it can be listed").path())
        .filter(|path| path.extension().is_some_and(|end| end == "c" || end == "h"))
        .collect();
    files.sort();
    files
}
