//! Names of files before and after compression.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use overside_compress::Container;

/// Endings of compressed files: the ending, its format, and the ending after decompression.
const ENDINGS: [(&str, Container, &str); 8] = [
    (".gz", Container::Gzip, ""),
    (".tgz", Container::Gzip, ".tar"),
    (".zz", Container::Zlib, ""),
    (".zlib", Container::Zlib, ""),
    (".lz4", Container::Lz4, ""),
    (".tlz4", Container::Lz4, ".tar"),
    (".zst", Container::Zstd, ""),
    (".tzst", Container::Zstd, ".tar"),
];

/// Suffix of compressed files from `--suffix`, instead of their format's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suffix(OsString);

impl FromStr for Suffix {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "" => Err("a suffix has one letter at least"),
            text if text.contains('/') => Err("a suffix is part of a file's name, without /"),
            text => Ok(Self(text.into())),
        }
    }
}

/// Returns the name that `path` has once it is compressed: with `suffix` if it is given, otherwise
/// with the format's suffix.
pub(super) fn compressed(path: &Path, container: Container, suffix: Option<&Suffix>) -> PathBuf {
    let usual = OsStr::new(container.suffix());
    with(path, suffix.map_or(usual, |suffix| &suffix.0))
}

/// Returns the name that the compressed file `path` has once it is decompressed; `None` if its
/// ending is unknown.
pub(super) fn decompressed(path: &Path, suffix: Option<&Suffix>) -> Option<PathBuf> {
    let name = path.file_name()?;
    let (stem, instead) = (suffix.iter().map(|suffix| (suffix.0.as_os_str(), "")))
        .chain(ENDINGS.iter().map(|(end, _, instead)| (OsStr::new(*end), *instead)))
        .find_map(|(end, instead)| Some((before(name, end)?, instead)))?;
    Some(with(&path.with_file_name(stem), instead.as_ref()))
}

/// Returns the format for the ending of `path`; `None` if the ending is unknown.
pub(super) fn format(path: &Path) -> Option<Container> {
    let name = path.file_name()?;
    (ENDINGS.iter()).find_map(|(end, of, _)| before(name, end.as_ref()).map(|_| *of))
}

/// Returns the ending of `path` if it is `suffix` or an ending of the format `container`; `None`
/// otherwise.
pub(super) fn compressed_suffix<'a>(
    path: &Path,
    container: Container,
    suffix: Option<&'a Suffix>,
) -> Option<&'a OsStr> {
    let name = path.file_name()?;
    let usual = ENDINGS.iter().filter(|(_, of, _)| *of == container);
    (suffix.iter().map(|suffix| suffix.0.as_os_str()))
        .chain(usual.map(|(end, ..)| OsStr::new(*end)))
        .find(|end| before(name, end).is_some())
}

/// Returns the names that the compressed form of the file `path` may have, `suffix` first.
pub(super) fn candidates(path: &Path, suffix: Option<&Suffix>) -> Vec<PathBuf> {
    let usual = ENDINGS.iter().filter(|(.., instead)| instead.is_empty());
    (suffix.iter().map(|suffix| suffix.0.as_os_str()))
        .chain(usual.map(|(end, ..)| OsStr::new(*end)))
        .map(|end| with(path, end))
        .collect()
}

/// Returns the part of `name` before `end`, which may be in capitals. `None` if `name` has another
/// ending, or consists of the ending only.
fn before<'a>(name: &'a OsStr, end: &OsStr) -> Option<&'a OsStr> {
    let (stem, found) = name.as_bytes().split_at_checked(name.len().checked_sub(end.len())?)?;
    (found.eq_ignore_ascii_case(end.as_bytes()) && !stem.is_empty())
        .then(|| OsStr::from_bytes(stem))
}

fn with(path: &Path, end: &OsStr) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(name: &str) -> Option<String> {
        decompressed(Path::new(name), None).map(|path| path.to_string_lossy().into_owned())
    }

    #[test]
    fn endings_tell_the_names_of_files() {
        assert_eq!(
            compressed(Path::new("d/a.txt"), Container::Zstd, None),
            Path::new("d/a.txt.zst")
        );
        let names = ["a.gz", "d/a.TGZ", "a.zlib", "a.zz", "a.b.lz4", "a.tzst", "/a.zst"];
        let backs = names.map(|name| back(name).unwrap());
        assert_eq!(backs, ["a", "d/a.tar", "a", "a", "a.b", "a.tar", "/a"]);
        for name in ["a", "a.xz", ".gz", "d/.zst", "gz", "..", "/"] {
            assert_eq!(back(name), None, "{name}");
        }
    }

    #[test]
    fn a_name_has_the_ending_of_one_format_only() {
        assert_eq!(
            compressed_suffix(Path::new("a.tgz"), Container::Gzip, None),
            Some(OsStr::new(".tgz"))
        );
        for (name, container) in [("a.gz", Container::Zstd), (".gz", Container::Gzip)] {
            assert_eq!(compressed_suffix(Path::new(name), container, None), None);
        }
        assert_eq!(format(Path::new("a.tzst")), Some(Container::Zstd));
        assert_eq!(format(Path::new("a.txt")), None);
    }

    #[test]
    fn a_suffix_of_ones_own_comes_first() {
        let own: Suffix = ".own.gz".parse().unwrap();
        let path = Path::new("d/a.own.gz");
        assert_eq!(compressed(Path::new("d/a"), Container::Zstd, Some(&own)), path);
        assert_eq!(decompressed(path, Some(&own)), Some("d/a".into()));
        assert_eq!(decompressed(path, None), Some("d/a.own".into()));
        assert_eq!(candidates(Path::new("d/a"), Some(&own))[0], path);
        assert!("".parse::<Suffix>().is_err() && "a/b".parse::<Suffix>().is_err());
    }
}
