//! Compression and decompression of files like gzip does it: the code that `compress` and `decompress` share.

mod arguments;
mod destination;
mod input;
mod listing;
mod names;
mod original;
mod output;
mod placement_file;
mod progress;
mod report;
mod stream;
mod unfinished;

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, ErrorKind};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use overside_compress::{Container, Error, Options};
use overside_device::OpenError;
use overside_log::LevelFilter;

use crate::walk::{Unreadable, Walk};
pub(crate) use arguments::{ChunkSize, FileArguments, Mode, Request};
use destination::Destination;
use input::Input;
use listing::Listing;
use original::RemovalOutcome;
use overside_command::{complain, messages::shown, system};
use placement_file::PlacementRules;
use report::FileReport;

/// Minimum number of bytes of a compressed file for each thread.
const PART_BYTES: u64 = 128 << 10;
/// Exit codes of gzip.
pub(crate) const ERROR: u8 = 1;
const WARNING: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Compress,
    Decompress,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Compress => "compress",
            Self::Decompress => "decompress",
        })
    }
}

/// Reason why a file was not processed, as a message that names the file.
enum FileError {
    /// The file was skipped.
    Warning(String),
    /// The file was skipped because of its suffix. In a directory this is not reported.
    Suffix(String),
    Error(String),
}

/// Worst result so far: an error weighs more than a warning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Exit {
    Done,
    Warning,
    Error,
}

/// Runs one of the verbs.
pub(crate) fn run(mut request: Request) -> ExitCode {
    let log = request.arguments.log.clone();
    if let Err(code) = log.start(&request.verb.to_string(), LevelFilter::OFF, ERROR) {
        return code;
    }
    let prepared = request.check().and_then(|()| Files::new(&request));
    let mut files = match prepared {
        Ok(files) => files,
        Err(error) => {
            complain!("overside {}: {error}", request.verb);
            return ExitCode::from(ERROR);
        }
    };
    system::install_signal_cleanup();
    let named = &request.arguments.files;
    let exit = (named.iter()).fold(Exit::Done, |exit, path| exit.max(files.named(path)));
    ExitCode::from(match exit.max(files.end_listing()) {
        Exit::Done => 0,
        Exit::Error => ERROR,
        Exit::Warning => WARNING,
    })
}

/// Settings that apply to all files of a command, and the list of the files so far.
struct Files<'a> {
    request: &'a Request,
    options: Options,
    rules: Option<PlacementRules>,
    listing: Listing,
}

impl<'a> Files<'a> {
    fn new(request: &'a Request) -> Result<Self, String> {
        let placement = &request.arguments.placement;
        let mut options = Options {
            container: request.container,
            level: request.level,
            policy: placement.policy()?,
            threads: placement.threads(),
            submitters: request.arguments.submitters.unwrap_or(NonZeroUsize::MIN),
            window_bytes: request.arguments.window,
            ..Options::default()
        };
        if let Some(verify) = placement.verify() {
            options.verify = verify;
        }
        match request.chunk {
            Some(ChunkSize::Bytes(bytes)) => options.chunk_bytes = bytes,
            Some(ChunkSize::Auto) => options.adaptive_chunks = true,
            None => {}
        }
        if let Some(name) = placement.device() {
            let devices = overside_backends::open_accelerators(name, placement.threads());
            options.devices = devices.map_err(|error| error.to_string())?;
        }
        let path = request.arguments.placement_file.as_deref();
        Ok(Self {
            request,
            options,
            rules: path.map(PlacementRules::read).transpose()?,
            listing: Listing::default(),
        })
    }

    /// Processes a named file or, with `--recursive`, the files in a named directory.
    fn named(&mut self, path: &OsStr) -> Exit {
        let recursive = self.request.arguments.output.recursive;
        if !recursive || path == "-" || !Path::new(path).is_dir() {
            return self.process(path, false);
        }
        let verb = self.request.verb;
        let unreadable = |Unreadable(path, error): Unreadable| {
            complain!("overside {verb}: {}: {error}", shown(path));
            Exit::Error
        };
        let walk = match Walk::new(Path::new(path)) {
            Ok(walk) => walk,
            Err(error) => return unreadable(error),
        };
        walk.fold(Exit::Done, |exit, found| {
            exit.max(match found {
                Ok(path) if unfinished::is_unfinished(&path) => Exit::Done,
                Ok(path) => self.process(path.as_os_str(), true),
                Err(error) => unreadable(error),
            })
        })
    }

    /// Processes one file and reports on it. `found` is `true` if the file was found in a directory
    /// instead of named.
    fn process(&mut self, path: &OsStr, found: bool) -> Exit {
        let verb = self.request.verb;
        let asked = &self.request.arguments.messages;
        let mut exit = Exit::Done;
        let mut warn = |message: &str| {
            exit = exit.max(Exit::Warning);
            if !asked.quiet {
                complain!("overside {verb}: {message}");
            }
        };
        match self.replace(path, &mut warn) {
            Ok(Some(report)) => {
                let lists = self.request.mode == Mode::List;
                if lists {
                    let suffix = self.request.suffix();
                    let listed = (self.listing).add(&report, suffix, asked.verbose, !asked.quiet);
                    exit = exit.max(written(verb, listed));
                }
                let text = report.text(asked, lists);
                if !text.is_empty() {
                    complain!("{}", text.trim_end());
                }
                if report.is_device_wrong() {
                    exit = exit.max(Exit::Warning);
                }
            }
            Ok(None) => {}
            Err(FileError::Suffix(_)) if found => {}
            Err(FileError::Warning(message) | FileError::Suffix(message)) => warn(&message),
            Err(FileError::Error(message)) => {
                complain!("overside {verb}: {message}");
                return Exit::Error;
            }
        }
        exit
    }

    /// Prints the totals below the list.
    fn end_listing(&self) -> Exit {
        match self.request.mode {
            Mode::List => written(
                self.request.verb,
                self.listing.finish(self.request.arguments.messages.verbose),
            ),
            Mode::Write | Mode::Test => Exit::Done,
        }
    }

    /// Writes the output, and removes the input if the output replaces it. Returns `None` if the
    /// input was not compressed and was copied.
    fn replace(
        &self,
        path: &OsStr,
        warn: &mut dyn FnMut(&str),
    ) -> Result<Option<FileReport>, FileError> {
        let request = self.request;
        let mut input = Input::open(path, request)?;
        let begin = Instant::now();
        let destination = Destination::of(request, &input)?;
        let mut output = destination.open(request, &input)?;
        let options = self.options_of(&input)?;
        let result = stream::run(request, &options, &mut input, &mut output);
        let summary = result.map_err(|error| failed(error, &input, &destination))?;
        let replaces = matches!(destination, Destination::Beside(_));
        let original = (input.path.as_deref())
            .filter(|_| replaces && !request.arguments.output.keep && summary.is_some());
        let finished = output.finish(input.attributes(), original.is_some());
        finished.map_err(|error| failed(Error::Write(error), &input, &destination))?;
        let elapsed = begin.elapsed();
        let Some(summary) = summary else {
            return Ok(None);
        };
        let name = &input.name;
        if let Some(ignored) = summary.ignored
            && (original.is_some() || !ignored.padding)
        {
            let kept = original.map_or("", |_| "; kept");
            let bytes = ignored.bytes;
            warn(&format!("{name}: ignored {bytes} bytes after the compressed data{kept}"));
        } else if let Some(path) = original {
            let removed = original::remove(&input, path);
            let fate = removed.map_err(|error| FileError::Error(format!("{name}: {error}")))?;
            match fate {
                RemovalOutcome::Removed => {}
                RemovalOutcome::Changed => {
                    warn(&format!("{name}: changed while it was read; kept"))
                }
                RemovalOutcome::Replaced => {
                    warn(&format!("{name}: another file took its name while it was read; kept"))
                }
                RemovalOutcome::Gone => {
                    warn(&format!("{name}: removed or renamed while it was read"))
                }
            }
        }
        Ok(Some(FileReport {
            verb: request.verb,
            input: match &input.path {
                Some(path) => path.display().to_string(),
                None => input.name,
            },
            output: destination.name(),
            level: level(request.verb, &options),
            policy: options.policy,
            elapsed,
            summary,
        }))
    }

    fn options_of(&self, input: &Input) -> Result<Options, FileError> {
        let (request, mut options) = (self.request, self.options.clone());
        if let Some(rules) = &self.rules {
            (rules.apply(request, input, &mut options))
                .map_err(|error| FileError::Error(format!("{}: {error}", input.name)))?;
        }
        if request.verb == Verb::Compress && request.name {
            (options.name, options.mtime) = input.original();
        }
        if let Some(len) = input.len() {
            // A short file needs few threads. A compressed file has more parts than its length suggests.
            let part_bytes = match request.verb {
                Verb::Compress => options.chunk_bytes.max(1) as u64,
                Verb::Decompress => PART_BYTES,
            };
            let chunks = usize::try_from(len.div_ceil(part_bytes).max(1));
            options.threads = options.threads.min(chunks.unwrap_or(usize::MAX));
        }
        Ok(options)
    }
}

/// Returns the level at which the CPU compresses, requested or default.
fn level(verb: Verb, options: &Options) -> Option<u32> {
    let container = options.container.unwrap_or(Container::Gzip);
    (verb == Verb::Compress && options.policy.uses_cpu())
        .then(|| options.level.or_else(|| Some(container.levels()?.1)))
        .flatten()
}

/// Maps the result of printing a line of the list to the command's exit state. Ends the process if
/// the reader of stdout has gone.
fn written(verb: Verb, result: io::Result<()>) -> Exit {
    match result {
        Ok(()) => Exit::Done,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => system::end_by_broken_pipe(),
        Err(error) => {
            complain!("overside {verb}: stdout: {error}");
            Exit::Error
        }
    }
}

/// Returns the message for an error, with the name of the file that caused it.
fn failed(error: Error, input: &Input, destination: &Destination) -> FileError {
    match error {
        Error::Write(error) if error.kind() == ErrorKind::BrokenPipe => {
            // The reader has closed the pipe. Output to a pipe leaves no unfinished file.
            system::end_by_broken_pipe()
        }
        Error::Write(error) => {
            let name = shown(destination.name().unwrap_or_default());
            FileError::Error(format!("{name}: {error}"))
        }
        Error::Read(error) => FileError::Error(format!("{}: {error}", input.name)),
        Error::Executor(overside_placement::Error::Open(
            ref error @ OpenError::Unsupported { .. },
        )) => FileError::Error(format!(
            "{}: {error}; `overside devices` lists what can; --placement adaptive takes the CPU",
            input.name
        )),
        error => FileError::Error(format!("{}: {error}", input.name)),
    }
}
