//! `overside compress`.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, value_parser};
use overside_compress::{Container, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES};

use crate::files::{self, ChunkSize, FileArguments, Mode, Request, Verb};
use overside_command::options::size_within;

/// Compress files on the CPU, on a device, or on both
#[derive(clap::Args)]
#[command(
    version,
    display_name = "overside compress",
    after_help = "\
Each FILE is replaced by FILE.gz (.zz, .lz4, .zst) with the same mode, owner and times. Without \
FILE, or for -, stdin is compressed to stdout. gunzip, zlib, lz4 and zstd read the result.

Examples:
  overside compress access.log              access.log.gz takes its place
  overside compress -kr --format zstd logs  FILE.zst beside each file in logs and below
  tar -I overside -cf src.tgz src           archives; -xf takes them apart

Exit codes are gzip's: 0 done, 1 error, 2 warning (for example, a file was skipped)."
)]
pub(crate) struct Arguments {
    /// Decompress, like `overside decompress`; so do --test and --list
    #[arg(short, long, alias = "uncompress", help_heading = "Files")]
    decompress: bool,
    #[command(flatten)]
    format: FormatArguments,
    #[command(flatten)]
    files: FileArguments,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Format")]
struct FormatArguments {
    /// gzip, zlib, lz4 or zstd [default: gzip]
    #[arg(long)]
    format: Option<Container>,
    #[command(flatten)]
    level: Level,
    /// Bytes compressed independently, 1KiB to 64MiB; less if the format or the device requires it;
    /// auto: tuned while it runs [default: 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = chunk)]
    chunk: Option<ChunkSize>,
    /// Leave name and time of FILE out of the header
    #[arg(short, long)]
    no_name: bool,
}

fn chunk(text: &str) -> Result<ChunkSize, String> {
    match text {
        "auto" => Ok(ChunkSize::Auto),
        _ => size_within(MIN_CHUNK_BYTES..=MAX_CHUNK_BYTES)(text)
            .map(ChunkSize::Bytes)
            .map_err(|problem| format!("{problem}; or auto")),
    }
}

pub(crate) fn run(arguments: Arguments) -> ExitCode {
    files::run(arguments.into())
}

impl From<Arguments> for Request {
    fn from(arguments: Arguments) -> Self {
        let Arguments { decompress, format, files } = arguments;
        let mode = files.output.mode();
        Self {
            verb: match decompress || mode != Mode::Write {
                true => Verb::Decompress,
                false => Verb::Compress,
            },
            container: format.format,
            level: format.level.0,
            chunk: format.chunk,
            name: !format.no_name,
            mode,
            arguments: files,
        }
    }
}

/// Level from `--level N` or one of `-0` to `-9`, `--fast`, `--best`. The last option counts.
struct Level(Option<u32>);

/// Help of `--level`. `tests::the_default_levels_are_named` compares it with the libraries' levels.
const LEVEL_HELP: &str = "\
Compression level in the library's own numbers, also -0 to -9; a higher one takes longer and makes \
less: 0 to 12 for gzip, 0 to 9 for zlib, 1 to 12 for lz4, 1 to 22 for zstd [default: 1; of zstd, 3]";

/// Flags by the level that each stands for.
const FLAGS: [&str; 10] = [
    "level-0", "fast", "level-2", "level-3", "level-4", "level-5", "level-6", "level-7", "level-8",
    "best",
];

impl clap::Args for Level {
    fn augment_args(command: Command) -> Command {
        let level = (Arg::new("level").long("level").value_name("N"))
            .value_parser(value_parser!(u32))
            .help(LEVEL_HELP);
        let flags = ('0'..='9').zip(FLAGS).map(|(digit, id)| {
            let flag = Arg::new(id).short(digit).action(ArgAction::SetTrue);
            match digit {
                '1' => flag.long(id).help("Same as --level 1"),
                '9' => flag.long(id).help("Same as --level 9"),
                _ => flag.hide(true),
            }
        });
        command.arg(level).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Level {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |id| matches.indices_of(id).and_then(Iterator::last);
        let flags = (0..).zip(FLAGS).filter(|(_, id)| matches.get_flag(id));
        let flags = flags.map(|(level, id)| (given(id), level));
        let level = matches.get_one("level").map(|level| (given("level"), *level));
        let last = flags.chain(level).max_by_key(|(at, _)| *at);
        Ok(Self(last.map(|(_, level)| level)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_levels_are_named() {
        let named = [
            (Container::Gzip, "0 to 12 for gzip", 1),
            (Container::Zlib, "0 to 9 for zlib", 1),
            (Container::Lz4, "1 to 12 for lz4", 1),
            (Container::Zstd, "1 to 22 for zstd", 3),
        ];
        assert!(LEVEL_HELP.ends_with("[default: 1; of zstd, 3]"));
        for (container, text, default) in named {
            assert!(LEVEL_HELP.contains(text), "{text}");
            let (levels, found) = container.levels().unwrap();
            let range = format!("{} to {}", levels.start(), levels.end());
            assert!(text.starts_with(&range), "{container}: {range}");
            assert_eq!(found, default, "{container}");
        }
    }
}
