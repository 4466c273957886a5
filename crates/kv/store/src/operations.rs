//! The table of operations: a row has the number in the encoding, the operands, and what executing it does.
//!
//! ```text
//!   NUMBER NAME { operand: type = encoding, [bit, bit] } => read | write if EFFECT;
//! ```
//!
//! The type [`Operation`](crate::Operation), its [encoding](crate::codec) and its [effect](crate::effect) are made of
//! this table. An encoding is a method of the codec's reader and writer; bits share a byte. An effect is a function of
//! `effect.rs`.

/// Calls a macro with the table.
macro_rules! operations {
    ($use_table:ident) => {
        $use_table! {
            /// Operation on one key. Values are at most [`VALUE_MAX_BYTES`](crate::VALUE_MAX_BYTES) long. By
            /// default it is refused with [`Refusal::WrongKind`](crate::Refusal::WrongKind) if the key holds
            /// another kind of value. Times are absolute, by the clock of the side that receives the request.
            #[derive(Clone, Debug, PartialEq)]
            pub enum Operation<'a> {
                /// The string: `Value` or `Missing`.
                0 Get => read;
                /// The string, and a new expiry for it: `Value` or `Missing`.
                1 GetAndExpire(expiry: Expiry = numbered) => write if renewed;
                /// The string, which is removed: `Value` or `Missing`.
                2 GetAndDelete => write if found;
                /// Part of the string as Redis counts (`GETRANGE`): from `start` to `end` inclusive, negative
                /// from the end: `Value`, empty if missing.
                3 GetRange {
                    /// First byte.
                    start: i64 = signed,
                    /// Last byte.
                    end: i64 = signed,
                } => read;
                /// Length of the string in bytes: `Number`, 0 if missing.
                4 Length => read;
                /// Stores a string in place of any value: `Stored`, or `Missing`, `NotStored`,
                /// `VersionDiffers` by the condition.
                5 Set {
                    /// The new value.
                    value: &'a [u8] = value,
                    /// Data that is kept with it, and when it is stored.
                    options: SetOptions = set_options,
                } => write if stored;
                /// Adds bytes to a string: `Number`, its new length; `Missing` unless `create`. Flags and expiry
                /// stay.
                6 Append {
                    /// Bytes to add.
                    value: &'a [u8] = value,
                    [
                        /// `true` to add it in front (memcached's `prepend`).
                        front,
                        /// Creates the string if it is missing.
                        create,
                    ],
                } => write if found;
                /// Overwrites part of a string, filling up with zero bytes: `Number`, its new length. An empty
                /// value changes nothing.
                7 SetRange {
                    /// Offset in bytes at which the overwritten part begins.
                    offset: u64 = varint,
                    /// Bytes to write there.
                    value: &'a [u8] = value,
                } => write if found;
                /// Adds to a string that is a signed decimal number, 0 if missing: `Number`; refused with
                /// `NotAnInteger` or `Overflow`.
                8 Increment {
                    /// Number to add; may be negative.
                    delta: i64 = signed,
                } => write if found;
                /// Adds to a string that is a decimal fraction, 0 if missing: `Value`, the new text; refused with
                /// `NotAFloat` or `NotFinite`.
                9 IncrementFloat {
                    /// Number to add, as text.
                    delta: &'a [u8] = value,
                } => write if found;
                /// Counts as memcached does: unsigned, up wraps around, down stops at 0: `Counter`; `Missing`
                /// without `initial`; refused with `NotAnInteger`.
                10 Count(change: CounterChange = counter_change) => write if found;
                /// Removes any kind of value: `Done`, `Missing`, or `VersionDiffers`.
                11 Delete {
                    /// Only if it has this version.
                    version: Option<u64> = optional_version,
                } => write if deleted;
                /// Reads the metadata of any kind of value: `Metadata` or `Missing`.
                12 Inspect => read;
                /// Changes the expiry of any kind of value: `Done`, `NotStored` by the condition, or `Missing`. A
                /// time that has passed removes it.
                13 Expire {
                    /// The new expiry.
                    expiry: Expiry = numbered,
                    /// Condition under which the expiry changes.
                    condition: ExpiryCondition = expiry_condition,
                } => write if found;
                /// Sets fields of a hash: `Number` of those that are new.
                14 HashSet {
                    /// Names with values.
                    fields: Box<[[&'a [u8]; 2]]> = pairs,
                } => write if found;
                /// Reads the values of fields: `List`, with `Nil` for missing ones.
                15 HashGet {
                    /// Names.
                    fields: Box<[&'a [u8]]> = values,
                } => read;
                /// All names and values in turn: `List`.
                16 HashGetAll => read;
                /// Removes fields: `Number` of those that were there. An empty hash is removed.
                17 HashDelete {
                    /// Names.
                    fields: Box<[&'a [u8]]> = values,
                } => write if counted;
                /// Adds members to a sorted set or changes their scores: `Number`.
                18 SortedAdd {
                    /// Rules for adding and changing members.
                    options: SortedAddOptions = sorted_add_options,
                    /// Scores, which are not NaN, and members; one if the score is an increment.
                    members: Box<[(f64, &'a [u8])]> = members,
                } => write if found;
                /// Removes members: `Number` of those that were there. An empty set is removed.
                19 SortedRemove {
                    /// Members.
                    members: Box<[&'a [u8]]> = values,
                } => write if counted;
                /// Members in a range: `List` of members, each followed by its `Score` if that is wanted.
                20 SortedRange(range: SortedRange<'a> = sorted_range) => read;
                /// Reads the number that a transaction compares for a watched key
                /// ([`Transaction`](crate::Transaction)): `Number`, the version of the key's value. If the key
                /// is missing, the number changes each time that the key is created, and sometimes when other
                /// keys are.
                22 Watch => read;
                /// Sets a field of a hash that is missing: `Number`, 1, or 0 if it is there.
                23 HashAdd {
                    /// Name.
                    field: &'a [u8] = value,
                    /// Value.
                    value: &'a [u8] = value,
                } => write if counted;
                /// Adds to a field of a hash that is a signed decimal number, 0 if missing: `Number`; refused with
                /// `NotAnInteger` or `Overflow`.
                24 HashIncrement {
                    /// Name.
                    field: &'a [u8] = value,
                    /// Number to add; may be negative.
                    delta: i64 = signed,
                } => write if found;
                /// Adds to a field of a hash that is a decimal fraction, 0 if missing: `Value`, the new text;
                /// refused with `NotAFloat` or `NotFinite`.
                25 HashIncrementFloat {
                    /// Name.
                    field: &'a [u8] = value,
                    /// Number to add, as text.
                    delta: &'a [u8] = value,
                } => write if found;
                /// Adds members to a set: `Number` of those that are new.
                26 SetAdd {
                    /// Members.
                    members: Box<[&'a [u8]]> = values,
                } => write if counted;
                /// Removes members: `Number` of those that were there. An empty set is removed.
                27 SetRemove {
                    /// Members.
                    members: Box<[&'a [u8]]> = values,
                } => write if counted;
                /// All of a collection of this kind: `List` of members; of a sorted set each is followed by its
                /// score.
                28 Members(kind: ValueKind = numbered) => read;
                /// Scores of members of a set, where each is 0, or of a sorted set: `List`, with `Nil` for missing ones.
                29 Scores {
                    /// Kind of the collection.
                    kind: ValueKind = numbered,
                    /// Members.
                    members: Box<[&'a [u8]]> = values,
                } => read;
                /// Elements of a collection at [`random_ranks`](crate::random_ranks): `List`, as of `Members` and
                /// `HashGetAll`.
                30 Choose {
                    /// Kind of the collection.
                    kind: ValueKind = numbered,
                    /// Number of elements; if it is negative, they may be there repeatedly.
                    count: i64 = signed,
                    /// Seed of the choice.
                    seed: u64 = varint,
                } => read;
                /// Removes members of a set or a sorted set: `List`, as of `Members`. An empty one is removed.
                31 Pop {
                    /// Kind of the collection.
                    kind: ValueKind = numbered,
                    /// Maximum number of members.
                    count: u64 = varint,
                    /// Members to remove.
                    which: Popped = numbered,
                } => write if listed;
                /// Rank of a member of a sorted set, from 0: `Number` or `Missing`.
                32 SortedRank {
                    /// Member.
                    member: &'a [u8] = value,
                    [
                        /// Counts from the greatest.
                        reverse,
                    ],
                } => read;
                /// Number of members in a range: `Number`.
                33 SortedCount(range: SortedRange<'a> = sorted_range) => read;
                /// Removes the members in a range: `Number` of them. An empty set is removed.
                34 SortedRemoveRange(range: SortedRange<'a> = sorted_range) => write if counted;
                /// The requests that make a value of any kind and its expiry: `List` of their
                /// [encodings](crate::codec), empty if missing.
                35 Dump => read;
            }
        }
    };
}

/// Declares the type that a table describes.
macro_rules! declare {
    (
        $(#[$meta:meta])*
        pub enum $type:ident<$life:lifetime> { $(
            $(#[$doc:meta])*
            $number:literal $name:ident
            $(( $($only:ident : $only_type:ty = $only_codec:ident),* ))?
            $({ $(
                $( $(#[$field_doc:meta])* $field:ident : $field_type:ty = $codec:ident )?
                $([ $( $(#[$bit_doc:meta])* $bit:ident ),* $(,)? ])?
            ),* })?
            $(=> $access:ident $(if $effect:ident)?)?;
        )* }
    ) => {
        $(#[$meta])*
        pub enum $type<$life> { $(
            $(#[$doc])*
            $name
            $(( $($only_type),* ))?
            $({ $(
                $( $(#[$field_doc])* $field: $field_type, )?
                $( $( $(#[$bit_doc])* $bit: bool, )* )?
            )* })?,
        )* }
    };
}

pub(crate) use {declare, operations};
