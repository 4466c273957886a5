//! The profiles there are: the built-in ones and those of the user's.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use crate::{Profile, ProfileError};

/// The environment variable that names a directory of more profiles. A file in it replaces the
/// built-in profile of the same name.
pub const PROFILES_ENV: &str = "OVERSIDE_PROFILES";

/// The file of a built-in profile, and its text.
macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$((
            concat!("profiles/", $name, ".toml"),
            include_str!(concat!("../../../profiles/", $name, ".toml")),
        )),*]
    };
}

const BUILT_IN: &[(&str, &str)] = built_in![
    "bf1",
    "bf2",
    "bf2-200g",
    "bf2-soc",
    "bf2-vpi",
    "bf3",
    "bf3-8c",
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
const MAX_FILES: usize = 256;
const MAX_FILE_BYTES: u64 = 1 << 20;

/// All profiles, by name: the built-in ones and those in the directory that [`PROFILES_ENV`]
/// names.
///
/// # Errors
/// [`ProfileError`] for the first file of the user's that is not right.
pub fn profiles() -> Result<Vec<Profile>, ProfileError> {
    let directory = std::env::var_os(PROFILES_ENV).filter(|name| !name.is_empty());
    profiles_with(directory.as_deref().map(Path::new))
}

/// All profiles, by name: the built-in ones and those in `directory`.
///
/// # Errors
/// As [`profiles`].
pub fn profiles_with(directory: Option<&Path>) -> Result<Vec<Profile>, ProfileError> {
    let mut all = BTreeMap::new();
    for (file, text) in BUILT_IN {
        let profile = Profile::parse(file, text)?;
        all.insert(profile.name.clone(), profile);
    }
    if let Some(directory) = directory {
        for profile in from_directory(directory)? {
            all.insert(profile.name.clone(), profile);
        }
    }
    Ok(all.into_values().collect())
}

/// The profile of that name; a name that ends in `.toml` is a file's path.
///
/// # Errors
/// [`ProfileError::Unknown`], and as [`profiles`].
pub fn profile(name: &str) -> Result<Profile, ProfileError> {
    if name.ends_with(".toml") {
        let path = Path::new(name);
        return Profile::parse(name, &text_of(path)?);
    }
    let mut all = profiles()?;
    match all.iter().position(|profile| profile.name == name) {
        Some(index) => Ok(all.swap_remove(index)),
        None => {
            let known: Vec<_> = all.iter().map(|profile| profile.name.as_str()).collect();
            let nearest = (known.iter())
                .map(|one| (strsim::damerau_levenshtein(name, one), *one))
                .min()
                .filter(|(distance, one)| *distance <= 2.max(one.len() / 4));
            Err(ProfileError::Unknown {
                name: name.chars().take(64).collect(),
                meant: nearest.map(|(_, one)| one.to_owned()),
                known: known.join(", "),
            })
        }
    }
}

/// The text of a profile's file: a regular one of bounded length.
///
/// # Errors
/// [`ProfileError::Read`].
pub fn text_of(path: &Path) -> Result<String, ProfileError> {
    let unreadable = |reason: String| ProfileError::Read {
        path: path.into(),
        reason,
    };
    // A pipe or a device would block or never end.
    match path.metadata() {
        Err(error) => return Err(unreadable(error.to_string())),
        Ok(meta) if !meta.is_file() => return Err(unreadable("not a regular file".into())),
        Ok(_) => {}
    }
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| unreadable(error.to_string()))?;
    if read as u64 > MAX_FILE_BYTES {
        return Err(unreadable(format!("longer than {MAX_FILE_BYTES} bytes")));
    }
    Ok(text)
}

fn from_directory(directory: &Path) -> Result<Vec<Profile>, ProfileError> {
    let unreadable = |path: &Path, reason: String| ProfileError::Read {
        path: path.into(),
        reason,
    };
    let mut files = Vec::new();
    let entries =
        std::fs::read_dir(directory).map_err(|error| unreadable(directory, error.to_string()))?;
    for entry in entries {
        let path = entry
            .map_err(|error| unreadable(directory, error.to_string()))?
            .path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            files.push(path);
        }
        if files.len() > MAX_FILES {
            return Err(unreadable(
                directory,
                format!("more than {MAX_FILES} profiles"),
            ));
        }
    }
    files.sort();
    let mut found = Vec::with_capacity(files.len());
    for path in files {
        let text = text_of(&path)?;
        let profile = Profile::parse(&path.display().to_string(), &text)?;
        if path
            .file_stem()
            .is_none_or(|stem| stem != profile.name.as_str())
        {
            return Err(ProfileError::Value {
                file: path.display().to_string(),
                key: "name".into(),
                problem: format!("{:?} is not the file's name", profile.name),
                remedy: format!("call the file {}.toml", profile.name),
            });
        }
        found.push(profile);
    }
    Ok(found)
}
