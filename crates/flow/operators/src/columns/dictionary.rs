//! Dictionaries: keys are collected, and all partitions share the values.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowDictionaryKeyType;
use arrow_array::{Array, ArrayRef, PrimitiveArray, downcast_integer, make_array, new_empty_array};
use arrow_schema::DataType;
use overside_tables::memory::BufferPool;

use super::unchecked;
use super::{Column, column};
use crate::Error;
use crate::order::Order;

/// Maximum number of values that are compared one by one to find out whether two dictionaries are equal.
const COMPARED_VALUES: usize = 1024;

/// Column of keys into shared values.
pub(super) struct Dictionary {
    keys: Box<dyn Column>,
    kind: DataType,
    values: ArrayRef,
    /// `true` once a block has been appended, so that `values` are those of the collected keys.
    is_used: bool,
}

impl Dictionary {
    pub(super) fn new(kind: &DataType, partitions: usize, memory: &Arc<BufferPool>) -> Self {
        let (keys, values) = match kind {
            DataType::Dictionary(keys, values) => (&**keys, &**values),
            other => (other, other),
        };
        Self {
            keys: column(keys, partitions, memory),
            kind: keys.clone(),
            values: new_empty_array(values),
            is_used: false,
        }
    }
}

fn is_same(one: &ArrayRef, other: &ArrayRef) -> bool {
    Arc::ptr_eq(one, other)
        || (one.len() == other.len()
            && (one.to_data().ptr_eq(&other.to_data())
                || (one.len() <= COMPARED_VALUES && one.as_ref() == other.as_ref())))
}

impl Column for Dictionary {
    fn is_compatible(&self, block: &dyn Array) -> bool {
        !self.is_used || is_same(&self.values, block.as_any_dictionary().values())
    }

    fn append(&mut self, block: &dyn Array, order: &Order) -> Result<(), Error> {
        let block = block.as_any_dictionary();
        // There are no rows yet, or the values are the same.
        self.values = block.values().clone();
        self.is_used = true;
        self.keys.append(block.keys(), order)
    }

    fn flush(&mut self, partition: usize) -> Result<(ArrayRef, u64), Error> {
        let (keys, bytes) = self.keys.flush(partition)?;
        macro_rules! join {
            ($kind:ty) => {
                join(keys.as_primitive::<$kind>().clone(), self.values.clone())
            };
        }
        let array = downcast_integer! {
            self.kind => (join),
            _ => make_array(keys.to_data())
        };
        Ok((array, bytes))
    }
}

#[allow(unsafe_code)]
fn join<K: ArrowDictionaryKeyType>(keys: PrimitiveArray<K>, values: ArrayRef) -> ArrayRef {
    // SAFETY: the keys come from arrays with these values: a block with other values is incompatible, so
    // everything is flushed before it is appended.
    Arc::new(unsafe { unchecked::dictionary(keys, values) })
}
