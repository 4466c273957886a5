//! Commands on hashes.

use super::reply::ErrorReply;
use overside_kv_store::Operation;

/// `HSET` and `HMSET`
pub(super) fn set<'a>(arguments: &[&'a [u8]], command: &str) -> Result<Operation<'a>, ErrorReply> {
    let (fields, rest) = arguments[2..].as_chunks();
    if !rest.is_empty() {
        return Err(ErrorReply::wrong_arity(command));
    }
    let fields = fields.into();
    Ok(Operation::HashSet { fields })
}
