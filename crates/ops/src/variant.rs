//! Libraries as named variants of an operation.
//!
//! Each family of operations has a registry: `codec.rs`, `matching/mod.rs`, `hash/mod.rs`,
//! `copy.rs`. An entry holds the library's name, title, version and levels beside the functions
//! that make its kernels, so that none can be listed without what computes.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::{Config, Error, Operation, codec, copy, hash, matching};

/// One library that does one operation.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The name that boxes and the command line use: `isal`, `libdeflate`, `zlib`, `hyperscan`...
    pub name: &'static str,
    /// What people call it, for tables and charts.
    pub label: &'static str,
    /// The library's own name. Of a [`Prepared`] whose patterns match every record or none, that
    /// no engine is needed: the library does not run.
    pub library: &'static str,
    /// The version that is linked, as the library reports it or as it was built; empty if no
    /// library runs.
    pub version: String,
    /// Written for SIMD units; false for portable scalar code.
    pub simd: bool,
    /// The compression levels it has and the one it uses unasked; `None` without levels.
    pub levels: Option<(RangeInclusive<u32>, u32)>,
    /// Why `auto` chose this matcher; `None` where there was no choice.
    pub because: Option<String>,
}

impl Variant {
    /// What computes, in words: the library and its version, or that none is needed.
    pub fn title(&self) -> String {
        format!("{} {}", self.library, self.version)
            .trim_end()
            .into()
    }

    /// Says what computes instead of the library.
    pub(crate) fn is_no_library(&mut self, instead: &'static str) {
        self.library = instead;
        self.version.clear();
        self.simd = false;
    }
}

/// What a kernel made of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Bytes written at the beginning of the destination.
    pub written: usize,
    /// Matching only: for `search` the offset of the first matching record (`None`: no record
    /// matches), for `count` and `bitmap` the number of matching records, for `groups` that of
    /// matches.
    pub value: Option<u64>,
}

/// An operation made ready, shared by the threads that run it.
pub struct Prepared {
    variant: Variant,
    maker: Maker,
}

impl Prepared {
    /// The library that was chosen; never "auto". It says so if no library is needed.
    pub fn variant(&self) -> &Variant {
        &self.variant
    }

    /// A worker for one thread.
    ///
    /// # Errors
    /// [`Error::Library`] if the library cannot allocate its state.
    pub fn kernel(&self) -> Result<Box<dyn Kernel>, Error> {
        (self.maker)()
    }
}

/// One thread's worker.
pub trait Kernel: Send {
    /// Processes the concatenation of the `source` segments into the beginning of `destination`.
    /// Each source stands for itself: one call makes or takes one complete stream.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`], [`Error::Corrupt`], [`Error::TooLarge`] if the library takes
    /// fewer segments, [`Error::Library`]. The kernel can be used again after any of them.
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error>;

    /// The most source segments that one call takes.
    fn max_segments(&self) -> usize {
        1
    }
}

/// A library, as it is named in the entry of a registry.
pub(crate) struct Library {
    /// [`Variant::name`].
    pub name: &'static str,
    /// [`Variant::label`].
    pub label: &'static str,
    /// [`Variant::library`].
    pub title: &'static str,
    /// [`Variant::version`].
    pub version: fn() -> String,
    /// [`Variant::simd`].
    pub simd: bool,
}

impl Library {
    /// The variant without levels.
    pub(crate) fn variant(&self) -> Variant {
        Variant {
            name: self.name,
            label: self.label,
            library: self.title,
            version: (self.version)(),
            simd: self.simd,
            levels: None,
            because: None,
        }
    }
}

/// A variant, and what prepares it: the only way to become either.
pub(crate) struct Entry {
    pub variant: Variant,
    pub prepare: Prepare,
}

/// Makes an operation ready at a level (0 for what has none) with patterns. May change the
/// variant, where something else than its library computes.
pub(crate) type Prepare = Box<dyn Fn(&mut Variant, u32, &[String]) -> Result<Maker, Error>>;

/// What makes a kernel.
pub(crate) type Maker = Box<dyn Fn() -> Result<Box<dyn Kernel>, Error> + Send + Sync>;

/// What the registries have for `operation`, the one that `auto` takes first.
fn entries(operation: Operation) -> Vec<Entry> {
    match operation {
        Operation::Compress(format) => codec::compressors(format),
        Operation::Decompress(format) => codec::decompressors(format),
        Operation::Match(kind) => matching::matchers(kind),
        Operation::Hash(algorithm) => hash::hashers(algorithm),
        Operation::Copy => copy::copiers(),
    }
}

/// The variants of `operation`, the one that `auto` takes first. Of matchers it takes the first
/// that suits the patterns and takes them.
pub fn variants(operation: Operation) -> Vec<Variant> {
    (entries(operation).into_iter())
        .map(|entry| entry.variant)
        .collect()
}

/// The variants of `operation` that come up here, the one that `auto` takes first, and how many
/// segments each takes. A SIMD library does not on a processor without the instructions.
pub fn usable_variants(operation: Operation) -> Vec<(Variant, usize)> {
    let segments = |variant: &Variant| {
        let mut config = Config {
            variant: variant.name.into(),
            ..Config::new(operation)
        };
        if matches!(operation, Operation::Match(_)) {
            config.patterns = vec!["a".into()];
        }
        Some(prepare(&config).ok()?.kernel().ok()?.max_segments())
    };
    (variants(operation).into_iter())
        .filter_map(|variant| segments(&variant).map(|segments| (variant, segments)))
        .collect()
}

/// Makes an operation ready. A level is looked at only for compression, patterns only for
/// matching.
///
/// # Errors
/// [`Error::UnknownVariant`], [`Error::Level`], [`Error::NoLevels`], [`Error::Pattern`],
/// [`Error::NoPattern`].
pub fn prepare(config: &Config) -> Result<Arc<Prepared>, Error> {
    let prepared = match config.operation {
        Operation::Match(_) if config.variant == "auto" => any_matcher(config),
        _ => named(config, &config.variant),
    };
    prepared.map(Arc::new)
}

/// The first matcher that takes the patterns, of those that suit them. If none does, what the
/// first says.
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

/// Makes an operation ready by the variant of that name.
fn named(config: &Config, name: &str) -> Result<Prepared, Error> {
    let requested = match config.operation {
        Operation::Compress(_) => config.level,
        _ => None,
    };
    let Entry {
        mut variant,
        prepare,
    } = choose(config.operation, name, requested)?;
    let level = level(&variant, requested)?;
    let maker = prepare(&mut variant, level, &config.patterns)?;
    Ok(Prepared { variant, maker })
}

/// The codec that [`prepare`] takes, and at which level; `None` if it takes none.
pub(crate) fn chosen_codec(config: &Config) -> Option<(&'static codec::Codec, u32)> {
    let requested = match config.operation {
        Operation::Compress(_) => config.level,
        _ => None,
    };
    let variant = choose(config.operation, &config.variant, requested)
        .ok()?
        .variant;
    Some((codec::find(variant.name)?, level(&variant, requested).ok()?))
}

/// The entry of that name. `auto` is the first one that has the level, so that DEFLATE's level 1
/// is ISA-L's and its level 9 libdeflate's.
fn choose(operation: Operation, name: &str, level: Option<u32>) -> Result<Entry, Error> {
    let mut all = entries(operation);
    let has_level = |entry: &Entry| match (&entry.variant.levels, level) {
        (_, None) => true,
        (Some((range, _)), Some(level)) => range.contains(&level),
        (None, Some(_)) => false,
    };
    let chosen = match name {
        // No library has it: the one that comes closest says so.
        "auto" => (all.iter().position(has_level))
            .or_else(|| (0..all.len()).max_by_key(|&index| highest_level(&all[index].variant))),
        name => all.iter().position(|entry| entry.variant.name == name),
    };
    match chosen {
        Some(index) => Ok(all.swap_remove(index)),
        None => Err(unknown_variant(operation, name)),
    }
}

/// That no library of that name does `operation`, and which ones do.
pub(crate) fn unknown_variant(operation: Operation, name: &str) -> Error {
    let known: Vec<_> = (variants(operation).iter())
        .map(|variant| variant.name)
        .collect();
    Error::UnknownVariant {
        operation: operation.to_string(),
        name: name.into(),
        known: known.join(", "),
    }
}

fn highest_level(variant: &Variant) -> Option<u32> {
    variant.levels.as_ref().map(|(range, _)| *range.end())
}

/// The level to compress at; 0 without levels.
fn level(variant: &Variant, requested: Option<u32>) -> Result<u32, Error> {
    match (&variant.levels, requested) {
        (None, None) => Ok(0),
        (None, Some(_)) => Err(Error::NoLevels {
            variant: variant.name,
        }),
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

/// The source of a library that takes one segment.
pub(crate) fn single<'a>(source: &[&'a [u8]]) -> Result<&'a [u8], Error> {
    match source {
        [] => Ok(&[]),
        [one] => Ok(one),
        more => Err(Error::TooLarge(format!(
            "{} segments where 1 is taken",
            more.len()
        ))),
    }
}

/// The most segments that hashing and copying take.
pub(crate) const MAX_SEGMENTS: usize = 16;

/// Refuses more segments than [`MAX_SEGMENTS`].
pub(crate) fn at_most_segments(source: &[&[u8]]) -> Result<(), Error> {
    match source.len() {
        len if len > MAX_SEGMENTS => Err(Error::TooLarge(format!(
            "{len} segments where {MAX_SEGMENTS} are taken"
        ))),
        _ => Ok(()),
    }
}

/// Refuses a source that is longer than the library can count.
pub(crate) fn at_most(source: &[u8], max: usize) -> Result<(), Error> {
    match source.len() {
        len if len > max => Err(Error::TooLarge(format!(
            "{len} bytes where {max} are taken"
        ))),
        _ => Ok(()),
    }
}

/// A result of `written` bytes without a value.
pub(crate) fn written(written: usize) -> Output {
    Output {
        written,
        value: None,
    }
}
