//! What a processing engine is asked to do.

/// One request: what to do with one key. It borrows from wherever it was received.
#[derive(Clone, Debug, PartialEq)]
pub struct Request<'a> {
    /// The key, at most [`KEY_MAX_BYTES`](crate::KEY_MAX_BYTES) long; may be empty.
    pub key: &'a [u8],
    /// [`KeyHasher::hash`](crate::KeyHasher::hash) of the key by the hasher of the engine's store.
    pub hash: u64,
    /// What to do.
    pub operation: Operation<'a>,
}

/// An operation on one key. Values are at most [`VALUE_MAX_BYTES`](crate::VALUE_MAX_BYTES) long.
/// Unless said otherwise it is refused with
/// [`Refusal::WrongKind`](crate::Refusal::WrongKind) where the key holds another kind of value.
/// Times are absolute: whoever receives a request counts from its own clock.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation<'a> {
    /// The string: `Value` or `Missing`.
    Get,
    /// The string, and a new expiry for it: `Value` or `Missing`.
    GetAndExpire(Expiry),
    /// The string, which is removed: `Value` or `Missing`.
    GetAndDelete,
    /// Part of the string as Redis counts (`GETRANGE`): from `start` to `end` inclusive, negative
    /// from the end: `Value`, empty if missing.
    GetRange {
        /// First byte.
        start: i64,
        /// Last byte.
        end: i64,
    },
    /// Length of the string in bytes: `Number`, 0 if missing.
    Length,
    /// Stores a string, whatever kind was there: `Stored`, or `Missing`, `NotStored`,
    /// `VersionDiffers` by the condition.
    Set {
        /// The new value.
        value: &'a [u8],
        /// A number that the client keeps with it (memcached).
        flags: u32,
        /// When it expires.
        expiry: Expiry,
        /// When it is stored at all.
        condition: Condition,
        /// Answers with the old string instead, `Value` or `Missing`, whether or not it was stored;
        /// refused if something else was there.
        return_old: bool,
    },
    /// Adds bytes to a string: `Number`, its new length; `Missing` unless `create`. Flags and expiry
    /// stay.
    Append {
        /// What is added.
        value: &'a [u8],
        /// Added before what was there (memcached's `prepend`).
        front: bool,
        /// Creates the string if it is missing.
        create: bool,
    },
    /// Overwrites part of a string, filling up with zero bytes: `Number`, its new length. An empty
    /// value changes nothing.
    SetRange {
        /// Where.
        offset: u64,
        /// With what.
        value: &'a [u8],
    },
    /// Adds to a string that is a signed decimal number, 0 if missing: `Number`; refused with
    /// `NotAnInteger` or `Overflow`.
    Increment {
        /// What is added.
        delta: i64,
    },
    /// Adds to a string that is a decimal fraction, 0 if missing: `Value`, the new text; refused with
    /// `NotAFloat` or `NotFinite`.
    IncrementFloat {
        /// What is added, as text.
        delta: &'a [u8],
    },
    /// Counts as memcached does: unsigned, up wraps around, down stops at 0: `Counter`; `Missing`
    /// without `initial`; refused with `NotAnInteger`.
    Count {
        /// How much.
        delta: u64,
        /// Down instead of up.
        down: bool,
        /// The first value of a missing key, and its expiry.
        initial: Option<(u64, Expiry)>,
        /// A new expiry for a key that is there; `Keep` leaves it.
        expiry: Expiry,
    },
    /// Removes any kind of value: `Done`, `Missing`, or `VersionDiffers`.
    Delete {
        /// Only if it has this version.
        version: Option<u64>,
    },
    /// What is known of any kind of value: `Metadata` or `Missing`.
    Inspect,
    /// What a transaction that watches the key compares ([`Transaction`](crate::Transaction)): `Number`, the
    /// version of its value; if it is missing, another number each time that it has been removed, and
    /// now and then when other keys have.
    Watch,
    /// Changes the expiry of any kind of value: `Done`, `NotStored` by the condition, or `Missing`. A
    /// time that has passed removes it.
    Expire {
        /// The new expiry.
        expiry: Expiry,
        /// When it is changed.
        condition: ExpiryCondition,
    },
    /// Sets fields of a hash: `Number` of those that are new.
    HashSet {
        /// Names and values in turn.
        fields: Box<[&'a [u8]]>,
    },
    /// Values of fields: `List`, `Nil` for what is missing.
    HashGet {
        /// Names.
        fields: Box<[&'a [u8]]>,
    },
    /// All names and values in turn: `List`.
    HashGetAll,
    /// Removes fields: `Number` of those that were there. An empty hash is removed.
    HashDelete {
        /// Names.
        fields: Box<[&'a [u8]]>,
    },
    /// Adds members to a sorted set or changes their scores: `Number`.
    SortedAdd {
        /// Scores, which are not NaN, and members.
        members: Box<[(f64, &'a [u8])]>,
        /// Which of them are added or changed.
        options: SortedAddOptions,
    },
    /// Removes members: `Number` of those that were there. An empty set is removed.
    SortedRemove {
        /// Members.
        members: Box<[&'a [u8]]>,
    },
    /// Members in a range: `List` of members, each followed by its `Score` if that is wanted.
    SortedRange(SortedRange<'a>),
    /// Number of members: `Number`, 0 if missing.
    SortedLength,
}

/// When a value expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// As before; a new value never expires.
    Keep,
    /// Never.
    #[default]
    Never,
    /// At this time in milliseconds since 1970.
    At(u64),
}

/// When a `Set` is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    #[default]
    Always,
    /// If the key is missing, otherwise `NotStored`.
    IfAbsent,
    /// If the key is there, otherwise `NotStored`.
    IfPresent,
    /// If the key has this version, otherwise `VersionDiffers`, or `Missing`.
    IfVersion(u64),
}

/// When an `Expire` is done (Redis's `NX`, `XX`, `GT`, `LT`). A key that never expires counts as
/// expiring at the end of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiryCondition {
    /// If it has no expiry.
    pub if_never: bool,
    /// If it has one.
    pub if_some: bool,
    /// If the new one is later.
    pub if_later: bool,
    /// If the new one is earlier.
    pub if_earlier: bool,
}

/// Which members a `SortedAdd` touches, and what it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SortedAddOptions {
    /// Only new members (`NX`).
    pub if_absent: bool,
    /// Only members that are there (`XX`).
    pub if_present: bool,
    /// Only to greater scores (`GT`).
    pub if_greater: bool,
    /// Only to smaller scores (`LT`).
    pub if_less: bool,
    /// Counts changed members too (`CH`).
    pub count_changed: bool,
    /// The score, of one member, is an increment (`INCR`): answers `Score`, or `Missing` where
    /// nothing was done; refused with `NotFinite` if the sum is NaN.
    pub increment: bool,
}

/// Members of a sorted set, in order of score and then of bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct SortedRange<'a> {
    /// Which.
    pub by: SortedRangeBy<'a>,
    /// From the greatest down.
    pub reverse: bool,
    /// Members left out at the beginning.
    pub offset: u64,
    /// Most members.
    pub count: u64,
    /// Each member is followed by its score.
    pub with_scores: bool,
}

/// How a range of a sorted set is given.
#[derive(Clone, Debug, PartialEq)]
pub enum SortedRangeBy<'a> {
    /// From rank to rank, inclusive, negative from the end, counted in the order of the answer.
    Rank {
        /// First.
        start: i64,
        /// Last.
        end: i64,
    },
    /// From score to score.
    Score {
        /// The lower end.
        min: ScoreBound,
        /// The upper end.
        max: ScoreBound,
    },
    /// From member to member by bytes, among equal scores.
    Member {
        /// The lower end and whether it is included; `None`: from the first.
        min: Option<(&'a [u8], bool)>,
        /// The upper end and whether it is included; `None`: to the last.
        max: Option<(&'a [u8], bool)>,
    },
}

/// An end of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreBound {
    /// The score; may be infinite.
    pub score: f64,
    /// Whether it is outside.
    pub is_exclusive: bool,
}

impl Operation<'_> {
    /// Whether it may change something.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !matches!(
            self,
            Self::Get
                | Self::Watch
                | Self::GetRange { .. }
                | Self::Length
                | Self::Inspect
                | Self::HashGet { .. }
                | Self::HashGetAll
                | Self::SortedRange(_)
                | Self::SortedLength
        )
    }
}
