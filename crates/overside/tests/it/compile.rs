//! `overside devices --compile`: connects a command that was built elsewhere with this machine's
//! DPDK and UCX.

use std::path::Path;
use std::process::{Command, Output};

use overside_testkit::assert_contains;

const COMMAND: &str = env!("CARGO_BIN_EXE_overside");

/// Runs `overside devices` with its shims in `directory`.
fn devices(directory: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(COMMAND)
        .arg("devices")
        .args(arguments)
        .env("OVERSIDE_LIBRARY_DIR", directory)
        .env("OVERSIDE_AGENTS", "/there/is/none.toml")
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn has(package: &str) -> bool {
    let found = Command::new("pkg-config").arg(package).status();
    found.is_ok_and(|status| status.success())
}

#[test]
fn what_was_compiled_here_is_used() {
    if !has("libdpdk >= 22.11") || !has("ucx >= 1.12") {
        return println!("skipped: there is no DPDK and UCX");
    }
    let place = tempfile::tempdir().unwrap();
    let done = devices(place.path(), &["--compile", "ucx", "--compile", "dpdk"], &[]);
    assert!(done.status.success(), "{}", err(&done));
    assert_contains(err(&done), "compiled for DPDK ");
    assert_contains(err(&done), "compiled for UCX ");
    let names = files(place.path());
    assert_eq!(names.len(), 2, "{names:?}");

    let listed = devices(place.path(), &[], &[]);
    assert_contains(String::from_utf8(listed.stdout).unwrap(), "dpdk:compress_zlib: ");
    // The compiled file is the one that is loaded: if it is not a library, the error names the remedy.
    std::fs::write(place.path().join(&names[0]), "no library").unwrap();
    let listed = devices(place.path(), &[], &[]);
    let text = String::from_utf8(listed.stdout).unwrap();
    assert_contains(text.clone(), "DPDK cannot be loaded: ");
    assert_contains(text, "overside devices --compile dpdk");
}

#[test]
fn without_the_library_or_a_compiler_it_says_what_to_install() {
    let place = tempfile::tempdir().unwrap();
    let compile = |variables| devices(place.path(), &["--compile", "ucx"], variables);
    let done = compile(&[("PKG_CONFIG", "/there/is/none")]);
    assert_eq!(done.status.code(), Some(3));
    assert_contains(err(&done), "apt-get install gcc pkg-config");
    let nowhere = [("PKG_CONFIG_LIBDIR", "/there"), ("PKG_CONFIG_PATH", "")];
    let done = compile(&nowhere);
    assert_eq!(done.status.code(), Some(3));
    assert_contains(err(&done), "pkg-config finds no UCX 1.12 or later");
    assert_contains(err(&done), "apt-get install libucx-dev");
    if has("ucx >= 1.12") {
        let done = compile(&[("CC", "false")]);
        assert_contains(err(&done), "it does not compile with this UCX");
    }
    assert_eq!(files(place.path()), [] as [&str; 0], "nothing is left behind");
    let unknown = devices(place.path(), &["--compile", "doca"], &[]);
    assert_eq!(unknown.status.code(), Some(2));
}
