//! What `compress` and `decompress` have in common: files in, files out, as gzip does it.

mod arguments;
mod input;
mod names;
mod output;
mod placed;
mod progress;
mod stream;
mod telling;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use overside_compress::{Container, Error, Options, Policy, Summary};
use overside_placement::{Report, TargetReport};

use crate::system;
use arguments::{Arguments, Asked};
use input::Input;
use output::{Named, Output};
use placed::Placed;

/// Bytes of a compressed file that are worth a thread.
const PART_BYTES: u64 = 128 << 10;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Compress,
    Decompress,
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Self::Compress => "compress",
            Self::Decompress => "decompress",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a file is not done, in words that name it.
enum Trouble {
    /// It was left alone; exit code 2.
    Warning(String),
    /// Exit code 1.
    Error(String),
}

/// A file that is done.
pub struct Done {
    verb: Verb,
    input: String,
    /// `None` if nothing was kept.
    output: Option<String>,
    policy: Policy,
    elapsed: Duration,
    summary: Summary,
}

/// gzip's exit codes, the worst so far: an error weighs more than a warning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exit {
    Done,
    Warning,
    Error,
}

/// Answers one of the verbs. Exit codes are gzip's.
pub fn main(verb: Verb, help: &str, arguments: &[OsString]) -> ExitCode {
    let all = match Arguments::parse(verb, arguments) {
        Ok(Asked::Help) => return crate::print(help),
        Ok(Asked::Work(all)) => all,
        Err(error) => {
            complain!("overside {verb}: {error}");
            return ExitCode::from(1);
        }
    };
    let placed = all.placement_file.as_deref().map(Placed::read);
    let made = options(&all).and_then(|options| Ok((options, placed.transpose()?)));
    let (options, placed) = match made {
        Ok(made) => made,
        Err(error) => {
            complain!("overside {verb}: {error}");
            return ExitCode::from(1);
        }
    };
    system::tidy_up_on_signals();
    let mut exit = Exit::Done;
    for named in &all.files {
        exit = exit.and(work(&all, &options, placed.as_ref(), named));
    }
    ExitCode::from(match exit {
        Exit::Done => 0,
        Exit::Error => 1,
        Exit::Warning => 2,
    })
}

impl Exit {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Error, _) | (_, Self::Error) => Self::Error,
            (Self::Warning, _) | (_, Self::Warning) => Self::Warning,
            _ => Self::Done,
        }
    }
}

/// What holds for all files.
fn options(all: &Arguments) -> Result<Options, String> {
    let mut options = Options {
        container: all.container,
        level: all.level,
        policy: all.policy,
        threads: all.threads,
        ..Options::default()
    };
    if let Some(chunk_bytes) = all.chunk_bytes {
        options.chunk_bytes = chunk_bytes;
    }
    if let Some(name) = &all.device {
        let device = overside_backends::open_accelerator(name, all.threads);
        options.device = device.map_err(|error| error.to_string())?;
    }
    Ok(options)
}

/// Does one file and tells what there is to tell.
fn work(all: &Arguments, options: &Options, placed: Option<&Placed>, named: &OsStr) -> Exit {
    let mut exit = Exit::Done;
    let mut warn = |message: &str| {
        exit = exit.and(Exit::Warning);
        if !all.quiet {
            complain!("overside {}: {message}", all.verb);
        }
    };
    match one(all, options, placed, named, &mut warn) {
        Ok(Some(done)) => tell(all, &done),
        Ok(None) => {}
        Err(Trouble::Warning(message)) => warn(&message),
        Err(Trouble::Error(message)) => {
            complain!("overside {}: {message}", all.verb);
            return Exit::Error;
        }
    }
    exit
}

fn one(
    all: &Arguments,
    options: &Options,
    placed: Option<&Placed>,
    named: &OsStr,
    warn: &mut dyn FnMut(&str),
) -> Result<Option<Done>, Trouble> {
    let mut input = Input::open(named, all)?;
    let begin = Instant::now();
    let target = target(all, &input)?;
    let mut output = target.open(all, &input)?;
    let options = options_of(all, options, placed, &input)?;
    let result = stream::run(all, &options, &mut input, &mut output);
    let summary = result.map_err(|error| failed(error, &input, &target))?;
    let finished = output.finish(input.attributes());
    finished.map_err(|error| failed(Error::Write(error), &input, &target))?;
    let elapsed = begin.elapsed();
    let Some(summary) = summary else {
        return Ok(None);
    };
    if let Some(ignored) = summary.ignored.filter(|ignored| !ignored.padding) {
        warn(&format!(
            "{}: {} bytes that follow the compressed data are ignored",
            input.name, ignored.bytes
        ));
    }
    let removes = matches!(target, Target::Beside(_)) && !all.keep;
    if let Some(path) = input.path.as_deref().filter(|_| removes) {
        if input.has_changed() {
            warn(&format!(
                "{}: it changed while it was read, and is kept",
                input.name
            ));
        } else {
            fs::remove_file(path)
                .map_err(|error| Trouble::Error(format!("{}: {error}", input.name)))?;
        }
    }
    Ok(Some(Done {
        verb: all.verb,
        input: input.name,
        output: target.name(),
        policy: options.policy,
        elapsed,
        summary,
    }))
}

/// What holds for one file.
fn options_of(
    all: &Arguments,
    options: &Options,
    placed: Option<&Placed>,
    input: &Input,
) -> Result<Options, Trouble> {
    let mut options = options.clone();
    if let Some(placed) = placed {
        (placed.apply(all, input, &mut options))
            .map_err(|error| Trouble::Error(format!("{}: {error}", input.name)))?;
    }
    if all.verb == Verb::Compress && all.name {
        (options.name, options.mtime) = input.original();
    }
    if let Some(len) = input.len() {
        // A short file starts no threads that it has no work for. What is compressed has more
        // parts than it seems.
        let part_bytes = match all.verb {
            Verb::Compress => options.chunk_bytes.max(1) as u64,
            Verb::Decompress => PART_BYTES,
        };
        let chunks = len.div_ceil(part_bytes).max(1);
        options.threads = options
            .threads
            .min(usize::try_from(chunks).unwrap_or(usize::MAX));
    }
    Ok(options)
}

/// Where the output goes.
enum Target {
    Nowhere,
    Stdout,
    /// To what was named by `--output`.
    To(PathBuf),
    /// Beside the input, which goes unless it is kept.
    Beside(PathBuf),
}

/// Finds out where the output goes, or why it does not.
fn target(all: &Arguments, input: &Input) -> Result<Target, Trouble> {
    if all.test {
        return Ok(Target::Nowhere);
    }
    if let Some(path) = &all.output {
        // A link stays, and what it points to is replaced.
        let linked = fs::symlink_metadata(path).is_ok_and(|there| there.is_symlink());
        let behind = fs::canonicalize(path).ok().filter(|_| linked);
        return Ok(Target::To(behind.unwrap_or_else(|| path.clone())));
    }
    let Some(path) = input.path.as_deref().filter(|_| !all.stdout) else {
        return Ok(Target::Stdout);
    };
    let container = all.container.unwrap_or(Container::Gzip);
    let beside = match all.verb {
        Verb::Compress => match names::already(path, container) {
            Some(end) if !all.force => {
                let message = format!("{} already ends with {end}; skipped", input.name);
                return Err(Trouble::Warning(message));
            }
            _ => Some(names::compressed(path, container)),
        },
        Verb::Decompress => names::decompressed(path),
    };
    beside.map(Target::Beside).ok_or_else(|| {
        Trouble::Warning(format!(
            "{} has no ending that is known; skipped (-c or -o decompress it)",
            input.name
        ))
    })
}

impl Target {
    fn name(&self) -> Option<String> {
        match self {
            Self::Nowhere => None,
            Self::Stdout => Some("stdout".into()),
            Self::To(path) | Self::Beside(path) => Some(path.display().to_string()),
        }
    }

    fn open(&self, all: &Arguments, input: &Input) -> Result<Output, Trouble> {
        let failed = |error: io::Error| {
            Trouble::Error(format!("{}: {error}", self.name().unwrap_or_default()))
        };
        match self {
            Self::Nowhere => Ok(Output::Nothing),
            Self::Stdout => {
                if all.verb == Verb::Compress && !all.force && io::stdout().is_terminal() {
                    return Err(Trouble::Error(
                        "compressed data is not written to a terminal; -f does, --help says more"
                            .into(),
                    ));
                }
                Output::stdout().map_err(failed)
            }
            Self::To(path) => match fs::metadata(path) {
                Ok(there) if !there.is_file() && !there.is_dir() => {
                    let file = fs::OpenOptions::new().write(true).open(path);
                    file.map(Output::Open).map_err(failed)
                }
                _ => named(path, all, input),
            },
            Self::Beside(path) => named(path, all, input),
        }
    }
}

/// Makes a file that does not take a name that is in use, unless that is wanted.
fn named(path: &Path, all: &Arguments, input: &Input) -> Result<Output, Trouble> {
    let failed = |error: io::Error| Trouble::Error(format!("{}: {error}", path.display()));
    match fs::symlink_metadata(path) {
        Ok(there) => {
            let same = |one: &fs::Metadata| (one.dev(), one.ino()) == (there.dev(), there.ino());
            if input.metadata.as_ref().is_some_and(same) {
                return Err(Trouble::Error(format!(
                    "{} is both input and output",
                    path.display()
                )));
            }
            if there.is_dir() {
                return Err(failed(ErrorKind::IsADirectory.into()));
            }
            if !all.force {
                return Err(Trouble::Warning(format!(
                    "{} already exists; not overwritten (-f does)",
                    path.display()
                )));
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let made = Named::create(path, input.attributes().is_some(), all.force);
    made.map(Output::Named).map_err(failed)
}

/// What to say of an error; whose file it is depends on what was done to it.
fn failed(error: Error, input: &Input, target: &Target) -> Trouble {
    match error {
        Error::Write(error) if error.kind() == ErrorKind::BrokenPipe => {
            // Nobody reads it any more, and nobody needs to be told. What is written to a pipe has
            // no unfinished file.
            system::end_by_broken_pipe()
        }
        Error::Write(error) => {
            Trouble::Error(format!("{}: {error}", target.name().unwrap_or_default()))
        }
        Error::Read(error) => Trouble::Error(format!("{}: {error}", input.name)),
        error => Trouble::Error(format!("{}: {error}", input.name)),
    }
}

fn tell(all: &Arguments, done: &Done) {
    let mut text = String::new();
    if !all.quiet && all.stats.is_none() {
        text.push_str(&telling::events(done));
    }
    if all.explain {
        text.push_str(&telling::explain(done));
    }
    match all.stats {
        Some(how) => text.push_str(&telling::stats(done, how)),
        None if all.verbose => text = text + &telling::line(done) + "\n",
        None => {}
    }
    if !text.is_empty() {
        complain!("{}", text.trim_end());
    }
}

impl Done {
    fn plain_bytes(&self) -> u64 {
        match self.verb {
            Verb::Compress => self.summary.bytes_in,
            Verb::Decompress => self.summary.bytes_out,
        }
    }

    fn compressed_bytes(&self) -> u64 {
        match self.verb {
            Verb::Compress => self.summary.bytes_out,
            Verb::Decompress => self.summary.bytes_in,
        }
    }

    fn plain_bytes_of(&self, leg: &TargetReport) -> u64 {
        match self.verb {
            Verb::Compress => leg.source_bytes,
            Verb::Decompress => leg.destination_bytes,
        }
    }

    /// Uncompressed bytes a second.
    fn throughput(&self) -> f64 {
        self.plain_bytes() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    fn report(&self) -> Option<&Report> {
        self.summary.report.as_ref()
    }

    fn legs(&self) -> impl Iterator<Item = &TargetReport> {
        let report = self.report();
        let legs = report.map(|report| [report.cpu.as_ref(), report.device.as_ref()]);
        legs.into_iter().flatten().flatten()
    }
}
