//! Registry of operations and their libraries, and the choice of a library by name or by `auto`.
//!
//! Each family of operations has an entry in its own module: `codec.rs`, `matching.rs`, `hash.rs`,
//! `copy.rs`, `cipher.rs`.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::family::{Chosen, Direction, Family, Lengths, Verification, WrongAnswer};
use crate::variant::Entry;
use crate::{
    Config, Error, Format, Operation, Prepared, StreamDecoder, Variant, cipher, codec, copy,
    deflate, hash, lz4, matching, zstd,
};

/// Registry of operations, in the order in which they are listed.
pub static FAMILIES: [&Family; 7] = [
    &codec::COMPRESS,
    &codec::DECOMPRESS,
    &matching::MATCH,
    &hash::HASH,
    &copy::COPY,
    &cipher::ENCRYPT,
    &cipher::DECRYPT,
];

impl Operation {
    /// Returns its entry in the registry.
    pub fn family(self) -> &'static Family {
        match self {
            Self::Compress(_) => &codec::COMPRESS,
            Self::Decompress(_) => &codec::DECOMPRESS,
            Self::Match(_) => &matching::MATCH,
            Self::Hash(_) => &hash::HASH,
            Self::Copy => &copy::COPY,
            Self::Encrypt(_) => &cipher::ENCRYPT,
            Self::Decrypt(_) => &cipher::DECRYPT,
        }
    }

    /// Returns all operations in a stable order.
    pub fn all() -> Vec<Self> {
        let all = FAMILIES.iter().map(|family| (family.operations)());
        all.flatten().collect()
    }

    /// Returns the relation of the lengths of a job's source and result.
    pub fn lengths(self) -> Lengths {
        self.family().lengths
    }

    /// Returns the uncompressed side, on which throughput is counted: the source, except for
    /// operations that restore the result of another.
    pub fn uncompressed_side(self) -> Direction {
        match self.lengths() {
            Lengths::Expands | Lengths::Strips(_) => Direction::Destination,
            Lengths::Shrinks | Lengths::Grows(_) | Lengths::Answers => Direction::Source,
        }
    }

    /// Returns `true` if one side is the other one compressed, by a ratio that depends on the data.
    pub fn has_ratio(self) -> bool {
        matches!(self.lengths(), Lengths::Shrinks | Lengths::Expands)
    }

    /// Returns the operation whose results are this one's sources; `None` if any data can be the source.
    pub fn made_by(self) -> Option<Self> {
        let inverse = self.inverse();
        inverse.filter(|_| self.uncompressed_side() == Direction::Destination)
    }

    /// Returns the operation that verifies this one's results by restoring the sources; `None` if
    /// they are verified in another way.
    pub fn undone_by(self) -> Option<Self> {
        let is_undone = self.family().verification == Verification::Inverse;
        self.inverse().filter(|_| is_undone)
    }

    /// Returns an upper bound of a result's length in bytes, given the patterns and the length of
    /// the uncompressed side.
    pub fn result_bytes_max(self, patterns: &[String], uncompressed_bytes: u64) -> u64 {
        (self.family().result_bytes_max)(self, patterns, uncompressed_bytes)
    }

    /// Returns the lengths in bytes of source and result of a job with `bytes` bytes on the
    /// uncompressed side. `ratio` is the compressed length divided by the uncompressed one.
    pub fn job_bytes(self, bytes: u64, ratio: f64) -> (u64, u64) {
        let compressed = ((bytes as f64 * ratio).round() as u64).max(1);
        match self.lengths() {
            Lengths::Shrinks => (bytes, compressed),
            Lengths::Expands => (compressed, bytes),
            Lengths::Grows(more) => (bytes, bytes + more),
            Lengths::Strips(less) => (bytes + less, bytes),
            Lengths::Answers => (bytes, 0),
        }
    }

    /// Returns the largest number of bytes on the uncompressed side of a job whose source and result have at
    /// most these lengths. `ratio` is the compressed length divided by the uncompressed one.
    pub fn uncompressed_bytes_max(self, source_max: u64, result_max: u64, ratio: f64) -> u64 {
        let restored = |compressed: u64| (compressed as f64 / ratio) as u64;
        match self.lengths() {
            Lengths::Shrinks => source_max.min(restored(result_max)),
            Lengths::Expands => result_max.min(restored(source_max)),
            Lengths::Grows(more) => source_max.min(result_max.saturating_sub(more)),
            Lengths::Strips(less) => result_max.min(source_max.saturating_sub(less)),
            Lengths::Answers => source_max,
        }
    }
}

/// Writes the name that profiles and boxes use: `compress-deflate`, `match-count`, `hash-xxh3`, `copy`.
impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.family().verb)?;
        match self.member_name() {
            Some(name) => write!(f, "-{name}"),
            None => Ok(()),
        }
    }
}

impl std::str::FromStr for Operation {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        (Self::all().into_iter())
            .find(|operation| operation.to_string() == name)
            .ok_or_else(|| Error::UnknownOperation(name.into()))
    }
}

impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Operation {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// Checks that every library gives the published results for `operation`. Passes if there are none.
///
/// # Errors
/// [`WrongAnswer`] for the first library that does not.
pub fn check_known_answers(operation: Operation) -> Result<(), WrongAnswer> {
    (operation.family().known_answers)(operation)
}

/// Returns the libraries of `operation`. `auto` prefers the first one.
fn entries(operation: Operation) -> Vec<Entry> {
    (operation.family().entries)(operation)
}

/// Returns the variants of `operation`. `auto` takes the first one; of matchers, the first one that
/// suits the patterns and accepts them.
pub fn variants(operation: Operation) -> Vec<Variant> {
    (entries(operation).into_iter()).map(|entry| entry.variant).collect()
}

/// Returns the variants of `operation` that work on this processor, each with its maximum number of segments.
/// `auto` takes the first one. A SIMD library does not work on a processor without the instructions.
pub fn usable_variants(operation: Operation) -> Vec<(Variant, usize)> {
    let segments = |variant: &Variant| {
        let mut config = Config { variant: variant.name.into(), ..Config::new(operation) };
        if operation.family().has_patterns {
            config.patterns = vec!["a".into()];
        }
        Some(prepare(&config).ok()?.kernel().ok()?.max_segments())
    };
    (variants(operation).into_iter())
        .filter_map(|variant| segments(&variant).map(|segments| (variant, segments)))
        .collect()
}

/// Prepares an operation. The level is ignored except for compression, patterns are ignored except for
/// matching.
///
/// # Errors
/// [`Error::UnknownVariant`], [`Error::Level`], [`Error::NoLevels`], [`Error::Pattern`], [`Error::NoPattern`].
pub fn prepare(config: &Config) -> Result<Arc<Prepared>, Error> {
    let prepared = match config.variant.as_str() {
        "auto" if config.operation.family().has_patterns => any_matcher(config),
        name => named(config, name),
    };
    prepared.map(Arc::new)
}

/// Returns the first matcher that accepts the patterns, of those that suit them. If none does,
/// returns the error of the first one.
fn any_matcher(config: &Config) -> Result<Prepared, Error> {
    let mut refusal = None;
    for (name, because) in matching::auto(&config.patterns) {
        match named(config, name) {
            Ok(mut prepared) => {
                let variant = &mut prepared.variant;
                variant.because = Some(match refusal {
                    Some((name, error)) => format!("{name} does not take the patterns: {error}"),
                    None => because.into(),
                })
                .filter(|_| !variant.version.is_empty());
                return Ok(prepared);
            }
            Err(error @ Error::Pattern { .. }) => refusal = refusal.or(Some((name, error))),
            Err(other) => return Err(other),
        }
    }
    Err(refusal.map_or(Error::NoPattern, |(_, error)| error))
}

/// Prepares an operation with the variant of that name.
fn named(config: &Config, name: &str) -> Result<Prepared, Error> {
    let requested = requested_level(config);
    let Entry { mut variant, prepare } = choose(config.operation, name, requested)?;
    let level = level(&variant, requested)?;
    let maker = prepare(&mut variant, level, &config.patterns)?;
    Ok(Prepared { variant, maker })
}

/// Returns the library that [`prepare`] takes, and its level; `None` if it takes none.
pub(crate) fn chosen(config: &Config) -> Option<Chosen> {
    let requested = requested_level(config);
    let variant = choose(config.operation, &config.variant, requested).ok()?.variant;
    Some(Chosen { variant: variant.name, level: level(&variant, requested).ok()? })
}

/// Returns the requested level; `None` for an operation without levels.
fn requested_level(config: &Config) -> Option<u32> {
    let has_levels = config.operation.family().has_levels;
    config.level.filter(|_| has_levels)
}

/// Returns the entry of that name. `auto` is the first one that has the level: for DEFLATE, level 1
/// is ISA-L's and level 9 libdeflate's.
fn choose(operation: Operation, name: &str, level: Option<u32>) -> Result<Entry, Error> {
    let mut all = entries(operation);
    let has_level = |entry: &Entry| match (&entry.variant.levels, level) {
        (_, None) => true,
        (Some((range, _)), Some(level)) => range.contains(&level),
        (None, Some(_)) => false,
    };
    let chosen = match name {
        // No library has the level: the library with the nearest one returns the error.
        "auto" => (all.iter().position(has_level))
            .or_else(|| (0..all.len()).max_by_key(|&index| highest_level(&all[index].variant))),
        name => all.iter().position(|entry| entry.variant.name == name),
    };
    match chosen {
        Some(index) => Ok(all.swap_remove(index)),
        None => Err(unknown_variant(operation, name)),
    }
}

/// Returns the error for a library `name` that does not support `operation`, with the names of
/// those that do.
pub(crate) fn unknown_variant(operation: Operation, name: &str) -> Error {
    let known: Vec<_> = (variants(operation).iter()).map(|variant| variant.name).collect();
    Error::UnknownVariant {
        operation: operation.to_string(),
        name: name.into(),
        known: known.join(", "),
    }
}

fn highest_level(variant: &Variant) -> Option<u32> {
    variant.levels.as_ref().map(|(range, _)| *range.end())
}

/// Returns the level to compress at; 0 for a library without levels.
fn level(variant: &Variant, requested: Option<u32>) -> Result<u32, Error> {
    match (&variant.levels, requested) {
        (None, None) => Ok(0),
        (None, Some(_)) => Err(Error::NoLevels { variant: variant.name }),
        (Some((_, default)), None) => Ok(*default),
        (Some((range, _)), Some(level)) if range.contains(&level) => Ok(level),
        (Some((range, _)), Some(level)) => Err(Error::Level {
            variant: variant.name,
            level,
            min: *range.start(),
            max: *range.end(),
        }),
    }
}

/// Returns a decoder for streams of [`Format::Deflate`] (by ISA-L), [`Format::Lz4`] or [`Format::Zstd`]
/// (by the C libraries).
///
/// # Errors
/// [`Error::Library`] if there is no memory; [`Error::UnknownVariant`] for other formats.
pub fn stream_decoder(format: Format) -> Result<Box<dyn StreamDecoder>, Error> {
    Ok(match format {
        Format::Deflate => Box::new(deflate::StreamDecoder::new()),
        Format::Lz4 => Box::new(lz4::StreamDecoder::new()?),
        Format::Zstd => Box::new(zstd::StreamDecoder::new()?),
        other => {
            return Err(Error::UnknownVariant {
                operation: Operation::Decompress(other).to_string(),
                name: "in pieces".into(),
                known: String::new(),
            });
        }
    })
}
