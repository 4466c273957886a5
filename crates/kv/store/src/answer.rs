//! Answers of a processing engine to requests.

use crate::operations::declare;

/// Calls a macro with the table of answers, which is like that of [operations](crate::operations).
macro_rules! answers {
    ($use_table:ident) => {
        $use_table! {
            /// The answer to one request. It borrows from the store, or from where it was received.
            #[derive(Clone, Copy, Debug, PartialEq)]
            pub enum Answer<'a> {
                /// A string.
                0 Value(value: Value<'a> = stored_value);
                /// The key is missing.
                1 Missing;
                /// The request was executed.
                2 Done;
                /// A string was stored and has this version.
                3 Stored {
                    /// Version of the string after the operation.
                    version: u64 = version,
                };
                /// The request was not executed, because of its condition.
                4 NotStored;
                /// The request was not executed: the key has another version.
                5 VersionDiffers;
                /// A count, a length or a signed number.
                6 Number(number: i64 = signed);
                /// The value of an unsigned counter.
                7 Counter {
                    /// Value of the counter after the operation.
                    value: u64 = varint,
                    /// Version of the string after the operation.
                    version: u64 = version,
                };
                /// The score of a member.
                8 Score(score: f64 = score);
                /// Metadata of a key: the answer to `Operation::Inspect`.
                9 Metadata(metadata: Metadata = metadata);
                /// Several values.
                10 List(list: List<'a> = list);
                /// The request was refused, with the reason.
                11 Refused(refusal: Refusal = numbered);
            }
        }
    };
}

answers!(declare);
pub(crate) use answers;

/// String with its metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Value<'a> {
    /// The string, or the part that was asked for.
    pub data: &'a [u8],
    /// The client's number.
    pub flags: u32,
    /// Another one after each change of the key; never 0.
    pub version: u64,
    /// Time at which the value expires, in milliseconds since 1970; `None` if it never does.
    pub expires_at_ms: Option<u64>,
}

/// Metadata of a key, for values of every kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Kind of the key's value.
    pub kind: ValueKind,
    /// See [`Value::flags`].
    pub flags: u32,
    /// See [`Value::version`].
    pub version: u64,
    /// See [`Value::expires_at_ms`].
    pub expires_at_ms: Option<u64>,
    /// Bytes of the string, or number of fields or members.
    pub len: u64,
    /// Memory that key and value take, index included.
    pub memory_bytes: u64,
}

/// Kind of value that a key can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A string of bytes.
    String,
    /// Fields with values.
    Hash,
    /// Members in the order of their scores.
    SortedSet,
    /// Members.
    Set,
}

/// Reason why a request was refused. It changed nothing, except perhaps after
/// [`Refusal::Unreachable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The key holds a value of another kind.
    #[error("the key holds a value of another kind")]
    WrongKind,
    /// The string is no decimal number of 64 bits.
    #[error("the value is not an integer")]
    NotAnInteger,
    /// The number would not fit into 64 bits.
    #[error("the number would overflow")]
    Overflow,
    /// The string is no decimal fraction.
    #[error("the value is not a number")]
    NotAFloat,
    /// The sum would be infinite or not a number.
    #[error("the number would not be finite")]
    NotFinite,
    /// Key or value is longer than allowed.
    #[error("the value would be too long")]
    TooLarge,
    /// The store is full and drops nothing.
    #[error("the store is full")]
    OutOfMemory,
    /// The store takes no writes now: it is a replica, or its log cannot be written.
    #[error("the store takes no writes now")]
    ReadOnly,
    /// The store is a replica that has no complete copy of its primary yet.
    #[error("the replica has no complete copy of its primary yet")]
    Loading,
    /// The processing engine cannot be reached; the request may or may not have been executed.
    #[error("the processing engine cannot be reached")]
    Unreachable,
}

/// Elements in a row, as a [`ListBuilder`] wrote them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct List<'a> {
    len: usize,
    bytes: &'a [u8],
}

/// An element of a list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Element<'a> {
    /// Missing.
    Nil,
    /// A string.
    Bytes(&'a [u8]),
    /// A score.
    Score(f64),
}

/// Maximum number of bytes of a list, about.
pub const LIST_MAX_BYTES: usize = 512 << 20;

/// Writes a list. Its memory is used again after `clear`.
#[derive(Clone, Debug, Default)]
pub struct ListBuilder {
    len: usize,
    bytes: Vec<u8>,
}

const NIL: u8 = 0;
const BYTES: u8 = 1;
const SCORE: u8 = 2;

impl ListBuilder {
    /// Removes all elements.
    pub fn clear(&mut self) {
        self.len = 0;
        self.bytes.clear();
    }

    /// Returns `true` if the list is longer than [`LIST_MAX_BYTES`]. Later elements may then be
    /// missing.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        self.bytes.len() > LIST_MAX_BYTES
    }

    /// Adds an element of at most 4 GiB, unless the list is too long already.
    ///
    /// # Panics
    /// If it is longer.
    pub fn push(&mut self, element: Element<'_>) {
        if self.is_too_long() {
            return;
        }
        self.len += 1;
        match element {
            Element::Nil => self.bytes.push(NIL),
            Element::Bytes(bytes) => {
                let len = u32::try_from(bytes.len()).expect("an element is bounded");
                self.bytes.push(BYTES);
                self.bytes.extend_from_slice(&len.to_le_bytes());
                self.bytes.extend_from_slice(bytes);
            }
            Element::Score(score) => {
                self.bytes.push(SCORE);
                self.bytes.extend_from_slice(&score.to_le_bytes());
            }
        }
    }

    /// Returns the elements that were pushed since the last `clear`.
    #[must_use]
    pub fn list(&self) -> List<'_> {
        List { len: self.len, bytes: &self.bytes }
    }
}

impl<'a> List<'a> {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements as bytes, for [`List::from_bytes`].
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Wraps an encoded list; `None` if `bytes` are no `len` elements.
    #[must_use]
    pub fn from_bytes(len: u64, bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        let mut count = 0;
        while !rest.is_empty() {
            (_, rest) = split_element(rest)?;
            count += 1;
        }
        let len = usize::try_from(len).ok().filter(|len| *len == count)?;
        Some(Self { len, bytes })
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Element<'a>> + use<'a> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || {
            let (element, after) = split_element(rest)?;
            rest = after;
            Some(element)
        })
    }
}

fn split_element(bytes: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (&kind, rest) = bytes.split_first()?;
    match kind {
        BYTES => {
            let (len, rest) = rest.split_first_chunk()?;
            let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            Some((Element::Bytes(bytes), rest))
        }
        SCORE => {
            let (score, rest) = rest.split_first_chunk()?;
            Some((Element::Score(f64::from_le_bytes(*score)), rest))
        }
        NIL => Some((Element::Nil, rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Element, LIST_MAX_BYTES, ListBuilder};

    #[test]
    fn a_list_that_is_too_long_does_not_grow_and_says_so() {
        let mut builder = ListBuilder::default();
        let element = vec![0; 64 << 20];
        let mut pushed = 0;
        while !builder.is_too_long() {
            builder.push(Element::Bytes(&element));
            pushed += 1;
        }
        assert_eq!(pushed, LIST_MAX_BYTES / element.len());
        builder.push(Element::Nil);
        assert_eq!(builder.list().len(), pushed);
        builder.clear();
        assert!(!builder.is_too_long());
    }

    #[test]
    fn a_list_has_the_elements_that_were_pushed() {
        let elements =
            [Element::Bytes(b"one"), Element::Nil, Element::Score(-0.5), Element::Bytes(b"")];
        let mut builder = ListBuilder::default();
        builder.push(Element::Nil);
        builder.clear();
        elements.into_iter().for_each(|e| builder.push(e));
        assert_eq!(builder.list().len(), 4);
        assert!(builder.list().iter().eq(elements));
    }
}
