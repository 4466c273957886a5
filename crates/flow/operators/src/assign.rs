//! Assigns each row to a partition by its key.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, BinaryViewType, ByteArrayType, ByteViewType, Float16Type, Float32Type,
    Float64Type, GenericBinaryType, GenericStringType, StringViewType,
};
use arrow_array::{
    Array, ArrayRef, GenericByteArray, GenericByteViewArray, PrimitiveArray,
    downcast_dictionary_array, downcast_primitive_array,
};
use arrow_buffer::{ArrowNativeType, ToByteSlice};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema};

use super::floats::canonical;
use super::hashes;
use super::key::{PartitionKey, PartitionMethod};
use super::ranges::{assign_ranges, bytes_below, cast_bounds};
use crate::Error;

/// Finds the partition of each row of the key column.
pub(super) struct Assigner {
    column: usize,
    partitions: usize,
    rule: Rule,
    /// Last dictionary, and the partitions of its values.
    dictionary: Option<(ArrayRef, Vec<u16>)>,
}

/// Method, prepared for the column's type.
enum Rule {
    Bits {
        from: u32,
        mask: u64,
    },
    Hash {
        partitions: u64,
    },
    /// Ascending bounds in the column's type.
    Ranges(ArrayRef),
}

impl Assigner {
    pub(super) fn new(schema: &Schema, key: &PartitionKey) -> Result<Self, Error> {
        let column = crate::column(schema, &key.column)?;
        let partitions = key.method.check()?;
        Ok(Self {
            column,
            partitions,
            rule: Rule::new(schema.field(column), key)?,
            dictionary: None,
        })
    }

    /// Returns the index of the key column.
    pub(super) fn column(&self) -> usize {
        self.column
    }

    /// Returns the number of partitions for keys that are not null.
    pub(super) fn partitions(&self) -> usize {
        self.partitions
    }

    /// Replaces `ids` by the partitions of the column's rows. Null keys are in the partition after all
    /// others.
    pub(super) fn assign(&mut self, keys: &dyn Array, ids: &mut Vec<u16>) {
        ids.clear();
        if matches!(keys.data_type(), DataType::Dictionary(_, _)) {
            self.assign_dictionary(keys, ids);
        } else {
            self.rule.assign(keys, ids);
        }
        mark_nulls(keys, self.partitions as u16, ids);
    }

    fn assign_dictionary(&mut self, keys: &dyn Array, ids: &mut Vec<u16>) {
        let null = self.partitions as u16;
        let values = keys.as_any_dictionary().values();
        let is_known = (self.dictionary.as_ref())
            .is_some_and(|(known, _)| known.to_data().ptr_eq(&values.to_data()));
        if !is_known {
            let mut of_values = Vec::new();
            self.rule.assign(values, &mut of_values);
            mark_nulls(values, null, &mut of_values);
            self.dictionary = Some((values.clone(), of_values));
        }
        let Some((_, of_values)) = &self.dictionary else {
            return;
        };
        downcast_dictionary_array!(
            keys => extend_from_keys(keys.keys().values(), of_values, null, ids),
            _ => {}
        )
    }
}

fn extend_from_keys<K: ArrowNativeType>(
    keys: &[K],
    of_values: &[u16],
    null: u16,
    ids: &mut Vec<u16>,
) {
    // A null row may have any key.
    let partition = |key: &K| of_values.get(key.as_usize()).copied().unwrap_or(null);
    ids.extend(keys.iter().map(partition));
}

fn mark_nulls(keys: &dyn Array, null: u16, ids: &mut [u16]) {
    let Some(nulls) = keys.nulls().filter(|nulls| nulls.null_count() > 0) else {
        return;
    };
    for (id, is_valid) in ids.iter_mut().zip(nulls.iter()) {
        if !is_valid {
            *id = null;
        }
    }
}

impl Rule {
    fn new(field: &Field, key: &PartitionKey) -> Result<Self, Error> {
        let kind = value_type(field.data_type());
        let refused = |reason: &str, remedy: &str| Error::KeyType {
            column: key.column.clone(),
            kind: field.data_type().to_string(),
            method: key.method.to_string(),
            reason: reason.to_owned(),
            remedy: remedy.to_owned(),
        };
        if kind.is_null() {
            return Err(refused(
                "it has no values that would say which type it is",
                "choose another column, or leave out tables without rows",
            ));
        }
        if !is_key(kind) {
            return Err(refused(
                "keys are numbers, booleans, text, binary, dates, times, decimals or dictionaries of them",
                "choose another column",
            ));
        }
        match &key.method {
            PartitionMethod::Bits { from, to } => {
                let bits = key_bits(kind).ok_or_else(|| {
                    refused("its values have no order of bits", "use hash:N or ranges:A,B,...")
                })?;
                if *to > bits {
                    let reason = format!("bits 0 to {} can be taken", bits - 1);
                    return Err(refused(&reason, "take lower bits, or hash:N"));
                }
                Ok(Self::Bits { from: *from, mask: (1 << (to - from)) - 1 })
            }
            PartitionMethod::Hash { partitions } => {
                Ok(Self::Hash { partitions: *partitions as u64 })
            }
            PartitionMethod::Ranges { bounds } => {
                let bounds = cast_bounds(bounds, kind).map_err(|reason| {
                    refused(&reason, "write ascending bounds as values of that type")
                })?;
                Ok(Self::Ranges(bounds))
            }
        }
    }

    /// Appends the partitions of all values, with arbitrary ones for nulls.
    fn assign(&self, values: &dyn Array, ids: &mut Vec<u16>) {
        let wide = match self {
            Self::Hash { .. } => wide_type(values.data_type()),
            _ => None,
        };
        // Each value of a narrow type is also one of the wide type.
        if let Some(Ok(wide)) = wide.map(|wide| cast(values, &wide)) {
            return self.assign(&wide, ids);
        }
        match values.data_type() {
            DataType::Boolean => {
                let bits = values.as_boolean().values();
                ids.extend(bits.iter().map(|bit| self.boolean(bit)));
            }
            DataType::Utf8 => self.assign_bytes::<GenericStringType<i32>>(values.as_bytes(), ids),
            DataType::LargeUtf8 => {
                self.assign_bytes::<GenericStringType<i64>>(values.as_bytes(), ids)
            }
            DataType::Binary => self.assign_bytes::<GenericBinaryType<i32>>(values.as_bytes(), ids),
            DataType::LargeBinary => {
                self.assign_bytes::<GenericBinaryType<i64>>(values.as_bytes(), ids)
            }
            DataType::Utf8View => self.assign_views::<StringViewType>(values.as_byte_view(), ids),
            DataType::BinaryView => self.assign_views::<BinaryViewType>(values.as_byte_view(), ids),
            DataType::FixedSizeBinary(_) => {
                let values = values.as_fixed_size_binary();
                ids.extend((0..values.len()).map(|row| self.bytes(values.value(row))));
            }
            DataType::Float16 => {
                self.assign_floats::<Float16Type>(
                    values,
                    <Float16Type as ArrowPrimitiveType>::Native::NAN,
                    ids,
                );
            }
            DataType::Float32 => self.assign_floats::<Float32Type>(values, f32::NAN, ids),
            DataType::Float64 => self.assign_floats::<Float64Type>(values, f64::NAN, ids),
            _ => downcast_primitive_array!(
                values => self.assign_values(values, ids),
                // Unreachable: the schema was checked.
                _ => ids.resize(ids.len() + values.len(), 0)
            ),
        }
    }

    fn assign_values<T: ArrowPrimitiveType>(&self, values: &PrimitiveArray<T>, ids: &mut Vec<u16>) {
        self.assign_primitive::<T>(values.values(), ids);
    }

    /// Assigns floats. Floats that compare as equal, and all NaN, must be in one partition.
    fn assign_floats<T: ArrowPrimitiveType>(
        &self,
        values: &dyn Array,
        nan: T::Native,
        ids: &mut Vec<u16>,
    ) {
        let values: Vec<T::Native> = (values.as_primitive::<T>().values().iter())
            .map(|value| canonical(*value, nan))
            .collect();
        self.assign_primitive::<T>(&values, ids);
    }

    fn assign_primitive<T: ArrowPrimitiveType>(&self, values: &[T::Native], ids: &mut Vec<u16>) {
        match self {
            Self::Bits { from, mask } => {
                let (from, mask) = (*from, *mask);
                ids.extend(values.iter().map(|value| ((low_bits(value) >> from) & mask) as u16));
            }
            Self::Hash { partitions } => hashes::assign(values, *partitions, ids),
            Self::Ranges(bounds) => {
                assign_ranges(bounds.as_primitive::<T>().values(), values, ids);
            }
        }
    }

    fn assign_bytes<T: ByteArrayType>(&self, values: &GenericByteArray<T>, ids: &mut Vec<u16>)
    where
        T::Native: AsRef<[u8]>,
    {
        for row in 0..values.len() {
            let value: &[u8] = values.value(row).as_ref();
            ids.push(self.bytes(value));
        }
    }

    fn assign_views<T: ByteViewType>(&self, values: &GenericByteViewArray<T>, ids: &mut Vec<u16>)
    where
        T::Native: AsRef<[u8]>,
    {
        for row in 0..values.len() {
            let value: &[u8] = values.value(row).as_ref();
            ids.push(self.bytes(value));
        }
    }

    fn bytes(&self, value: &[u8]) -> u16 {
        match self {
            // Unreachable: the schema was checked, and bytes have no ordered bits.
            Self::Bits { .. } => 0,
            Self::Hash { partitions } => hashes::partition_of(value, *partitions),
            Self::Ranges(bounds) => bytes_below(bounds, value),
        }
    }

    fn boolean(&self, value: bool) -> u16 {
        match self {
            Self::Bits { .. } => u16::from(value),
            Self::Hash { partitions } => hashes::partition_of(&[u8::from(value)], *partitions),
            Self::Ranges(bounds) => {
                let bounds = bounds.as_boolean().values();
                bounds.iter().filter(|bound| *bound <= value).count() as u16
            }
        }
    }
}

/// Returns the type whose values are compared: of a dictionary, that of its values.
pub fn value_type(kind: &DataType) -> &DataType {
    match kind {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

fn is_key(kind: &DataType) -> bool {
    kind.is_numeric()
        || matches!(
            kind,
            DataType::Boolean
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
                | DataType::FixedSizeBinary(_)
                | DataType::Date32
                | DataType::Date64
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Timestamp(_, _)
                | DataType::Duration(_)
        )
}

/// Returns the number of low-order bits of a type that can choose a partition; `None` for types
/// whose bits cannot.
pub(super) fn key_bits(kind: &DataType) -> Option<u32> {
    match kind {
        DataType::Boolean => Some(1),
        kind if kind.is_floating() || !is_key(kind) => None,
        kind => {
            let bytes = kind.primitive_width()?;
            Some((8 * bytes as u32).min(64))
        }
    }
}

/// Returns the wider type as which narrower numbers are hashed; `None` for types that are hashed as
/// they are. So the partition of a number is the same in columns of every width.
fn wide_type(kind: &DataType) -> Option<DataType> {
    use DataType::{Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
    match kind {
        Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32 => Some(Int64),
        Float16 | Float32 => Some(Float64),
        _ => None,
    }
}

fn low_bits<T: ArrowNativeType>(value: &T) -> u64 {
    let bytes = value.to_byte_slice();
    let mut low = [0; 8];
    let len = bytes.len().min(8);
    low[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(low)
}
