//! What was asked for on the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use lexopt::prelude::*;
use overside_compress::{Container, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES, Policy};

use super::Verb;
use crate::options::{self, value};

/// Long options, for finding the one that was meant.
const LONG: &str = "best chunk device explain fast force format help keep level no-name output \
                    placement placement-file quiet \
                    stats stdout test threads verbose";

/// What was asked for.
pub struct Arguments {
    pub verb: Verb,
    /// Files in order; `-` is stdin. Never empty.
    pub files: Vec<OsString>,
    pub container: Option<Container>,
    pub level: Option<u32>,
    pub policy: Policy,
    pub device: Option<String>,
    /// What says where each file runs, in the place of policy and device.
    pub placement_file: Option<PathBuf>,
    pub threads: usize,
    pub chunk_bytes: Option<usize>,
    pub keep: bool,
    pub stdout: bool,
    pub output: Option<PathBuf>,
    pub force: bool,
    pub test: bool,
    /// Name and time of the original go into the header.
    pub name: bool,
    pub quiet: bool,
    pub verbose: bool,
    pub explain: bool,
    pub stats: Option<Stats>,
}

/// How figures are told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stats {
    Json,
    Text,
}

/// What is to be done.
pub enum Asked {
    Help,
    Work(Box<Arguments>),
}

impl Arguments {
    /// Reads the command line behind the verb.
    ///
    /// # Errors
    /// What is not understood, in words.
    pub fn parse(verb: Verb, arguments: &[OsString]) -> Result<Asked, String> {
        let mut all = Self {
            verb,
            files: Vec::new(),
            container: None,
            level: None,
            policy: Policy::Cpu,
            device: None,
            placement_file: None,
            threads: options::threads_default(),
            chunk_bytes: None,
            keep: false,
            stdout: false,
            output: None,
            force: false,
            test: false,
            name: true,
            quiet: false,
            verbose: false,
            explain: false,
            stats: None,
        };
        let mut policy = None;
        let mut parser = lexopt::Parser::from_args(arguments);
        while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
            match argument {
                Short('h') | Long("help") => return Ok(Asked::Help),
                Long("placement") => policy = Some(value(&mut parser, "--placement")?),
                Value(file) => all.files.push(file),
                Short(_) | Long(_) => all.option(argument.into(), &mut parser)?,
            }
        }
        all.settle(policy)?;
        Ok(Asked::Work(Box::new(all)))
    }

    /// Takes one option, and its value from `parser`.
    fn option(&mut self, option: Name, parser: &mut lexopt::Parser) -> Result<(), String> {
        let compress = self.verb == Verb::Compress;
        match (option.short, option.long.as_str()) {
            (Some('k'), _) | (_, "keep") => self.keep = true,
            (Some('c'), _) | (_, "stdout") => self.stdout = true,
            (Some('f'), _) | (_, "force") => self.force = true,
            (Some('q'), _) | (_, "quiet") => self.quiet = true,
            (Some('v'), _) | (_, "verbose") => self.verbose = true,
            (Some('o'), _) | (_, "output") => {
                let path = parser.value().map_err(|error| error.to_string())?;
                match path == "-" {
                    true => self.stdout = true,
                    false => self.output = Some(path.into()),
                }
            }
            (Some('p'), _) | (_, "threads") => self.threads = options::threads(parser)?,
            (_, "format") => self.container = Some(value(parser, "--format")?),
            (_, "device") => self.device = Some(value(parser, "--device")?),
            (_, "placement-file") => {
                let path = parser.value().map_err(|error| error.to_string())?;
                self.placement_file = Some(path.into());
            }
            (_, "explain") => self.explain = true,
            (_, "stats") => self.stats = Some(value(parser, "--stats")?),
            (Some('t'), _) | (_, "test") if !compress => self.test = true,
            (Some('n'), _) | (_, "no-name") if compress => self.name = false,
            (Some(digit @ '0'..='9'), _) if compress => self.level = digit.to_digit(10),
            (_, "level") if compress => self.level = Some(value(parser, "--level")?),
            (_, "fast") if compress => self.level = Some(1),
            (_, "best") if compress => self.level = Some(9),
            (_, "chunk") if compress => {
                let allowed = MIN_CHUNK_BYTES..=MAX_CHUNK_BYTES;
                self.chunk_bytes = Some(options::chunk_bytes(parser, allowed)?);
            }
            _ => return Err(option.unknown(self.verb)),
        }
        Ok(())
    }

    /// Fills in what follows from the rest, and refuses what contradicts itself.
    fn settle(&mut self, policy: Option<Policy>) -> Result<(), String> {
        if self.placement_file.is_some() && (policy.is_some() || self.device.is_some()) {
            return Err("--placement-file goes neither with --placement nor with --device".into());
        }
        self.policy = options::placement(policy, &mut self.device)?;
        if self.output.is_some() {
            if self.stdout || self.test {
                return Err("--output goes neither with --stdout nor with --test".into());
            }
            if self.files.len() > 1 {
                return Err("--output takes one file at a time".into());
            }
        }
        let several = self.files.len() > 1 && self.stdout;
        if self.container == Some(Container::Zlib) && several && self.verb == Verb::Compress {
            return Err("zlib streams cannot follow each other; --stdout takes one file".into());
        }
        if self.files.is_empty() {
            self.files.push("-".into());
        }
        Ok(())
    }

    /// Whether the input stays where it is in any case, so that it may be anything that can be
    /// read.
    pub fn only_reads(&self) -> bool {
        self.stdout || self.test || self.output.is_some()
    }
}

/// An option as it was written.
struct Name {
    short: Option<char>,
    long: String,
}

impl From<lexopt::Arg<'_>> for Name {
    fn from(argument: lexopt::Arg<'_>) -> Self {
        match argument {
            Short(short) => Self {
                short: Some(short),
                long: String::new(),
            },
            Long(long) => Self {
                short: None,
                long: long.into(),
            },
            Value(_) => Self {
                short: None,
                long: String::new(),
            },
        }
    }
}

impl Name {
    fn unknown(&self, verb: Verb) -> String {
        if let Some(short) = self.short {
            return options::unknown(verb.name(), &short.to_string(), &[]);
        }
        let long = &self.long;
        let other = match verb {
            Verb::Compress => Verb::Decompress,
            Verb::Decompress => Verb::Compress,
        };
        let known: Vec<String> = LONG.split(' ').map(str::to_owned).collect();
        if known.contains(long) {
            return format!("--{long} is an option of `overside {other}` only");
        }
        options::unknown(verb.name(), long, &known)
    }
}

impl FromStr for Stats {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            _ => Err("it is json or text"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(verb: Verb, line: &str) -> Result<Box<Arguments>, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        match Arguments::parse(verb, &words)? {
            Asked::Work(arguments) => Ok(arguments),
            Asked::Help => Err("help".into()),
        }
    }

    #[test]
    fn options_stand_together_and_anywhere() {
        let all = parse(Verb::Compress, "a -9kp2 b --chunk=64KiB -- -c").unwrap();
        assert_eq!(all.files, ["a", "b", "-c"]);
        assert_eq!((all.level, all.threads, all.keep), (Some(9), 2, true));
        assert_eq!(all.chunk_bytes, Some(64 << 10));
        assert!(!all.stdout);
        assert_eq!(parse(Verb::Decompress, "").unwrap().files, ["-"]);
        assert!(parse(Verb::Decompress, "-o - a").unwrap().stdout);
    }

    #[test]
    fn the_placement_follows_from_the_device() {
        let policy = |line| parse(Verb::Compress, line).map(|all| all.policy);
        assert_eq!(policy("a"), Ok(Policy::Cpu));
        assert_eq!(policy("--device cpu a"), Ok(Policy::Cpu));
        assert_eq!(policy("--device emulated:bf2 a"), Ok(Policy::Adaptive));
        let split = policy("--placement split:40 --device emulated:bf2 a");
        assert_eq!(split, Ok(Policy::Split(40.0)));
        assert!(
            policy("--placement split:40 a")
                .unwrap_err()
                .contains("--device")
        );
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (verb, line, said) in [
            (
                Verb::Compress,
                "--plcement cpu",
                "did you mean --placement?",
            ),
            (Verb::Compress, "-t", "no option -t"),
            (Verb::Compress, "--test", "`overside decompress` only"),
            (Verb::Decompress, "--chunk 1", "`overside compress` only"),
            (Verb::Compress, "--format rar", "gzip, zlib, lz4 and zstd"),
            (Verb::Compress, "--chunk 3parsecs", "like 65536"),
            (
                Verb::Compress,
                "--chunk 99999999999999999999g",
                "like 65536",
            ),
            (Verb::Compress, "--chunk 9999999999999999g", "too large"),
            (Verb::Compress, "--chunk 1023", "1024 to 67108864 bytes"),
            (Verb::Compress, "-p0", "1 to 1024"),
            (Verb::Compress, "--stats xml", "json or text"),
            (Verb::Compress, "--placement split:200", "percentage"),
            (Verb::Compress, "--level", "missing"),
            (Verb::Compress, "-o a b c", "one file"),
            (Verb::Compress, "-co a b", "neither"),
            (Verb::Compress, "-c --format zlib a b", "follow each other"),
            (
                Verb::Decompress,
                "--placement-file p --device cpu a",
                "neither with --placement nor with --device",
            ),
        ] {
            let error = parse(verb, line).err().unwrap();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
