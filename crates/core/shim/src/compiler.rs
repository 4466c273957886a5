//! The compiler's call, for build scripts and for [`crate::Shim::compile`].

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program that knows where libraries are.
pub(crate) fn pkg_config() -> Command {
    Command::new(env::var_os("PKG_CONFIG").unwrap_or_else(|| OsString::from("pkg-config")))
}

/// Returns the words that `pkg-config` prints for a package if it is called with `question`, such
/// as `--libs`.
///
/// # Errors
/// It does not start.
pub(crate) fn flags_for(question: &str, package: &str) -> io::Result<Vec<String>> {
    let output = pkg_config().args([question, package]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// Returns the files of a shim that are compiled (`*.c`). The compiled files include the others.
pub(crate) fn sources(files: &[PathBuf]) -> Vec<PathBuf> {
    let is_source = |file: &&PathBuf| file.extension().is_some_and(|end| end == "c");
    files.iter().filter(is_source).cloned().collect()
}

/// Adds the arguments by which `compiler` makes the shared library `out` of these sources. All
/// flags of the package are passed on, also those such as `-include` and `-march`; its libraries
/// are found where they were linked, which vendors put into directories of their own.
///
/// # Errors
/// `pkg-config` does not start.
pub(crate) fn arguments(
    mut compiler: Command,
    package: &str,
    flags: &[&str],
    sources: &[PathBuf],
    out: &Path,
) -> io::Result<Command> {
    let libraries = flags_for("--libs", package)?;
    let directories = libraries.iter().filter_map(|flag| flag.strip_prefix("-L"));
    let found: Vec<String> =
        directories.map(|directory| format!("-Wl,-rpath,{directory}")).collect();
    compiler
        .args(["-shared", "-fPIC", "-fvisibility=hidden"])
        .args(["-Wall", "-Wextra", "-std=gnu11", "-O2"])
        .args(flags)
        .args(flags_for("--cflags", package)?)
        .args(sources)
        .arg("-Wl,--as-needed,-z,defs")
        .args(&libraries)
        .args(found)
        .arg("-lpthread")
        .arg("-o")
        .arg(out);
    Ok(compiler)
}
