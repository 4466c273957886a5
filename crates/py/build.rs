//! Notes the commit that the module is built from: `OVERSIDE_COMMIT`, which `make` sets, or what git says
//! here; nothing where there is neither.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=OVERSIDE_COMMIT");
    let named = std::env::var("OVERSIDE_COMMIT").unwrap_or_default();
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
        .args([
            "describe",
            "--always",
            "--dirty",
            "--abbrev=12",
            "--exclude=*",
        ])
        .output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => String::new(),
    }
}
