//! `overside decompress`.

use std::process::ExitCode;

use overside_compress::Container;

use crate::files::{self, FileArguments, Request, Verb};

/// Decompress gzip, zlib, LZ4 and Zstandard files on the CPU, on a device, or on both
#[derive(clap::Args)]
#[command(
    version,
    display_name = "overside decompress",
    after_help = "\
Each FILE (.gz, .tgz, .zz, .zlib, .lz4, .tlz4, .zst or .tzst) is replaced by its uncompressed \
content. Without FILE, or for -, stdin is decompressed to stdout. Files made by `overside \
compress`, BGZF, and files of several frames are decompressed in parallel.

Examples:
  overside decompress access.log.gz   access.log takes its place
  overside decompress -c logs/*.zst   to stdout, one after the other
  overside decompress -l *.gz         lengths and ratios

Exit codes are gzip's: 0 done, 1 error, 2 warning (for example, a file was skipped)."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    format: FormatArguments,
    #[command(flatten)]
    files: FileArguments,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Format")]
struct FormatArguments {
    /// Accept only gzip, zlib, lz4 or zstd [default: detected]
    #[arg(long)]
    format: Option<Container>,
}

pub(crate) fn run(arguments: Arguments) -> ExitCode {
    files::run(arguments.into())
}

impl From<Arguments> for Request {
    fn from(Arguments { format, files }: Arguments) -> Self {
        Self {
            verb: Verb::Decompress,
            container: format.format,
            level: None,
            chunk: None,
            name: true,
            mode: files.output.mode(),
            arguments: files,
        }
    }
}
