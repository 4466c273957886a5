//! What files are called before and after.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use overside_compress::Container;

/// Names of compressed files: what they end with, the format that it stands for, and what takes
/// its place when they are decompressed.
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

/// What `path` is called once it is compressed.
pub fn compressed(path: &Path, container: Container) -> PathBuf {
    with(path, container.suffix())
}

/// What `path`, which is compressed, is called once it is not; `None` if its name does not tell.
pub fn decompressed(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?;
    let (stem, instead) =
        (ENDINGS.iter()).find_map(|(end, _, instead)| Some((before(name, end)?, instead)))?;
    Some(with(&path.with_file_name(stem), instead))
}

/// The format that the name of `path` stands for; `None` if it does not tell.
pub fn format(path: &Path) -> Option<Container> {
    let name = path.file_name()?;
    (ENDINGS.iter()).find_map(|(end, of, _)| before(name, end).map(|_| *of))
}

/// What `path`, whose name says that it is in that format already, ends with.
pub fn compressed_suffix(path: &Path, container: Container) -> Option<&'static str> {
    let name = path.file_name()?;
    (ENDINGS.iter())
        .filter(|(_, of, _)| *of == container)
        .find_map(|(end, ..)| before(name, end).map(|_| *end))
}

/// What a compressed file may be called whose uncompressed name is `path`.
pub fn candidates(path: &Path) -> Vec<PathBuf> {
    (ENDINGS.iter())
        .filter(|(.., instead)| instead.is_empty())
        .map(|(end, ..)| with(path, end))
        .collect()
}

/// What stands before the ending, which may be in capitals; `None` if that is nothing.
fn before<'a>(name: &'a OsStr, end: &str) -> Option<&'a OsStr> {
    let (stem, found) = name
        .as_bytes()
        .split_at_checked(name.len().checked_sub(end.len())?)?;
    (found.eq_ignore_ascii_case(end.as_bytes()) && !stem.is_empty())
        .then(|| OsStr::from_bytes(stem))
}

fn with(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(name: &str) -> Option<String> {
        decompressed(Path::new(name)).map(|path| path.to_string_lossy().into_owned())
    }

    #[test]
    fn endings_tell_the_names_of_files() {
        assert_eq!(
            compressed(Path::new("d/a.txt"), Container::Zstd),
            Path::new("d/a.txt.zst")
        );
        let names = [
            "a.gz", "d/a.TGZ", "a.zlib", "a.zz", "a.b.lz4", "a.tzst", "/a.zst",
        ];
        let backs = names.map(|name| back(name).unwrap());
        assert_eq!(backs, ["a", "d/a.tar", "a", "a", "a.b", "a.tar", "/a"]);
        for name in ["a", "a.xz", ".gz", "d/.zst", "gz", "..", "/"] {
            assert_eq!(back(name), None, "{name}");
        }
    }

    #[test]
    fn a_name_has_the_ending_of_one_format_only() {
        assert_eq!(
            compressed_suffix(Path::new("a.tgz"), Container::Gzip),
            Some(".tgz")
        );
        assert_eq!(compressed_suffix(Path::new("a.gz"), Container::Zstd), None);
        assert_eq!(compressed_suffix(Path::new(".gz"), Container::Gzip), None);
        assert_eq!(format(Path::new("a.tzst")), Some(Container::Zstd));
        assert_eq!(format(Path::new("a.txt")), None);
    }
}
