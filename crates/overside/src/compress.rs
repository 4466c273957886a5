//! `overside compress`.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::files::{self, Verb};

const HELP: &str = "\
Compresses files, on this machine's cores, on a device, or on both.

Usage: overside compress [OPTIONS] [FILE...]

Each FILE is replaced by FILE.gz (.zz, .lz4, .zst), with its mode, owner and times. Without a FILE,
or for -, stdin goes to stdout. gunzip, zlib, lz4 and zstd read what comes out.

What is made
  --format FORMAT      gzip (unless told otherwise), zlib, lz4, zstd
  --level N, -0 .. -9  how hard to try, in the library's own levels; --fast is 1, --best is 9
  --chunk SIZE         bytes that are compressed by themselves, 1KiB to 64MiB; 1MiB unless told
                       otherwise, less where the format or the device takes less
  -n, --no-name        leave name and time of FILE out of the header

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
  -c, --stdout         write to stdout, keep FILE
  -o, --output OUT     write to OUT, keep FILE
  -f, --force          overwrite; follow links; take files with several links, files that are
                       compressed already, and a terminal as output

What is told, on stderr
  -v, --verbose        a line a file: how much shorter, how fast, where it ran
  --explain            what the adaptive placement decided, and why, in numbers
  --stats json|text    all figures
  -q, --quiet          no warnings, no progress

Exit code: 0 done, 1 error, 2 warning (something was left alone), as of gzip.
";

pub fn main(arguments: &[OsString]) -> ExitCode {
    files::main(Verb::Compress, HELP, arguments)
}
