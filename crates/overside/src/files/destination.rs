//! Destination of the output: its name, its location, and the checks before it is created.

use std::fs;
use std::io::{self, ErrorKind, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use overside_compress::Container;

use super::arguments::{Mode, Request};
use super::input::Input;
use super::names;
use super::output::Output;
use super::unfinished::TempFile;
use super::{FileError, Verb};
use overside_command::messages::shown;

/// Destination of the output of one input.
pub(super) enum Destination {
    Nowhere,
    Stdout,
    /// File from `--output`.
    To(PathBuf),
    /// File beside the input, which is removed unless it is kept.
    Beside(PathBuf),
}

impl Destination {
    /// Chooses the destination for an input.
    ///
    /// # Errors
    /// The output has no name: the suffix is unknown, or the file already has it.
    pub(super) fn of(request: &Request, input: &Input) -> Result<Self, FileError> {
        if request.mode != Mode::Write {
            return Ok(Self::Nowhere);
        }
        let output = &request.arguments.output;
        if let Some(path) = &output.path {
            // A symbolic link is kept, and its target is replaced.
            let linked = fs::symlink_metadata(path).is_ok_and(|there| there.is_symlink());
            let behind = fs::canonicalize(path).ok().filter(|_| linked);
            return Ok(Self::To(behind.unwrap_or_else(|| path.clone())));
        }
        let Some(path) = input.path.as_deref().filter(|_| !output.stdout) else {
            return Ok(Self::Stdout);
        };
        let container = request.container.unwrap_or(Container::Gzip);
        let suffix = output.suffix.as_ref();
        let beside = match request.verb {
            Verb::Compress => match names::compressed_suffix(path, container, suffix) {
                Some(end) if !output.force => {
                    let (name, end) = (&input.name, shown(end));
                    let message = format!("{name} already ends with {end}; skipped");
                    return Err(FileError::Suffix(message));
                }
                _ => Some(names::compressed(path, container, suffix)),
            },
            Verb::Decompress => names::decompressed(path, suffix),
        };
        beside.map(Self::Beside).ok_or_else(|| {
            FileError::Suffix(format!(
                "{}: unknown suffix; skipped (use -c or -o, or name it with -S)",
                input.name
            ))
        })
    }

    /// Returns the name of the output for messages; `None` if nothing is written.
    pub(super) fn name(&self) -> Option<String> {
        match self {
            Self::Nowhere => None,
            Self::Stdout => Some("stdout".into()),
            Self::To(path) | Self::Beside(path) => Some(path.display().to_string()),
        }
    }

    pub(super) fn open(&self, request: &Request, input: &Input) -> Result<Output, FileError> {
        let failed = |error: io::Error| {
            FileError::Error(format!("{}: {error}", shown(self.name().unwrap_or_default())))
        };
        match self {
            Self::Nowhere => Ok(Output::Nothing),
            Self::Stdout => {
                if request.verb == Verb::Compress && !request.force() && io::stdout().is_terminal()
                {
                    return Err(FileError::Error(
                        "not writing compressed data to a terminal; use -c with a redirection, or -f"
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
                _ => create(path, request, input),
            },
            Self::Beside(path) => create(path, request, input),
        }
    }
}

/// Creates a file. An existing one is only replaced with `--force`.
fn create(path: &Path, request: &Request, input: &Input) -> Result<Output, FileError> {
    let failed = |error: io::Error| FileError::Error(format!("{}: {error}", shown(path)));
    match fs::symlink_metadata(path) {
        Ok(there) => {
            let same = |one: &fs::Metadata| (one.dev(), one.ino()) == (there.dev(), there.ino());
            if input.metadata.as_ref().is_some_and(same) {
                return Err(FileError::Error(format!("{} is both input and output", shown(path))));
            }
            if there.is_dir() {
                return Err(failed(ErrorKind::IsADirectory.into()));
            }
            if !request.force() {
                return Err(FileError::Warning(format!(
                    "{} already exists; not overwritten (-f does)",
                    shown(path)
                )));
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let made = TempFile::create(path, input.attributes().is_some(), request.force());
    made.map_err(failed)?.map(Output::Named).ok_or_else(|| {
        FileError::Warning(format!("{} is being written by another process; skipped", shown(path)))
    })
}
