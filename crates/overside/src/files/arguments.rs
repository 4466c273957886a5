//! The command line of `compress` and `decompress`.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::Resettable;
use overside_compress::{Container, MIN_CHUNK_BYTES, Verify};
use overside_placement::SUBMITTERS_MAX;

use super::Verb;
use super::names::Suffix;
use overside_command::{
    logging::LogArguments,
    options::{Placement, count_up_to, size_within},
};

/// Maximum of `--window` in bytes.
const WINDOW_BYTES_MAX: usize = 16 << 30;

/// Arguments that `compress` and `decompress` share.
#[derive(clap::Args)]
pub(crate) struct FileArguments {
    /// Files in order; - is stdin
    #[arg(value_name = "FILE", default_value = "-", help_heading = Resettable::Reset)]
    pub files: Vec<OsString>,
    #[command(flatten)]
    pub placement: Placement,
    /// Choose placement, device and chunk by format and size of each file, as
    /// `overside advise --placement-out` writes it
    #[arg(long, value_name = "FILE", help_heading = "Placement", allow_hyphen_values = true,
          conflicts_with_all = ["placement", "device"])]
    pub placement_file: Option<PathBuf>,
    /// Threads that submit to devices, for devices that one thread does not keep busy (default: 1)
    #[arg(long, value_name = "N", help_heading = "Placement",
          value_parser = count_up_to(SUBMITTERS_MAX as u64))]
    pub submitters: Option<NonZeroUsize>,
    /// Maximum input in flight, at least a chunk for each submitter (default: by the targets' depths)
    #[arg(long, value_name = "SIZE", help_heading = "Placement",
          value_parser = size_within(MIN_CHUNK_BYTES..=WINDOW_BYTES_MAX))]
    pub window: Option<usize>,
    #[command(flatten)]
    pub output: OutputArguments,
    #[command(flatten)]
    pub messages: MessageArguments,
    #[command(flatten)]
    pub log: LogArguments,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Files")]
pub(crate) struct OutputArguments {
    /// Keep FILE
    #[arg(short, long)]
    pub keep: bool,
    /// Write to stdout and keep FILE; decompressing with -cf copies what is not compressed
    #[arg(short = 'c', long, alias = "to-stdout")]
    pub stdout: bool,
    /// Write to OUT and keep FILE
    #[arg(short = 'o', long = "output", value_name = "OUT", allow_hyphen_values = true)]
    pub path: Option<PathBuf>,
    /// Process the regular files in named directories and below
    #[arg(short, long)]
    pub recursive: bool,
    /// Suffix of compressed files instead of .gz, .zz, .lz4 or .zst; when decompressing, in addition to them
    #[arg(short = 'S', long, allow_hyphen_values = true)]
    pub suffix: Option<Suffix>,
    /// Check FILE and write nothing
    #[arg(short, long)]
    pub test: bool,
    /// List FILE: lengths, ratio, name; with -v also format and members. It is decompressed, so what is
    /// listed is checked
    #[arg(short, long)]
    pub list: bool,
    /// Overwrite; follow links; accept files with several links, compressed files as input of
    /// compress, and a terminal as input or output
    #[arg(short, long)]
    pub force: bool,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Messages on stderr")]
pub(crate) struct MessageArguments {
    /// One line per file: ratio, throughput, where it ran
    #[arg(short, long)]
    pub verbose: bool,
    /// Decisions of adaptive placement, with their figures
    #[arg(long)]
    pub explain: bool,
    /// All figures
    #[arg(long, value_name = "FORMAT")]
    pub stats: Option<StatsFormat>,
    /// No warnings and no progress
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatsFormat {
    Json,
    Text,
}

/// Chunk length, from `--chunk`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkSize {
    /// Length that adaptive placement finds to be the fastest.
    Auto,
    Bytes(usize),
}

/// A parsed command: the verb, its options, and the files to process.
pub(crate) struct Request {
    pub verb: Verb,
    pub container: Option<Container>,
    pub level: Option<u32>,
    pub chunk: Option<ChunkSize>,
    /// `true` if the header gets the name and time of the original.
    pub name: bool,
    pub mode: Mode,
    pub arguments: FileArguments,
}

/// Use of the output: written to a file or stdout, or not kept at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Write,
    /// Discarded: the input is checked.
    Test,
    /// Discarded: the input's lengths are listed.
    List,
}

impl OutputArguments {
    pub(crate) fn mode(&self) -> Mode {
        match self {
            Self { list: true, .. } => Mode::List,
            Self { test: true, .. } => Mode::Test,
            _ => Mode::Write,
        }
    }
}

impl Request {
    /// Refuses contradictory options, and treats `--output -` as `--stdout`.
    ///
    /// # Errors
    /// The contradiction, as a message for the user.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        let output = &mut self.arguments.output;
        let several = self.arguments.files.len() > 1 || output.recursive;
        if output.path.take_if(|path| path.as_os_str() == "-").is_some() {
            output.stdout = true;
        }
        if output.path.is_some() {
            if output.stdout || self.mode != Mode::Write {
                return Err("--output conflicts with --stdout, --test and --list".into());
            }
            if several {
                return Err("--output takes one file at a time, and no directory".into());
            }
        }
        let zlib = self.container == Some(Container::Zlib) && self.verb == Verb::Compress;
        if zlib && several && output.stdout {
            return Err("zlib streams cannot follow each other; --stdout takes one file".into());
        }
        let verify = self.arguments.placement.verify().unwrap_or(Verify::All);
        if verify != Verify::All && self.removes() {
            return Err(format!(
                "--verify {verify} needs --keep, --stdout or --output: FILE is removed only after all \
                 results were verified"
            ));
        }
        Ok(())
    }

    /// Returns `true` if input files are removed after they are processed.
    fn removes(&self) -> bool {
        let is_file = |name: &OsString| name != "-";
        let keeps = self.only_reads() || self.arguments.output.keep;
        !keeps && self.arguments.files.iter().any(is_file)
    }

    /// Returns `true` if no input file is removed or replaced. Then the input may be anything
    /// readable, such as a pipe.
    pub(crate) fn only_reads(&self) -> bool {
        let output = &self.arguments.output;
        output.stdout || self.mode != Mode::Write || output.path.is_some()
    }

    /// Returns the suffix from `--suffix`; `None` if none is given.
    pub(crate) fn suffix(&self) -> Option<&Suffix> {
        self.arguments.output.suffix.as_ref()
    }

    pub(crate) fn force(&self) -> bool {
        self.arguments.output.force
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs;
    use overside_compress::Policy;

    fn parse(line: &str) -> Result<Request, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let mut request = match verbs::parse(&words).map_err(|error| error.to_string())? {
            verbs::Verb::Compress(arguments) => Request::from(arguments),
            verbs::Verb::Decompress(arguments) => arguments.into(),
            _ => panic!("{line}"),
        };
        request.check()?;
        Ok(request)
    }

    #[test]
    fn options_are_bundled_and_stand_anywhere() {
        let request = parse("compress a -9kp2 b --chunk=64KiB -- -c").unwrap();
        let arguments = &request.arguments;
        assert_eq!(arguments.files, ["a", "b", "-c"]);
        assert_eq!((request.level, arguments.placement.threads()), (Some(9), 2));
        assert_eq!(request.chunk, Some(ChunkSize::Bytes(64 << 10)));
        assert!(arguments.output.keep && !arguments.output.stdout);
        let request = parse("compress --chunk auto a").unwrap();
        assert_eq!(request.chunk, Some(ChunkSize::Auto));
        assert!(parse("compress --chunk 12 a").is_err());
        assert_eq!(parse("decompress").unwrap().arguments.files, ["-"]);
        assert!(parse("decompress -o - a").unwrap().arguments.output.stdout);
        let path = parse("compress -o -x a").unwrap().arguments.output.path;
        assert_eq!(path, Some("-x".into()));
    }

    #[test]
    fn compress_decompresses_as_gzip_does() {
        let request = |line: &str| parse(line).unwrap();
        assert_eq!(request("compress -dk a").verb, Verb::Decompress);
        assert_eq!(request("compress --uncompress -9 a").verb, Verb::Decompress);
        for (line, mode) in [("compress -t a", Mode::Test), ("compress -lv a", Mode::List)] {
            let request = request(line);
            assert_eq!((request.verb, request.mode), (Verb::Decompress, mode), "{line}");
            assert!(request.only_reads());
        }
    }

    #[test]
    fn the_last_level_counts() {
        let level = |line: &str| parse(&format!("compress {line}")).unwrap().level;
        assert_eq!(level("a"), None);
        assert_eq!(level("-0"), Some(0));
        assert_eq!(level("--fast"), Some(1));
        assert_eq!(level("-6 --level 12"), Some(12));
        assert_eq!(level("--level 12 -3 -3"), Some(3));
        assert_eq!(level("--best -1k --level 4 --level 5"), Some(5));
        assert_eq!(level("-19"), Some(9));
    }

    #[test]
    fn the_placement_follows_from_the_device() {
        let policy = |line: &str| {
            let request = parse(&format!("compress {line}"))?;
            request.arguments.placement.policy()
        };
        assert_eq!(policy("a"), Ok(Policy::Cpu));
        assert_eq!(policy("--device cpu a"), Ok(Policy::Cpu));
        assert_eq!(policy("--device emulated:bf2 a"), Ok(Policy::Adaptive));
        let split = policy("--placement split:40 --device emulated:bf2 a");
        assert_eq!(split, Ok(Policy::split(40.0).unwrap()));
        let refused = policy("--placement split:40 a").unwrap_err();
        assert!(refused.contains("--device"), "{refused}");
    }

    #[test]
    fn what_is_refused_is_named() {
        for (line, said) in [
            ("compress --plcement cpu", "'--placement'"),
            ("compress -S a/b a", "without /"),
            ("compress -r -o b a", "no directory"),
            ("decompress -l -o b a", "--list"),
            ("decompress --chunk 1", "'--chunk'"),
            ("compress --format rar", "gzip, zlib, lz4 and zstd"),
            ("compress --chunk 3parsecs", "like 65536"),
            (
                "compress --chunk 99999999999999999999g",
                "'99999999999999999999g' for '--chunk <SIZE>': it is from 1024 to 67108864 bytes; or auto\n",
            ),
            ("compress --chunk 9999999999999999g", "1024 to 67108864 bytes"),
            ("compress --chunk 1023", "1024 to 67108864 bytes"),
            ("compress -p0", "1..=1024"),
            ("compress --stats xml", "json, text"),
            ("compress --placement split:200", "percentage"),
            ("compress --verify some", "all, sampled and none"),
            ("compress --verify sampled a", "--keep"),
            ("decompress --verify none a", "--keep"),
            ("compress --level", "value is required"),
            ("compress -o a b c", "one file"),
            ("compress -co a b", "conflicts"),
            ("compress -c --format zlib a b", "follow each other"),
            ("decompress --placement-file p --device cpu a", "'--device <NAME>'"),
        ] {
            let error = parse(line).err().unwrap();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
