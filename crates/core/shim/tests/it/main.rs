//! Tests of opening a library from memory.

use std::process::Command;

use overside_shim::{PrivateDirectory, open};

/// A library with one function of that name.
fn library(function: &str) -> Vec<u8> {
    let directory = PrivateDirectory::new(function).unwrap();
    let (source, library) =
        (directory.path().join("source.c"), directory.path().join("library.so"));
    std::fs::write(&source, format!("int {function}(void) {{ return 0; }}")).unwrap();
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status()
        .unwrap();
    assert!(compiled.success());
    std::fs::read(library).unwrap()
}

/// The loader knows a library by its path, and takes one for another that has the same.
#[test]
#[allow(unsafe_code)]
fn libraries_that_are_opened_one_after_the_other_are_different() {
    let names = ["first", "second", "third"];
    let libraries = names.map(library);
    for (name, bytes) in names.iter().zip(&libraries) {
        // SAFETY: a library of one function, without initialisers of its own.
        let opened = unsafe { open(name, bytes) }.unwrap();
        // SAFETY: it is only looked for.
        let function = unsafe { opened.get::<unsafe extern "C" fn() -> i32>(name.as_bytes()) };
        assert!(function.is_ok(), "{name}: {:?}", function.err());
    }
}
