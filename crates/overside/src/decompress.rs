//! `overside decompress`.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::files::{self, Verb};

const HELP: &str = "\
Decompresses gzip, zlib, LZ4 and Zstandard files, on this machine's cores, on a device, or on both.

Usage: overside decompress [OPTIONS] [FILE...]

Each FILE, which ends with .gz, .tgz, .zz, .zlib, .lz4, .tlz4, .zst or .tzst, is replaced by what
was compressed. Without a FILE, or for -, stdin goes to stdout. The format is found out. Files that
`overside compress` made, BGZF, and files of several frames are decompressed in parallel.

What is read
  --format FORMAT      it must be gzip, zlib, lz4, zstd
  -t, --test           write nothing, only check

Where it runs
  --device NAME        a device beside the CPU; `overside devices` lists them
  --placement WHERE    cpu, device, split:P (P percent of the bytes to the device), adaptive;
                       unless told otherwise cpu, with --device adaptive
  --placement-file FILE
                       placement, device and chunk by format and size of each file, as
                       `overside advise --placement-out` writes it
  -p, --threads N      threads of the CPU; one for each core unless told otherwise

Files
  -k, --keep           keep FILE
  -c, --stdout         write to stdout, keep FILE; with -f, copy what is not compressed
  -o, --output OUT     write to OUT, keep FILE
  -f, --force          overwrite; follow links; take files with several links, and a terminal as
                       input

What is told, on stderr
  -v, --verbose        a line a file: how much longer, how fast, where it ran
  --explain            what the adaptive placement decided, and why, in numbers
  --stats json|text    all figures
  -q, --quiet          no warnings, no progress

Exit code: 0 done, 1 error, 2 warning (something was left alone), as of gzip.
";

pub fn main(arguments: &[OsString]) -> ExitCode {
    files::main(Verb::Decompress, HELP, arguments)
}
