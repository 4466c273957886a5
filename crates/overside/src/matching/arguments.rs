//! What was asked for on the command line.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};

use lexopt::prelude::*;
use overside_placement::Policy;

use crate::options::{self, value};

/// The longest file of patterns in bytes; longer sets are refused anyway.
const PATTERNS_BYTES_MAX: u64 = 1 << 20;
/// The shortest and the longest chunk that can be asked for, in bytes.
const CHUNK_BYTES_MIN: usize = 64;
const CHUNK_BYTES_MAX: usize = 64 << 20;
/// Long options, for finding the one that was meant.
const LONG: [&str; 18] = [
    "chunk",
    "column",
    "count",
    "device",
    "engine",
    "explain",
    "file",
    "files-with-matches",
    "help",
    "ignore-case",
    "invert-match",
    "json",
    "line-number",
    "no-filename",
    "only-matching",
    "placement",
    "regexp",
    "threads",
];

/// What is shown of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    Records,
    Only,
    Json,
    Count,
    JsonCount,
    Names,
    Nothing,
}

impl Show {
    pub fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::JsonCount)
    }
}

/// What was asked for.
#[derive(Debug)]
pub struct Arguments {
    pub patterns: Vec<String>,
    /// Files in order; `-` is stdin. Never empty.
    pub files: Vec<OsString>,
    pub ignore_case: bool,
    pub invert: bool,
    pub show: Show,
    pub numbers: bool,
    /// `None`: for several files.
    pub with_name: Option<bool>,
    pub column: Option<String>,
    pub engine: String,
    pub policy: Policy,
    pub device: Option<String>,
    pub threads: usize,
    pub chunk_bytes: Option<usize>,
    pub explain: bool,
}

/// What is to be done.
#[derive(Debug)]
pub enum Asked {
    Help,
    Work(Box<Arguments>),
}

/// Options that decide together what is shown.
#[derive(Default)]
struct Shown {
    count: bool,
    only: bool,
    json: bool,
    names: bool,
    nothing: bool,
}

impl Shown {
    /// As grep decides: the one that shows less.
    fn show(&self) -> Show {
        match self {
            Self { nothing: true, .. } => Show::Nothing,
            Self { names: true, .. } => Show::Names,
            Self {
                count: true,
                json: true,
                ..
            } => Show::JsonCount,
            Self { count: true, .. } => Show::Count,
            Self { json: true, .. } => Show::Json,
            Self { only: true, .. } => Show::Only,
            _ => Show::Records,
        }
    }
}

impl Arguments {
    /// Reads the command line behind the verb, and the files of patterns that it names.
    ///
    /// # Errors
    /// What is not understood or cannot be read, in words.
    pub fn parse(arguments: &[OsString]) -> Result<Asked, String> {
        let mut all = Self {
            patterns: Vec::new(),
            files: Vec::new(),
            ignore_case: false,
            invert: false,
            show: Show::Records,
            numbers: false,
            with_name: None,
            column: None,
            engine: "auto".into(),
            policy: Policy::Cpu,
            device: None,
            threads: options::threads_default(),
            chunk_bytes: None,
            explain: false,
        };
        let (mut shown, mut policy, mut has_patterns) = (Shown::default(), None, false);
        let mut parser = lexopt::Parser::from_args(arguments);
        while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
            match argument {
                Long("help") => return Ok(Asked::Help),
                Short('e') | Long("regexp") => {
                    has_patterns = true;
                    let value = parser.value().map_err(|error| error.to_string())?;
                    all.patterns.extend(lines(pattern(value)?.as_str()));
                }
                Short('f') | Long("file") => {
                    has_patterns = true;
                    let path = parser.value().map_err(|error| error.to_string())?;
                    all.patterns.extend(lines(&read_patterns(&path)?));
                }
                Short('c') | Long("count") => shown.count = true,
                Short('o') | Long("only-matching") => shown.only = true,
                Short('l') | Long("files-with-matches") => shown.names = true,
                Short('q') | Long("quiet") => shown.nothing = true,
                Long("json") => shown.json = true,
                Short('i') | Long("ignore-case") => all.ignore_case = true,
                Short('v') | Long("invert-match") => all.invert = true,
                Short('n') | Long("line-number") => all.numbers = true,
                Short('H') | Long("with-filename") => all.with_name = Some(true),
                Short('h') | Long("no-filename") => all.with_name = Some(false),
                Long("column") => all.column = Some(value(&mut parser, "--column")?),
                Long("engine") => all.engine = value(&mut parser, "--engine")?,
                Long("placement") => policy = Some(value(&mut parser, "--placement")?),
                Long("device") => all.device = Some(value(&mut parser, "--device")?),
                Long("threads") => all.threads = options::threads(&mut parser)?,
                Long("chunk") => {
                    let allowed = CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX;
                    all.chunk_bytes = Some(options::chunk_bytes(&mut parser, allowed)?);
                }
                Long("explain") => all.explain = true,
                Value(file) => all.files.push(file),
                Short(short) => return Err(options::unknown("match", &short.to_string(), &[])),
                Long(long) => {
                    return Err(options::unknown("match", long, &LONG.map(str::to_owned)));
                }
            }
        }
        all.show = shown.show();
        if !has_patterns {
            if all.files.is_empty() {
                return Err("no pattern; `overside match --help` says more".into());
            }
            let first = all.files.remove(0);
            all.patterns.extend(lines(pattern(first)?.as_str()));
        }
        all.settle(policy)?;
        Ok(Asked::Work(Box::new(all)))
    }

    /// Fills in what follows from the rest, and refuses what contradicts itself.
    fn settle(&mut self, policy: Option<Policy>) -> Result<(), String> {
        if self.patterns.is_empty() {
            return Err("the files of patterns are empty: nothing could match".into());
        }
        self.policy = options::placement(policy, &mut self.device)?;
        if self.files.is_empty() {
            self.files.push("-".into());
        }
        Ok(())
    }
}

/// Patterns are separated by line feeds, as grep takes them.
fn lines(text: &str) -> impl Iterator<Item = String> {
    text.split('\n').map(str::to_owned)
}

fn pattern(text: OsString) -> Result<String, String> {
    text.into_string().map_err(|text| {
        format!(
            "the pattern {} is not UTF-8; write bytes as \\xff",
            text.display()
        )
    })
}

/// The patterns in a file, or on stdin. Without the line feed at its end, which starts no pattern.
fn read_patterns(path: &OsStr) -> Result<String, String> {
    let read = || {
        let mut text = String::new();
        let from: Box<dyn Read> = match path == "-" {
            true => Box::new(io::stdin().lock()),
            false => Box::new(File::open(path)?),
        };
        from.take(PATTERNS_BYTES_MAX + 1)
            .read_to_string(&mut text)?;
        if text.len() as u64 > PATTERNS_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(text)
    };
    let mut text: String =
        read().map_err(|error: io::Error| format!("{}: {error}", path.display()))?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}
