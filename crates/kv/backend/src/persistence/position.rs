//! Position in another server's history, up to which its changes are here.

/// Hexadecimal digits of a history's id.
const ID_BYTES: usize = 40;
/// Length in bytes of an encoded position in a frame.
pub(super) const POSITION_BYTES: usize = ID_BYTES + 8 + 8;

/// A place in the history of a primary, between two of its frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryPosition {
    /// Id of the history: 40 hexadecimal digits.
    pub id: String,
    /// Bytes before it.
    pub offset: u64,
    /// Number of the frame that begins there.
    pub number: u64,
}

impl HistoryPosition {
    /// Returns a position in no history.
    pub(crate) fn unknown() -> Self {
        Self { id: String::new(), offset: 0, number: 0 }
    }

    /// Returns `true` if `text` can be the identifier of a history.
    #[must_use]
    pub fn is_id(text: &str) -> bool {
        text.len() == ID_BYTES && text.bytes().all(|digit| digit.is_ascii_hexdigit())
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(Self::is_id(&self.id));
        out.extend_from_slice(self.id.as_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
    }

    /// Removes a position from the front of a payload. Returns `None` if there is none.
    pub(super) fn decode(payload: &mut &[u8]) -> Option<Self> {
        let (bytes, rest) = payload.split_first_chunk::<POSITION_BYTES>()?;
        let (id, numbers) = bytes.split_first_chunk::<ID_BYTES>()?;
        let (offset, number) = numbers.split_first_chunk::<8>()?;
        let id = std::str::from_utf8(id).ok().filter(|id| Self::is_id(id))?;
        *payload = rest;
        Some(Self {
            id: id.to_owned(),
            offset: u64::from_le_bytes(*offset),
            number: u64::from_le_bytes(*number.first_chunk()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::HistoryPosition;

    #[test]
    fn what_is_written_is_read_again_and_nothing_else() {
        let position = HistoryPosition {
            id: "0123456789abcdef0123456789abcdef01234567".into(),
            offset: 7 << 40,
            number: 9,
        };
        let mut bytes = Vec::new();
        position.encode(&mut bytes);
        bytes.push(3);
        let mut rest = &bytes[..];
        assert_eq!(HistoryPosition::decode(&mut rest), Some(position));
        assert_eq!(rest, [3]);
        let short = &bytes[..super::POSITION_BYTES - 1];
        assert_eq!(HistoryPosition::decode(&mut &*short), None);
        bytes[0] = b'x';
        assert_eq!(HistoryPosition::decode(&mut &bytes[..]), None);
    }
}
