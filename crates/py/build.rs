//! Notes the commit that the module is built from: `OVERSIDE_COMMIT`, which `make` sets, or what git says
//! here; nothing where there is neither. Writes the documentation for `stub!`.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, mem};

fn main() {
    write_documentation("../../python/overside/_core.pyi");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=OVERSIDE_COMMIT");
    let named = env::var("OVERSIDE_COMMIT").unwrap_or_default();
    let commit = if named.is_empty() { described() } else { named };
    println!("cargo:rustc-env=OVERSIDE_COMMIT={commit}");
}

/// The commit, with `-dirty` behind it if files differ from it.
fn described() -> String {
    // Where there is a repository, another commit is noticed by this file.
    let log = "../../.git/logs/HEAD";
    if std::path::Path::new(log).exists() {
        println!("cargo:rerun-if-changed={log}");
    }
    let output = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
        .output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => String::new(),
    }
}

/// Writes the text of each class, function and method of a stub into a file of its own, called `Class.method`.
fn write_documentation(stub: &str) {
    println!("cargo:rerun-if-changed={stub}");
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let text = fs::read_to_string(stub).expect("the stub can be read");
    let (mut class, mut name) = (String::new(), String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let words = line.trim_start();
        let indent = line.len() - words.len();
        let defined = words.strip_prefix("def ").or(words.strip_prefix("class "));
        if let Some(defined) = defined {
            let own = defined.split(['(', ':']).next().unwrap_or_default();
            name = if indent == 0 { own.to_owned() } else { format!("{class}.{own}") };
            if indent == 0 {
                class.clone_from(&name);
            }
        } else if let Some(first) = words.strip_prefix("\"\"\"")
            && !name.is_empty()
        {
            let mut said = first.to_owned();
            while !said.ends_with("\"\"\"") {
                let next = lines.next().expect("the text of a stub has an end");
                said += "\n";
                said += next.get(indent..).unwrap_or_default();
            }
            let said = said.trim_end_matches('"').trim_end();
            fs::write(folder.join(mem::take(&mut name)), said).expect("it can be written");
        }
    }
}
