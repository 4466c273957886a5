//! `overside match`.

mod arguments;
mod explain;
mod input;
mod mapped_file;
mod output;
mod patterns;
mod printer;
#[cfg_attr(not(feature = "flow"), path = "matching/without_tables.rs")]
mod tables;

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use overside_base::FileFormat;
use overside_device::ExternalBytes;
use overside_log::LevelFilter;
use overside_match::{Answer, Error, Options, Search, SearchSummary};
use overside_placement::{Event, EventKind, Policy};

pub(crate) use arguments::Arguments;
use input::{Inside, Opened, Source};
use mapped_file::MappedFile;
use output::OutputMode;
use printer::{Binary, Printer};

use crate::walk::{Unreadable, Walk};
use overside_command::{complain, messages::shown};

/// Exit codes of grep.
const NONE: u8 = 1;
pub(crate) const ERROR: u8 = 2;

pub(crate) fn run(arguments: Arguments) -> ExitCode {
    if let Err(code) = arguments.log.clone().start("match", LevelFilter::OFF, ERROR) {
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

/// Search of all files.
struct Run<'a> {
    arguments: &'a Arguments,
    files: Vec<OsString>,
    mode: OutputMode,
    search: Search,
    printer: Printer,
    policy: Policy,
    threads: usize,
    with_filename: bool,
    /// `true` if no files are named: then those in the current directory are searched.
    nothing_named: bool,
    found: bool,
    failed: bool,
}

impl<'a> Run<'a> {
    fn new(arguments: &'a Arguments) -> Result<Self, String> {
        let (patterns, mut files) = arguments.inputs()?;
        let placement = &arguments.placement;
        let mode = arguments.output.mode();
        // Without patterns, all records are selected with `-v` and none without it. The empty
        // pattern, which matches everywhere, does the same if the selection is inverted.
        let has_patterns = !patterns.is_empty();
        let mut options = Options::new(match has_patterns {
            true => patterns,
            false => vec![String::new()],
        });
        options.fixed_strings = arguments.fixed_strings;
        if has_patterns {
            options.scope = arguments.scope();
        }
        options.ignore_case = arguments.ignore_case;
        options.invert = arguments.invert == has_patterns;
        options.numbers = arguments.output.with_number() || mode == OutputMode::Json;
        options.records_max = arguments.search.max_count;
        options.context = arguments.output.context();
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
            let devices = overside_backends::open_accelerators(name, options.threads);
            options.devices = devices.map_err(|error| error.to_string())?;
        }
        let recursive = arguments.search.recursive;
        let nothing_named = files.is_empty();
        if nothing_named {
            files.push(if recursive { "." } else { "-" }.into());
        }
        let is_directory = |file: &OsString| recursive && Path::new(file).is_dir();
        let several = files.len() > 1 || files.iter().any(is_directory);
        let (policy, threads) = (options.policy, options.threads);
        let mut search = Search::new(options).map_err(|error| error.to_string())?;
        let shows_matches = match mode {
            OutputMode::Matches | OutputMode::Json => true,
            OutputMode::Records => arguments.output.is_colored(),
            _ => false,
        };
        let exact = match shows_matches {
            true => Some(search.exact().map_err(|error| error.to_string())?.clone()),
            false => None,
        };
        let end = if arguments.search.null_data { 0 } else { b'\n' };
        Ok(Self {
            policy,
            threads,
            search,
            printer: Printer::new(&arguments.output, arguments.invert, end, exact),
            with_filename: arguments.output.with_filename(several),
            nothing_named,
            arguments,
            files,
            mode,
            found: false,
            failed: false,
        })
    }

    fn run(mut self) -> ExitCode {
        for file in std::mem::take(&mut self.files) {
            if let ControlFlow::Break(code) = self.named(&file) {
                return code;
            }
        }
        self.warn_of_wrong_results();
        if self.arguments.explain {
            complain!("{}", explain::text(&self.search, self.policy).trim_end());
        }
        self.code()
    }

    /// Searches a named file or, with `--recursive`, the files in a named directory.
    fn named(&mut self, named: &OsStr) -> ControlFlow<ExitCode> {
        let directory = Path::new(named);
        if !self.arguments.search.recursive || named == "-" || !directory.is_dir() {
            return self.one(named);
        }
        let walk = match Walk::new(directory) {
            Ok(walk) => walk,
            Err(error) => return self.unreadable(&error),
        };
        for found in walk {
            match found {
                Ok(path) if self.nothing_named => {
                    self.one(path.strip_prefix("./").unwrap_or(&path).as_os_str())?;
                }
                Ok(path) => self.one(path.as_os_str())?,
                Err(error) => self.unreadable(&error)?,
            }
        }
        ControlFlow::Continue(())
    }

    fn unreadable(&mut self, Unreadable(path, error): &Unreadable) -> ControlFlow<ExitCode> {
        self.failed = true;
        complain!("overside match: {}: {error}", shown(path));
        ControlFlow::Continue(())
    }

    /// Searches a file. Returns `Break` if it is the last one.
    fn one(&mut self, file: &OsStr) -> ControlFlow<ExitCode> {
        match self.file(file) {
            Ok(found) => self.found |= found,
            // The reader has closed the pipe.
            Err(error) if error.is_broken_pipe() => overside_command::system::end_by_broken_pipe(),
            // Matches of other files could not be written either.
            Err(Error::Write(error)) => {
                complain!("overside match: stdout: {error}");
                return ControlFlow::Break(ExitCode::from(ERROR));
            }
            Err(error) => {
                self.failed = true;
                complain!("overside match: {}: {error}", shown(name(file)));
            }
        }
        match self.found && self.mode == OutputMode::Nothing {
            true => ControlFlow::Break(ExitCode::SUCCESS),
            false => ControlFlow::Continue(()),
        }
    }

    /// Warns that a device gave a wrong result, although the result was not used.
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

    /// Searches one file and prints the requested output.
    fn file(&mut self, file: &OsStr) -> Result<bool, Error> {
        let with_head = self.arguments.search.column.is_some();
        let opened = input::open(file, self.threads, with_head).map_err(Error::Read)?;
        let binary = self.binary(file, &opened);
        let is_skipped = binary.as_ref().is_some_and(|binary| binary.known && binary.skip);
        let named = self.with_filename || self.mode.is_json();
        self.printer.begin(named.then(|| name(file)), binary);
        if is_skipped {
            return self.end_file(file, 0);
        }
        let summary = self.search_in(opened, file);
        // Matches before an error are printed before the error.
        self.printer.flush().map_err(Error::Write)?;
        self.end_file(file, summary?.selected)
    }

    fn search_in(&mut self, opened: Opened, file: &OsStr) -> Result<SearchSummary, Error> {
        let (search, printer) = (&mut self.search, &mut self.printer);
        if let Some(column) = &self.arguments.search.column {
            return tables::search(search, opened, file, column, printer);
        }
        if !self.arguments.search.null_data {
            return text(search, opened, file, printer);
        }
        match opened.source {
            Source::File(mut file) => search.null_data(&mut file, printer),
            Source::Stream(mut pipe) => search.null_data(&mut pipe, printer),
            Source::Decompressed(mut inside) => search.null_data(&mut *inside, printer),
        }
    }

    /// Returns the handling of a file that turns out to be binary: like grep, no record of it is
    /// printed. `None` if its content is printed anyway: values of a table are not lines, and JSON
    /// can represent any byte.
    fn binary(&self, file: &OsStr, opened: &Opened) -> Option<Binary> {
        let wanted = &self.arguments.search;
        let is_text = wanted.text || wanted.null_data || wanted.column.is_some();
        (!is_text && !self.mode.is_json()).then(|| Binary {
            name: name(file).to_owned(),
            known: opened.is_binary(),
            skip: wanted.skip_binary,
        })
    }

    /// Prints the count or name of a file at its end. Returns `true` if a record was selected.
    fn end_file(&mut self, file: &OsStr, selected: u64) -> Result<bool, Error> {
        let found = selected > 0;
        match self.mode {
            OutputMode::Count | OutputMode::JsonCount => self.printer.count(selected),
            OutputMode::Names if found => self.printer.name(name(file)),
            _ => Ok(()),
        }
        .and_then(|()| self.printer.flush())
        .map_err(Error::Write)?;
        Ok(found)
    }
}

/// Returns the name of a file in the output and in messages.
fn name(file: &OsStr) -> &OsStr {
    match file == "-" {
        true => OsStr::new("(standard input)"),
        false => file,
    }
}

fn text(
    search: &mut Search,
    opened: Opened,
    named: &OsStr,
    printer: &mut Printer,
) -> Result<SearchSummary, Error> {
    match opened.format() {
        FileFormat::Parquet | FileFormat::ArrowFile | FileFormat::ArrowStream
            if !matches!(opened.source, Source::Stream(_)) =>
        {
            let reason = "a table; name the column to search with --column";
            return Err(Error::Format(reason.into()));
        }
        FileFormat::Compressed(program) => complain!(
            "overside match: {}: compressed by {program}; searching the compressed bytes",
            shown(name(named))
        ),
        _ => {}
    }
    match opened.source {
        Source::File(mut file) => match (named != "-").then(|| MappedFile::new(&file)).flatten() {
            Some(mapped) => {
                let summary = search.memory(ExternalBytes::new(mapped), printer);
                MappedFile::check().map_err(Error::Read)?;
                summary
            }
            None => search.text(&mut file, printer),
        },
        Source::Stream(mut pipe) => search.text(&mut pipe, printer),
        Source::Decompressed(inside) => search.text(&mut Inside(inside), printer),
    }
}

/// Returns a buffered stdout, to which records are printed.
fn stdout() -> io::BufWriter<io::StdoutLock<'static>> {
    io::BufWriter::with_capacity(1 << 16, io::stdout().lock())
}
