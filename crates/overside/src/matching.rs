//! `overside match`.

mod arguments;
mod explain;
mod input;
mod printer;

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::ExitCode;

use overside_log::LevelFilter;
use overside_match::{Answer, Error, Format, Options, Search, SearchSummary};
use overside_placement::{Event, EventKind, Policy};

pub use arguments::Arguments;
use arguments::OutputMode;
use input::{Opened, Pipe};
use printer::Printer;

use crate::messages::shown;

/// Exit codes, grep's.
const NONE: u8 = 1;
pub const ERROR: u8 = 2;

pub fn run(arguments: Arguments) -> ExitCode {
    if let Err(code) = arguments
        .log
        .clone()
        .start("match", LevelFilter::OFF, ERROR)
    {
        return code;
    }
    match Run::new(&arguments).map(Run::run) {
        Ok(code) => code,
        Err(message) => {
            complain!("overside match: {message}");
            ExitCode::from(ERROR)
        }
    }
}

/// The search of all files.
struct Run<'a> {
    arguments: &'a Arguments,
    files: Vec<OsString>,
    mode: OutputMode,
    search: Search,
    policy: Policy,
    with_filename: bool,
    found: bool,
    failed: bool,
}

impl<'a> Run<'a> {
    fn new(arguments: &'a Arguments) -> Result<Self, String> {
        let (patterns, files) = arguments.inputs()?;
        let placement = &arguments.placement;
        let mode = arguments.output.mode();
        let mut options = Options::new(patterns);
        options.ignore_case = arguments.ignore_case;
        options.invert = arguments.invert;
        options.numbers = arguments.output.line_number || mode == OutputMode::Json;
        options.answer = match mode {
            OutputMode::Count | OutputMode::JsonCount => Answer::Count,
            OutputMode::Names | OutputMode::Nothing => Answer::Any,
            OutputMode::Records | OutputMode::Matches | OutputMode::Json => Answer::Records,
        };
        options.engine.clone_from(&arguments.search.engine);
        options.policy = placement.policy()?;
        options.threads = placement.threads();
        if let Some(verify) = placement.verify() {
            options.verify = verify;
        }
        options.chunk_bytes = arguments.search.chunk_bytes;
        if let Some(name) = placement.device() {
            let device = overside_backends::open_accelerator(name, options.threads);
            options.device = device.map_err(|error| error.to_string())?;
        }
        Ok(Self {
            policy: options.policy,
            search: Search::new(options).map_err(|error| error.to_string())?,
            with_filename: arguments.output.with_filename(files.len()),
            arguments,
            files,
            mode,
            found: false,
            failed: false,
        })
    }

    fn run(mut self) -> ExitCode {
        for file in std::mem::take(&mut self.files) {
            match self.file(&file) {
                Ok(found) => self.found |= found,
                // The reader has gone.
                Err(error) if error.is_broken_pipe() => crate::system::end_by_broken_pipe(),
                // Whatever else would be found cannot be written either.
                Err(Error::Write(error)) => {
                    complain!("overside match: stdout: {error}");
                    return ExitCode::from(ERROR);
                }
                Err(error) => {
                    self.failed = true;
                    complain!("overside match: {}: {error}", shown(name(&file)));
                }
            }
            if self.found && self.mode == OutputMode::Nothing {
                return ExitCode::SUCCESS;
            }
        }
        self.warn_of_wrong_results();
        if self.arguments.explain {
            complain!("{}", explain::text(&self.search, self.policy).trim_end());
        }
        self.code()
    }

    /// A device that gave a wrong result is told of, although that did not count.
    fn warn_of_wrong_results(&self) {
        let Some(report) = self.search.report() else {
            return;
        };
        if report.verification.wrong == 0 {
            return;
        }
        let wrong = |event: &&Event| event.kind == EventKind::WrongResult;
        for event in report.events.iter().filter(wrong) {
            complain!("overside match: {event}");
        }
    }

    fn code(&self) -> ExitCode {
        ExitCode::from(match (self.failed, self.found) {
            (true, _) => ERROR,
            (false, true) => 0,
            (false, false) => NONE,
        })
    }

    /// Searches one file and prints what is asked for.
    fn file(&mut self, file: &OsStr) -> Result<bool, Error> {
        let opened = input::open(file).map_err(Error::Read)?;
        let exact = match self.mode {
            OutputMode::Matches | OutputMode::Json => Some(self.search.exact()?.clone()),
            _ => None,
        };
        let named = self.with_filename || self.mode.is_json();
        let prefix = named.then(|| name(file));
        let mut printer = Printer::new(self.arguments, prefix, exact);
        let tally = match &self.arguments.search.column {
            Some(column) => table(&mut self.search, opened, file, column, &mut printer)?,
            None => text(&mut self.search, opened, file, &mut printer)?,
        };
        let found = tally.selected > 0;
        match self.mode {
            OutputMode::Count | OutputMode::JsonCount => printer.count(tally.selected),
            OutputMode::Names if found => printer.name(name(file)),
            _ => Ok(()),
        }
        .and_then(|()| printer.flush())
        .map_err(Error::Write)?;
        Ok(found)
    }
}

/// What a file is called.
fn name(file: &OsStr) -> &OsStr {
    match file == "-" {
        true => OsStr::new("(standard input)"),
        false => file,
    }
}

fn text(
    search: &mut Search,
    opened: Opened,
    file: &OsStr,
    printer: &mut Printer<'_>,
) -> Result<SearchSummary, Error> {
    let mut opened = match opened {
        Opened::File { file, head } => (file, head),
        Opened::Stream(file) => return search.text(&mut Pipe(file), printer),
    };
    match Format::of(&opened.1) {
        Format::Parquet | Format::ArrowFile | Format::ArrowStream => {
            let reason = "a table; name the column to search with --column";
            return Err(Error::Format(reason.into()));
        }
        Format::Compressed(program) => complain!(
            "overside match: {}: compressed by {program}; searching the compressed bytes",
            shown(name(file))
        ),
        Format::Text => {}
    }
    search.text(&mut opened.0, printer)
}

fn table(
    search: &mut Search,
    opened: Opened,
    file: &OsStr,
    column: &str,
    printer: &mut Printer<'_>,
) -> Result<SearchSummary, Error> {
    let is_tsv = OsStr::to_string_lossy(file)
        .to_lowercase()
        .ends_with(".tsv");
    let delimiter = if is_tsv { b'\t' } else { b',' };
    let not_seekable = |what: &str| Error::Format(format!("{what} must be a file, not a pipe"));
    match opened {
        Opened::File { mut file, head } => match Format::of(&head) {
            Format::Parquet => search.parquet(file, column, printer),
            Format::ArrowFile => search.arrow_file(file, column, printer),
            Format::ArrowStream => search.arrow_stream(&mut file, column, printer),
            Format::Compressed(program) => Err(compressed(program)),
            Format::Text => search.csv(&mut file, column, delimiter, printer),
        },
        Opened::Stream(file) => {
            let (head, mut input) = input::peek(file).map_err(Error::Read)?;
            match Format::of(&head) {
                Format::Parquet => Err(not_seekable("Parquet")),
                Format::ArrowFile => Err(not_seekable("an Arrow file")),
                Format::ArrowStream => search.arrow_stream(&mut input, column, printer),
                Format::Compressed(program) => Err(compressed(program)),
                Format::Text => search.csv(&mut input, column, delimiter, printer),
            }
        }
    }
}

fn compressed(program: &str) -> Error {
    Error::Format(format!("compressed by {program}; decompress it first"))
}

/// Where records go.
fn stdout() -> io::BufWriter<io::StdoutLock<'static>> {
    io::BufWriter::with_capacity(1 << 16, io::stdout().lock())
}
