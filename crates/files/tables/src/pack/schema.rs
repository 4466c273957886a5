//! Schemas of inputs.

use std::collections::HashMap;

use arrow_ipc::convert::fb_to_schema;
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::arrays::children;
use super::message::guarded;
use crate::Error;

/// Types of the values of dictionaries, by dictionary number.
pub(super) type DictionaryTypes = HashMap<i64, DataType>;

/// Reads the schema of a message or a footer.
pub(super) fn read(schema: Option<arrow_ipc::Schema<'_>>) -> Result<SchemaRef, Error> {
    let schema = schema.ok_or_else(|| Error::Damaged("it does not begin with a schema".into()))?;
    if !schema.endianness().equals_to_target_endianness() {
        return Err(Error::ByteOrder);
    }
    guarded(|| Ok(SchemaRef::new(fb_to_schema(schema))))
}

/// Returns the dictionaries of the columns.
pub(super) fn dictionary_types(schema: &Schema) -> Result<DictionaryTypes, Error> {
    let mut types = DictionaryTypes::new();
    for field in schema.fields() {
        add(field, &mut types)?;
    }
    Ok(types)
}

fn add(field: &Field, types: &mut DictionaryTypes) -> Result<(), Error> {
    let kind = match field.data_type() {
        DataType::Dictionary(_, values) => {
            #[allow(deprecated)] // There is no other way to the number.
            let number = field.dict_id().unwrap_or_default();
            let before = types.insert(number, (**values).clone());
            if before.is_some_and(|before| before != **values) {
                return Err(Error::Damaged(format!("dictionary {number} has two types")));
            }
            values
        }
        kind => kind,
    };
    for child in children(kind) {
        add(child, types)?;
    }
    Ok(())
}
