//! Libraries as named variants of an operation.
//!
//! An entry holds the library's name, title, version and levels together with the functions that
//! make its kernels, so every listed library can be run. The registries are lists of entries.

use std::ops::RangeInclusive;

use crate::Error;

/// Library that performs one operation.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Name in boxes and on the command line: `isal`, `libdeflate`, `zlib`, `hyperscan`...
    pub name: &'static str,
    /// Display name, for tables and charts.
    pub label: &'static str,
    /// The library's own name. If the patterns of a [`Prepared`] match every record or none, a text
    /// that no engine is needed: the library does not run.
    pub library: &'static str,
    /// Version that is linked, as the library reports it or as it was built; empty if no library runs.
    pub version: String,
    /// `true` if it uses SIMD instructions, `false` for portable scalar code.
    pub simd: bool,
    /// Compression levels, and the default one; `None` without levels.
    pub levels: Option<(RangeInclusive<u32>, u32)>,
    /// Reason for which `auto` chose this matcher; `None` if there was no choice.
    pub because: Option<String>,
}

impl Variant {
    /// Returns the library and its version, or a text that no library is needed.
    pub fn title(&self) -> String {
        format!("{} {}", self.library, self.version).trim_end().into()
    }

    /// Replaces the library by a text that no library runs.
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

/// Prepared operation, shared by the threads that run it.
pub struct Prepared {
    pub(crate) variant: Variant,
    pub(crate) maker: Maker,
}

impl Prepared {
    /// Returns the chosen library, never "auto". Its title says if no library is needed.
    pub fn variant(&self) -> &Variant {
        &self.variant
    }

    /// Makes a kernel for one thread.
    ///
    /// # Errors
    /// [`Error::Library`] if the library cannot allocate its state.
    pub fn kernel(&self) -> Result<Box<dyn Kernel>, Error> {
        (self.maker)()
    }
}

/// State of one thread that runs an operation.
pub trait Kernel: Send {
    /// Processes the concatenation of the `source` segments into the beginning of `destination`.
    /// Calls are independent: each one makes or takes one complete stream.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`], [`Error::Corrupt`], [`Error::TooLarge`] if the library takes
    /// fewer segments, [`Error::Library`]. The kernel can be used again after any of them.
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error>;

    /// Returns the maximum number of source segments of one call.
    fn max_segments(&self) -> usize {
        1
    }
}

/// Library in the entry of a registry.
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
    /// Returns the variant without levels.
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

/// Variant with the function that prepares it.
pub(crate) struct Entry {
    pub variant: Variant,
    pub prepare: Prepare,
}

/// Function that prepares an operation at a level (0 for an operation without levels) with
/// patterns. Changes the variant if something other than its library computes.
pub(crate) type Prepare = Box<dyn Fn(&mut Variant, u32, &[String]) -> Result<Maker, Error>>;

/// Function that makes a kernel.
pub(crate) type Maker = Box<dyn Fn() -> Result<Box<dyn Kernel>, Error> + Send + Sync>;

/// Returns the source of a library that takes one segment.
pub(crate) fn single<'a>(source: &[&'a [u8]]) -> Result<&'a [u8], Error> {
    match source {
        [] => Ok(&[]),
        [one] => Ok(one),
        more => Err(Error::TooLarge(format!("{} segments where 1 is taken", more.len()))),
    }
}

/// Maximum number of segments that hashing and copying take.
pub(crate) const MAX_SEGMENTS: usize = 16;

/// Refuses more segments than [`MAX_SEGMENTS`].
pub(crate) fn at_most_segments(source: &[&[u8]]) -> Result<(), Error> {
    match source.len() {
        len if len > MAX_SEGMENTS => {
            Err(Error::TooLarge(format!("{len} segments where {MAX_SEGMENTS} are taken")))
        }
        _ => Ok(()),
    }
}

/// Refuses a source that is longer than the library can count.
pub(crate) fn at_most(source: &[u8], max: usize) -> Result<(), Error> {
    match source.len() {
        len if len > max => Err(Error::TooLarge(format!("{len} bytes where {max} are taken"))),
        _ => Ok(()),
    }
}

/// Returns a result of `written` bytes without a value.
pub(crate) fn written(written: usize) -> Output {
    Output { written, value: None }
}
