//! `overside match`.

mod arguments;
mod explain;
mod input;
mod printer;

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::ExitCode;

use overside_match::{Answer, Error, Format, Options, Search, Tally};

use arguments::{Arguments, Asked, Show};
use input::{Opened, Pipe};
use printer::Printer;

/// Exit codes, as grep has them.
const NONE: u8 = 1;
const FAILED: u8 = 2;

const HELP: &str = "\
Finds the records that match: lines of text, or rows of a column.

Usage: overside match [OPTIONS] -e PATTERN... [FILE...]
       overside match [OPTIONS] PATTERN [FILE...]

  -e, --regexp PATTERN   a pattern; several: records that match one of them
  -f, --file FILE        patterns, one a line
  -i, --ignore-case      letters match in both cases
  -v, --invert-match     records that do not match

  -c, --count            how many, for each file
  -o, --only-matching    what matches, each match on a line of its own
  -l, --files-with-matches  the names of the files with one
  -q, --quiet            nothing; the exit code tells
      --json             an object for each record, one a line
  -n, --line-number      with the record's number
  -H, --with-filename    with the file's name, which is usual for several files
  -h, --no-filename      without it

      --column NAME      search a column of CSV, TSV, Parquet or Arrow files
      --engine NAME      the library that searches on the CPU: auto, literal, hyperscan, regex, re2
      --placement WHERE  cpu, device, split:PERCENT or adaptive
      --device NAME      the device; `overside devices` lists them
      --threads N        threads on the CPU
      --chunk SIZE       the longest piece that is searched at once (256K)
      --explain          say on stderr where it ran and why

Without FILE, or where it is -, stdin is read. Patterns see bytes, not characters.
Exit code: 0 if a record was found, 1 if none was, 2 if something failed.
";

pub fn main(arguments: &[OsString]) -> ExitCode {
    let all = match Arguments::parse(arguments) {
        Ok(Asked::Help) => return crate::print(HELP),
        Ok(Asked::Work(all)) => all,
        Err(message) => {
            complain!("overside match: {message}");
            return ExitCode::from(FAILED);
        }
    };
    match Work::new(&all).map(|work| work.run()) {
        Ok(code) => code,
        Err(message) => {
            complain!("overside match: {message}");
            ExitCode::from(FAILED)
        }
    }
}

/// The search of all files.
struct Work<'a> {
    all: &'a Arguments,
    search: Search,
    with_name: bool,
    found: bool,
    failed: bool,
}

impl<'a> Work<'a> {
    fn new(all: &'a Arguments) -> Result<Self, String> {
        let device = match &all.device {
            None => None,
            Some(name) => overside_backends::open_accelerator(name, all.threads)
                .map_err(|error| error.to_string())?,
        };
        let mut options = Options::new(all.patterns.iter().cloned());
        options.ignore_case = all.ignore_case;
        options.invert = all.invert;
        options.numbers = all.numbers || all.show == Show::Json;
        options.answer = match all.show {
            Show::Count | Show::JsonCount => Answer::Count,
            Show::Names | Show::Nothing => Answer::Any,
            Show::Records | Show::Only | Show::Json => Answer::Records,
        };
        options.engine.clone_from(&all.engine);
        options.policy = all.policy;
        options.device = device;
        options.threads = all.threads;
        options.chunk_bytes = all.chunk_bytes.unwrap_or(options.chunk_bytes);
        Ok(Self {
            all,
            search: Search::new(options).map_err(|error| error.to_string())?,
            with_name: all.with_name.unwrap_or(all.files.len() > 1),
            found: false,
            failed: false,
        })
    }

    fn run(mut self) -> ExitCode {
        let files = self.all.files.iter();
        for file in files {
            match self.file(file) {
                Ok(found) => self.found |= found,
                // Nobody reads what would come.
                Err(error) if error.is_broken_pipe() => crate::system::end_by_broken_pipe(),
                Err(error) => {
                    self.failed = true;
                    complain!("overside match: {}: {error}", name(file).display());
                }
            }
            if self.found && self.all.show == Show::Nothing {
                return ExitCode::SUCCESS;
            }
        }
        if self.all.explain {
            complain!(
                "{}",
                explain::text(&self.search, self.all.policy).trim_end()
            );
        }
        self.code()
    }

    fn code(&self) -> ExitCode {
        ExitCode::from(match (self.failed, self.found) {
            (true, _) => FAILED,
            (false, true) => 0,
            (false, false) => NONE,
        })
    }

    /// Searches one file and prints what is asked for.
    fn file(&mut self, file: &OsStr) -> Result<bool, Error> {
        let opened = input::open(file).map_err(Error::Read)?;
        let exact = match self.all.show {
            Show::Only | Show::Json => Some(self.search.exact()?.clone()),
            _ => None,
        };
        let shown = self.with_name || self.all.show.is_json();
        let shown_name = shown.then(|| name(file));
        let mut printer = Printer::new(self.all, shown_name, exact);
        let tally = match &self.all.column {
            Some(column) => table(&mut self.search, opened, file, column, &mut printer)?,
            None => text(&mut self.search, opened, file, &mut printer)?,
        };
        let found = tally.selected > 0;
        match self.all.show {
            Show::Count | Show::JsonCount => printer.count(tally.selected),
            Show::Names if found => printer.name(name(file)),
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
) -> Result<Tally, Error> {
    let mut opened = match opened {
        Opened::File { file, head } => (file, head),
        Opened::Stream(file) => return search.text(&mut Pipe(file), printer),
    };
    match Format::of(&opened.1) {
        Format::Parquet | Format::ArrowFile | Format::ArrowStream => {
            let reason = "it is a table; name the column to search with --column";
            return Err(Error::Format(reason.into()));
        }
        Format::Compressed(program) => complain!(
            "overside match: {}: it is compressed by {program} and searched as it is",
            name(file).display()
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
) -> Result<Tally, Error> {
    let is_tsv = OsStr::to_string_lossy(file)
        .to_lowercase()
        .ends_with(".tsv");
    let delimiter = if is_tsv { b'\t' } else { b',' };
    let seekless = |what: &str| Error::Format(format!("{what} has to be a file, not a pipe"));
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
                Format::Parquet => Err(seekless("Parquet")),
                Format::ArrowFile => Err(seekless("an Arrow file")),
                Format::ArrowStream => search.arrow_stream(&mut input, column, printer),
                Format::Compressed(program) => Err(compressed(program)),
                Format::Text => search.csv(&mut input, column, delimiter, printer),
            }
        }
    }
}

fn compressed(program: &str) -> Error {
    Error::Format(format!(
        "it is compressed by {program}; decompress it first"
    ))
}

/// Where records go.
fn stdout() -> io::BufWriter<io::StdoutLock<'static>> {
    io::BufWriter::with_capacity(1 << 16, io::stdout().lock())
}
