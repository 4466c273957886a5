//! Encoding of the report of the side with the keys: counts and sizes, the time of the last save,
//! and fields of `INFO` on how it is kept and where its time goes.

use super::{OffloadError, ServingWork};
use crate::Statistics;
use crate::codec::{DecodeError, put_varint, take_string, take_varint};
use overside_kv_backend::StorageBackend;

/// Maximum number of fields, and longest name and value of one.
const FIELDS_MAX: usize = 128;
const NAME_MAX_BYTES: usize = 64;
const VALUE_MAX_BYTES: usize = 256;

/// Last report of the other side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RemoteStatistics {
    pub statistics: Statistics,
    /// Time of the last snapshot, in seconds since 1970.
    pub last_save_s: u64,
    /// Names and values for `INFO`.
    pub info: Vec<(String, String)>,
}

/// Writes the report of `engine`, and of the thread that serves only it, if there is one.
pub(super) fn put_told(
    engine: &dyn StorageBackend,
    work: Option<&ServingWork>,
    body: &mut Vec<u8>,
) {
    for (_, _, number) in engine.statistics().fields() {
        put_varint(number, body);
    }
    put_varint(engine.last_save_s(), body);
    let own = work.map(ServingWork::info).unwrap_or_default();
    for (name, value) in engine.info().iter().chain(&own).take(FIELDS_MAX) {
        for text in [name, value] {
            put_varint(text.len() as u64, body);
            body.extend_from_slice(text.as_bytes());
        }
    }
}

/// Reads it. The other side is not trusted: no text of it can be taken for more than one value.
pub(super) fn read_told(mut bytes: &[u8]) -> Result<RemoteStatistics, OffloadError> {
    let mut told = RemoteStatistics::default();
    for number in told.statistics.counts_mut() {
        *number = take_varint(&mut bytes)?;
    }
    told.last_save_s = take_varint(&mut bytes)?;
    while !bytes.is_empty() {
        let mut text = |max_bytes| -> Result<String, OffloadError> {
            let text = take_string(&mut bytes, max_bytes)?;
            let is_plain = text.iter().all(|byte| (b' '..=b'~').contains(byte));
            let text = str::from_utf8(text).ok().filter(|_| is_plain);
            Ok(text.ok_or(DecodeError::InvalidOperand)?.to_owned())
        };
        let field = (text(NAME_MAX_BYTES)?, text(VALUE_MAX_BYTES)?);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if told.info.len() == FIELDS_MAX || !field.0.bytes().all(is_name) {
            return Err(DecodeError::InvalidOperand.into());
        }
        told.info.push(field);
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::{FIELDS_MAX, put_told, read_told};
    use crate::KeyHasher;
    use crate::store::{Store, StoreOptions};
    use overside_kv::server::Memory;
    use overside_kv_backend::StorageBackend;

    fn told() -> Vec<u8> {
        let store = Store::new(StoreOptions::new(1 << 20, &KeyHasher::random()));
        let memory = Memory::new(store.unwrap(), 5000);
        let mut body = Vec::new();
        put_told(&memory, None, &mut body);
        assert_eq!(read_told(&body).unwrap().info, memory.info());
        assert_eq!(read_told(&body).unwrap().last_save_s, 5);
        body
    }

    #[test]
    fn what_is_told_is_bounded_and_plain() {
        let body = told();
        for lie in [&b"\x04name\x05a\r\nb:"[..], b"\x02a:\x01b", b"\x04name", b"\x04na"] {
            assert!(read_told(&[&body, lie].concat()).is_err(), "{lie:?}");
        }
        let fields = b"\x01a\x01b".repeat(FIELDS_MAX);
        assert!(read_told(&[&body[..], &fields].concat()).is_err());
        for end in 0..body.len() {
            let _ = read_told(&body[..end]);
        }
    }
}
