//! Rules of a regexdev, compiled before.
//!
//! These engines take rules in a form of their own, made by their vendor's compiler; none compiles
//! at run time. So the user keeps compiled rules next to their patterns.

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The variable that names the directory with rules.
pub const RULES: &str = "OVERSIDE_DPDK_RULES";
/// The ending of a file with patterns, one on each line.
const PATTERNS: &str = "patterns";
/// The ending of the file with the compiled rules.
const COMPILED: &str = "compiled";
/// The largest of such files in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// Rules for one set of patterns.
pub(crate) struct Rules {
    pub(crate) patterns: Vec<String>,
    pub(crate) compiled: Vec<u8>,
}

/// The rules for exactly these patterns.
pub(crate) fn find(patterns: &[String]) -> Result<Arc<Rules>, String> {
    let Some(directory) = std::env::var_os(RULES).map(PathBuf::from) else {
        return Err(format!(
            "its engine takes compiled rules, and {RULES} names no directory with them"
        ));
    };
    find_in(&directory, patterns)
}

fn find_in(directory: &Path, patterns: &[String]) -> Result<Arc<Rules>, String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let entries = std::fs::read_dir(directory).map_err(|error| failed(directory, error))?;
    for entry in entries {
        let path = entry.map_err(|error| failed(directory, error))?.path();
        if path.extension().is_none_or(|ending| ending != PATTERNS) {
            continue;
        }
        let text = read(&path).map_err(|error| failed(&path, error))?;
        let text = String::from_utf8_lossy(&text);
        if !text.lines().eq(patterns.iter().map(String::as_str)) {
            continue;
        }
        let path = path.with_extension(COMPILED);
        return Ok(Arc::new(Rules {
            patterns: patterns.to_vec(),
            compiled: read(&path).map_err(|error| failed(&path, error))?,
        }));
    }
    Err(format!(
        "{} has no rules for these patterns: none of its files *.{PATTERNS} has exactly them",
        directory.display()
    ))
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        0..=MAX_BYTES => Ok(bytes),
        _ => Err(std::io::Error::other("it is too large for rules")),
    }
}
