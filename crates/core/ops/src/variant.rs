//! Libraries as named variants of an operation.
//!
//! An entry holds the library's name, title, version and levels beside the functions that make its
//! kernels, so that none can be listed without what computes. The registries are lists of entries.

use std::ops::RangeInclusive;

use crate::Error;

/// One library that does one operation.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The name that boxes and the command line use: `isal`, `libdeflate`, `zlib`, `hyperscan`...
    pub name: &'static str,
    /// Display name, for tables and charts.
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
    /// Reason why `auto` chose this matcher; `None` where there was no choice.
    pub because: Option<String>,
}

impl Variant {
    /// Returns a text that names what computes: the library and its version, or that no library is
    /// needed.
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

/// Result of a kernel for one source.
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
    pub(crate) variant: Variant,
    pub(crate) maker: Maker,
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

/// Function that makes a kernel.
pub(crate) type Maker = Box<dyn Fn() -> Result<Box<dyn Kernel>, Error> + Send + Sync>;

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
