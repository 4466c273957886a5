//! Interface between the counting of records and the engines that find matches.

use super::grouped::Grouped;
use super::pattern::Compiled;
use crate::Error;
use crate::variant::Library;

/// A matching library, as an entry of the registry.
pub(super) struct EngineLibrary {
    pub library: Library,
    /// Returns `true` if this machine can run the library.
    pub is_supported: fn() -> bool,
    /// Returns `true` if `auto` may choose the library for these patterns.
    pub suits: fn(&[Compiled]) -> bool,
    /// Reason that is given if `auto` chooses the library.
    pub because: &'static str,
    pub compile: fn(&[Compiled]) -> Result<Program, Error>,
    pub groups: GroupsBy,
}

/// Component that finds the groups of matches.
pub(super) enum GroupsBy {
    /// The library.
    Itself(fn(&Grouped) -> Result<GroupEngineMaker, Error>),
    /// The `regex` crate, applied to the records that the library finds. The variant reports both
    /// libraries as this one.
    SecondPass(&'static Library),
}

pub(super) type GroupEngineMaker =
    Box<dyn Fn() -> Result<Box<dyn GroupEngine>, Error> + Send + Sync>;

/// Engine that finds matches and their groups.
pub(super) trait GroupEngine: Send {
    /// Finds the leftmost match that begins at `from` or behind it. Writes the offsets at which it and each
    /// group begin and end, [`NO_PLACE`] for a group without a match. Returns `true` if there is a match.
    ///
    /// # Errors
    /// [`Error::Library`].
    fn find(&mut self, text: &[u8], from: usize, places: &mut [usize]) -> Result<bool, Error>;
}

/// Offset of a group that takes no part in a match.
pub(super) const NO_PLACE: usize = usize::MAX;

/// Compiled patterns.
pub(super) struct Program {
    /// Makes an engine for one thread.
    pub engine: EngineMaker,
    /// Entry to report instead of the library's if another library computes as well; `None` if it
    /// computes by itself.
    pub combined: Option<&'static Library>,
}

pub(super) type EngineMaker = Box<dyn Fn() -> Result<Box<dyn Engine>, Error> + Send + Sync>;

impl Program {
    /// Returns a program that only uses the library.
    pub(super) fn new(
        engine: impl Fn() -> Result<Box<dyn Engine>, Error> + Send + Sync + 'static,
    ) -> Self {
        Self { engine: Box::new(engine), combined: None }
    }
}

/// Finds the offsets of matches in a buffer. No match extends over a `\n`.
///
/// A *place* is the end of a match: between a record's first byte and its `\n`, both included. A
/// place behind a final `\n` belongs to no record and is ignored.
pub(super) trait Engine: Send {
    /// Returns a place in the first record that matches.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Library`].
    fn first(&mut self, buffer: &[u8]) -> Result<Option<usize>, Error>;

    /// Calls `found` with at least one place of each matching record, in ascending order. `found`
    /// returns the beginning of the next record: places before it need not be reported.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Library`].
    fn each(&mut self, buffer: &[u8], found: &mut dyn FnMut(usize) -> usize) -> Result<(), Error>;
}

/// Implements [`Engine::each`] with a function that finds the first place at or behind the
/// beginning of a record.
pub(super) fn step_by_step(
    buffer: &[u8],
    found: &mut dyn FnMut(usize) -> usize,
    mut first_from: impl FnMut(usize) -> Option<usize>,
) {
    let mut record = 0;
    while record < buffer.len() {
        let Some(place) = first_from(record) else {
            break;
        };
        record = found(place);
    }
}

/// Engine that matches no record.
pub(super) struct Nothing;

impl Engine for Nothing {
    fn first(&mut self, _: &[u8]) -> Result<Option<usize>, Error> {
        Ok(None)
    }

    fn each(&mut self, _: &[u8], _: &mut dyn FnMut(usize) -> usize) -> Result<(), Error> {
        Ok(())
    }
}

/// Engine that matches every record.
pub(super) struct Every;

impl Engine for Every {
    fn first(&mut self, _: &[u8]) -> Result<Option<usize>, Error> {
        Ok(Some(0))
    }

    fn each(&mut self, buffer: &[u8], found: &mut dyn FnMut(usize) -> usize) -> Result<(), Error> {
        step_by_step(buffer, found, Some);
        Ok(())
    }
}
