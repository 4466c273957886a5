//! `--list`: a table of compressed files, with the columns of gzip.

use std::io::{self, Write};
use std::path::Path;

use super::names::{self, Suffix};
use super::report::FileReport;
use overside_command::messages::shown;

/// Number of the files listed so far, and the sums of their lengths in bytes.
#[derive(Default)]
pub(super) struct Listing {
    files: u64,
    compressed_bytes: u64,
    plain_bytes: u64,
}

impl Listing {
    /// Prints the line of a file, below a header if it is the first.
    pub(super) fn add(
        &mut self,
        file: &FileReport,
        suffix: Option<&Suffix>,
        verbose: bool,
        header: bool,
    ) -> io::Result<()> {
        let summary = &file.summary;
        let mut text = String::new();
        if self.files == 0 && header {
            if verbose {
                text.push_str("format  members  ");
            }
            text.push_str("         compressed        uncompressed  ratio uncompressed_name\n");
        }
        self.files += 1;
        self.compressed_bytes += summary.bytes_in;
        self.plain_bytes += summary.bytes_out;
        if verbose {
            let (format, members) = (summary.container.to_string(), summary.members);
            text.push_str(&format!("{format:<6} {members:>8}  "));
        }
        let plain = names::decompressed(Path::new(&file.input), suffix);
        let name = plain.map_or_else(|| shown(&file.input), shown);
        text.push_str(&line(summary.bytes_in, summary.bytes_out, &name));
        write(&text)
    }

    /// Prints the sums, if there are several files.
    pub(super) fn finish(&self, verbose: bool) -> io::Result<()> {
        if self.files < 2 {
            return Ok(());
        }
        let indent = if verbose { " ".repeat(17) } else { String::new() };
        write(&(indent + &line(self.compressed_bytes, self.plain_bytes, "(totals)")))
    }
}

fn line(compressed: u64, plain: u64, name: &str) -> String {
    let ratio = match plain {
        0 => 0.0,
        plain => 100.0 * (1.0 - compressed as f64 / plain as f64),
    };
    format!("{compressed:>19} {plain:>19} {ratio:>5.1}% {name}\n")
}

fn write(text: &str) -> io::Result<()> {
    io::stdout().write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_ratio() {
        assert!(line(20, 0, "a").ends_with("  0.0% a\n"));
        assert!(line(60, 40, "a").ends_with("-50.0% a\n"));
        assert!(line(25, 100, "a").ends_with(" 75.0% a\n"));
    }
}
