//! The profiles there are: the built-in ones and those of the user's.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use overside_config::{Document, Error, Source, quoted, read_text};

use crate::Profile;
use crate::profile::LIMITS;

/// The environment variable that names a directory of more profiles. A file in it replaces the
/// built-in profile of the same name.
pub const PROFILES_ENV: &str = "OVERSIDE_PROFILES";

/// The file of a built-in profile, and its text.
macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$((
            concat!("profiles/", $name, ".toml"),
            include_str!(concat!("../../../../profiles/", $name, ".toml")),
        )),*]
    };
}

const BUILT_IN: &[(&str, &str)] = built_in![
    "bf1",
    "bf2",
    "bf2-200g",
    "bf2-cores",
    "bf2-older-doca",
    "bf2-soc",
    "bf2-vpi",
    "bf3",
    "bf3-8c",
    "bf3-cores",
    "bf3-doca22",
    "bf3-soc",
    "host-bitar",
    "host-bitar-partition",
    "host-coproc-bf2",
    "host-coproc-bf3",
    "host-dpbento",
    "host-dpukv",
    "host-idio",
    "octeon-tx2",
];
const FILES_MAX: usize = 256;

/// All profiles, by name: the built-in ones and those in the directory that [`PROFILES_ENV`]
/// names.
///
/// # Errors
/// [`Error`] for the first file of the user's that is not right.
pub fn profiles() -> Result<Vec<Profile>, Error> {
    let directory = std::env::var_os(PROFILES_ENV).filter(|name| !name.is_empty());
    profiles_with(directory.as_deref().map(Path::new))
}

/// All profiles, by name: the built-in ones and those in `directory`.
///
/// # Errors
/// As [`profiles`].
pub fn profiles_with(directory: Option<&Path>) -> Result<Vec<Profile>, Error> {
    let built_in = built_in()?.iter().cloned();
    let mut all: BTreeMap<_, _> = built_in.map(|profile| (profile.name.clone(), profile)).collect();
    if let Some(directory) = directory {
        for profile in from_directory(directory)? {
            all.insert(profile.name.clone(), profile);
        }
    }
    Ok(all.into_values().collect())
}

/// Returns the built-in profiles, which are parsed once in a process: a report asks for them often.
fn built_in() -> Result<&'static [Profile], Error> {
    static PARSED: OnceLock<Vec<Profile>> = OnceLock::new();
    if let Some(parsed) = PARSED.get() {
        return Ok(parsed);
    }
    let parsed = BUILT_IN.iter().map(|(file, text)| Profile::parse(file, text));
    let parsed = parsed.collect::<Result<_, _>>()?;
    Ok(PARSED.get_or_init(|| parsed))
}

/// Returns the profile of that name; a name that ends in `.toml` is a file's path.
///
/// # Errors
/// There is none of that name, and those of [`profiles`].
pub fn profile(name: &str) -> Result<Profile, Error> {
    if name.ends_with(".toml") {
        let path = Path::new(name);
        return Profile::parse(name, &text_of(path)?);
    }
    let mut all = profiles()?;
    match all.iter().position(|profile| profile.name == name) {
        Some(index) => Ok(all.swap_remove(index)),
        None => {
            let known: Vec<_> = all.iter().map(|profile| profile.name.as_str()).collect();
            let problem = format!("no profile is called {}", quoted(name));
            Err(Error::of_file("", problem, "").meant(name, &known))
        }
    }
}

/// The text of a profile's file: a regular one of bounded length.
///
/// # Errors
/// As [`read_text`].
pub fn text_of(path: &Path) -> Result<String, Error> {
    read_text(path, LIMITS.bytes, Source::Regular)
}

fn from_directory(directory: &Path) -> Result<Vec<Profile>, Error> {
    let shown = directory.display().to_string();
    let unreadable = |error: std::io::Error| {
        let remedy = format!("{PROFILES_ENV} names a directory of profiles");
        Error::of_file(&shown, format!("cannot be read: {error}"), remedy)
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
        if files.len() > FILES_MAX {
            let problem = format!("more than {FILES_MAX} profiles");
            return Err(Error::of_file(&shown, problem, "remove some"));
        }
    }
    files.sort();
    let mut found = Vec::with_capacity(files.len());
    for path in files {
        let (file, text) = (path.display().to_string(), text_of(&path)?);
        let profile = Profile::parse(&file, &text)?;
        if path.file_stem().is_none_or(|stem| stem != profile.name.as_str()) {
            let problem = format!("{:?} is not the file's name", profile.name);
            let remedy = format!("call the file {}.toml", profile.name);
            return Err(Document::toml(&file, &text, LIMITS)?.error("name", problem, remedy));
        }
        found.push(profile);
    }
    Ok(found)
}
