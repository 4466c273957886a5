//! Requests that a processing engine executes.

use std::collections::BTreeSet;

use overside_base::Random;

use crate::operations::{declare, operations};
use crate::{KeyHasher, ValueKind};

/// One request: what to do with one key. It borrows from wherever it was received.
#[derive(Clone, Debug, PartialEq)]
pub struct Request<'a> {
    /// The key, at most [`KEY_MAX_BYTES`](crate::KEY_MAX_BYTES) long; may be empty.
    pub key: &'a [u8],
    /// [`KeyHasher::hash`](crate::KeyHasher::hash) of the key by the hasher of the engine's store.
    pub hash: u64,
    /// Operation on the key.
    pub operation: Operation<'a>,
}

operations!(declare);

/// Expiry that an operation gives to a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// The expiry stays as it is; a new value never expires.
    Keep,
    /// Never.
    #[default]
    Never,
    /// Expires at this time in milliseconds since 1970.
    At(u64),
}

/// Data that a `Set` keeps with the string, and when it stores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetOptions {
    /// Number that the client stores with the string (memcached).
    pub flags: u32,
    /// Expiry of the new string.
    pub expiry: Expiry,
    /// Answers with the old string instead, `Value` or `Missing`, whether or not it was stored;
    /// refused if something else was there.
    pub return_old: bool,
    /// Condition under which the string is stored.
    pub condition: Condition,
}

/// Members that a `Pop` removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Popped {
    /// Members with the least scores.
    Least,
    /// Members with the greatest scores, the greatest first.
    Greatest,
    /// Members at [`random_ranks`] of this seed.
    Random(u64),
}

/// Ranks of elements in their order, chosen at random: `count` different ones at most, in ascending order (Floyd's
/// algorithm), or `-count` that may repeat.
pub fn random_ranks(len: usize, count: i64, seed: u64) -> impl Iterator<Item = usize> {
    let mut random = Random::new(seed);
    let mut below = move |bound: usize| random.below(bound as u64) as usize;
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let (distinct, repeated) = match count < 0 {
        true => (0, if len == 0 { 0 } else { wanted }),
        false => (wanted.min(len), 0),
    };
    let mut chosen = BTreeSet::new();
    for last in len - distinct..len {
        let rank = below(last + 1);
        if !chosen.insert(rank) {
            chosen.insert(last);
        }
    }
    chosen.into_iter().chain((0..repeated).map(move |_| below(len)))
}

/// Change that a `Count` makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterChange {
    /// Amount to add or subtract.
    pub delta: u64,
    /// Down instead of up.
    pub down: bool,
    /// The first value of a missing key, and its expiry.
    pub initial: Option<(u64, Expiry)>,
    /// A new expiry for a key that is there; `Keep` leaves it.
    pub expiry: Expiry,
}

/// Condition under which a `Set` stores its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    #[default]
    Always,
    /// The key is missing; otherwise `NotStored`.
    IfAbsent,
    /// The key exists; otherwise `NotStored`.
    IfPresent,
    /// The key has this version; otherwise `VersionDiffers`, or `Missing`.
    IfVersion(u64),
}

/// Conditions under which an `Expire` changes the expiry (Redis's `NX`, `XX`, `GT`, `LT`). All that
/// are set must be met. A key that never expires counts as expiring at the end of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiryCondition {
    /// `true` to require that the key has no expiry.
    pub if_never: bool,
    /// `true` to require that the key has an expiry.
    pub if_some: bool,
    /// `true` to require that the new expiry is later.
    pub if_later: bool,
    /// `true` to require that the new expiry is earlier.
    pub if_earlier: bool,
}

/// Members that a `SortedAdd` touches, and its answer.
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
    /// Range of members.
    pub by: SortedRangeBy<'a>,
    /// `true` for descending order.
    pub reverse: bool,
    /// Members left out at the beginning.
    pub offset: u64,
    /// Maximum number of members.
    pub count: u64,
    /// Each member is followed by its score.
    pub with_scores: bool,
}

/// Criterion that selects a range of a sorted set.
#[derive(Clone, Debug, PartialEq)]
pub enum SortedRangeBy<'a> {
    /// Members by rank, inclusive, negative from the end, counted in the order of the answer.
    Rank {
        /// First.
        start: i64,
        /// Last.
        end: i64,
    },
    /// Members by score.
    Score {
        /// The lower end.
        min: ScoreBound,
        /// The upper end.
        max: ScoreBound,
    },
    /// Members by their bytes, among equal scores.
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
    /// `true` if the score itself is outside the range.
    pub is_exclusive: bool,
}

macro_rules! accesses {
    (
        $(#[$meta:meta])*
        pub enum $type:ident<$life:lifetime> { $(
            $(#[$doc:meta])*
            $number:literal $name:ident $(( $($only:tt)* ))? $({ $($fields:tt)* })?
            => $access:ident $(if $effect:ident)?;
        )* }
    ) => {
        impl<$life> $type<$life> {
            /// Returns `true` if the operation may change something.
            #[must_use]
            pub fn is_write(&self) -> bool {
                match self {
                    $(Self::$name { .. } => accesses!($access),)*
                }
            }
        }
    };
    (read) => { false };
    (write) => { true };
}

operations!(accesses);

impl<'a> Operation<'a> {
    /// Stores a string in any case, without flags and expiry.
    #[must_use]
    pub const fn set(value: &'a [u8]) -> Self {
        let options = SetOptions {
            flags: 0,
            expiry: Expiry::Never,
            return_old: false,
            condition: Condition::Always,
        };
        Self::Set { value, options }
    }

    /// Returns `true` if executing the operation twice in a row has the same effect and answer as
    /// executing it once.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        match self {
            Self::Set { options, .. } => {
                options.condition == Condition::Always && !options.return_old
            }
            Self::Delete { version } => version.is_none(),
            operation => !operation.is_write(),
        }
    }
}

impl<'a> Request<'a> {
    /// Returns the request for an operation on a key of a store with this hasher.
    #[inline]
    #[must_use]
    pub fn new(key: &'a [u8], hasher: &KeyHasher, operation: Operation<'a>) -> Self {
        Self { key, hash: hasher.hash(key), operation }
    }
}
