//! Other names of the command, through symbolic links (`gunzip` and similar), and the command
//! without a verb, as tar calls it.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, fstat};

/// Other names of the command, each with its verb and options. zstd and lz4 keep their input; `lz4`
/// itself is missing because its second argument is an output file.
const ALIASES: [(&str, &[&str]); 10] = [
    ("gzip", &["compress"]),
    ("gunzip", &["decompress"]),
    ("zcat", &["decompress", "--stdout"]),
    ("pigz", &["compress"]),
    ("unpigz", &["decompress"]),
    ("zstd", &["compress", "--format", "zstd", "--keep"]),
    ("unzstd", &["decompress", "--keep"]),
    ("zstdcat", &["decompress", "--stdout"]),
    ("unlz4", &["decompress", "--keep"]),
    ("lz4cat", &["decompress", "--stdout"]),
];

/// Returns the command line with a verb, which the name of the program or its absence may imply.
///
/// tar's `-I overside` calls it without any argument to compress, and with `-d` to decompress.
pub(crate) fn with_verb(program: &OsStr, arguments: Vec<OsString>) -> Vec<OsString> {
    let name = Path::new(program).file_name().unwrap_or_default();
    let alias = ALIASES.iter().find(|(alias, _)| name == *alias);
    let verb: &[&str] = match (alias, arguments.first()) {
        (Some((_, verb)), _) => verb,
        (None, Some(first)) if is_filter_option(first) => &["compress"],
        (None, None) if is_filter() => &["compress"],
        (None, _) => &[],
    };
    verb.iter().map(OsString::from).chain(arguments).collect()
}

/// Returns `true` for `-d` and for a level.
fn is_filter_option(argument: &OsStr) -> bool {
    matches!(argument.as_bytes(), [b'-', b'd' | b'0'..=b'9', ..])
}

/// Returns `true` if stdin is a file, a pipe or a socket, and stdout is not a terminal.
fn is_filter() -> bool {
    let stdin = std::io::stdin();
    let kind = fstat(stdin.as_fd()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    let is_piped = matches!(kind, Ok(FileType::RegularFile | FileType::Fifo | FileType::Socket));
    is_piped && !std::io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(program: &str, line: &str) -> String {
        let arguments = line.split_whitespace().map(OsString::from).collect();
        let words = with_verb(program.as_ref(), arguments);
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn names_of_other_programs_stand_for_verbs() {
        assert_eq!(called("/usr/local/bin/gunzip", "-k a.gz"), "decompress -k a.gz");
        assert_eq!(called("zcat", "a"), "decompress --stdout a");
        assert_eq!(called("gzip", "-d a"), "compress -d a");
        assert_eq!(called("overside", "-d"), "compress -d");
        assert_eq!(called("bin/overside", "-9"), "compress -9");
        for line in ["--help", "-h", "-V", "--decompress", "run quick"] {
            assert_eq!(called("overside", line), line);
        }
    }
}
