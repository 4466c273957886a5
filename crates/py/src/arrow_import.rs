//! Arrays of text from other libraries, which are not trusted. Counts and pointers of the C
//! structures are checked. Offsets, views and keys are copied and then checked, so that a
//! concurrent writer cannot lead a search outside of their memory. The bytes of the values are not
//! copied. <https://arrow.apache.org/docs/format/CDataInterface.html>

// Reads C structures and memory of other libraries.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::types::Int64Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, DictionaryArray, LargeBinaryArray,
    PrimitiveArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;

/// Deepest nesting of the types of a schema, and the highest number of types in it.
const DEPTH_MAX: usize = 32;
const TYPES_MAX: usize = 10_000;
/// Maximum length of an array: longer ones of any values do not fit into memory.
const LEN_MAX: u64 = 1 << 40;

/// Checks the pointers of a schema.
///
/// # Errors
/// The mistake in words.
pub(crate) fn check_schema(schema: &FFI_ArrowSchema) -> Result<(), String> {
    check_types(schema, DEPTH_MAX, &mut { TYPES_MAX })
}

fn check_types(schema: &FFI_ArrowSchema, depth: usize, left: &mut usize) -> Result<(), String> {
    if depth == 0 || *left == 0 {
        return Err("the Arrow schema has no end".into());
    }
    *left -= 1;
    if schema.format.is_null() || schema.release.is_none() {
        return Err("the Arrow schema has no type".into());
    }
    let count = usize::try_from(schema.n_children).map_err(|_| "a negative number of columns")?;
    if count > 0 && schema.children.is_null() {
        return Err("the Arrow schema has no columns where it says so".into());
    }
    for index in 0..count.min(TYPES_MAX) {
        // SAFETY: an array of that many pointers, as the C data interface has it.
        let child = unsafe { schema.children.add(index).read_unaligned().as_ref() };
        check_types(child.ok_or("a column of the Arrow schema is null")?, depth - 1, left)?;
    }
    // SAFETY: null, or a schema that the parent owns.
    match unsafe { schema.dictionary.as_ref() } {
        Some(values) => check_types(values, depth - 1, left),
        None => Ok(()),
    }
}

/// Returns the type that a column is imported as: text is imported as bytes.
pub(crate) fn imported_kind(kind: &DataType) -> DataType {
    match kind {
        DataType::Utf8 => DataType::Binary,
        DataType::LargeUtf8 => DataType::LargeBinary,
        DataType::Utf8View => DataType::BinaryView,
        DataType::Dictionary(_, values) => {
            DataType::Dictionary(Box::new(DataType::Int64), Box::new(imported_kind(values)))
        }
        other => other.clone(),
    }
}

/// Takes an array over, or the column `child` of an array of rows; `kind` is the column's type, one
/// that can be searched.
///
/// # Errors
/// The mistake in words.
pub(crate) fn import(
    array: FFI_ArrowArray,
    kind: &DataType,
    child: Option<usize>,
) -> Result<ArrayRef, String> {
    let owner = Arc::new(array);
    let Some(child) = child else {
        return Part::new(&owner, &owner)?.column(kind);
    };
    let rows = Part::new(&owner, &owner)?;
    if rows.nulls()?.is_some_and(|nulls| nulls.null_count() > 0) {
        return Err("rows that are null as a whole cannot be searched".into());
    }
    let count = usize::try_from(rows.array.n_children).unwrap_or(0);
    if child >= count || rows.array.children.is_null() {
        return Err(damaged("it has fewer columns than its type"));
    }
    // SAFETY: an array of that many pointers, as the C data interface has it.
    let column = unsafe { rows.array.children.add(child).read_unaligned().as_ref() };
    let column = Part::new(column.ok_or_else(|| damaged("a column is null"))?, &owner)?;
    if column.len < rows.offset + rows.len {
        return Err(damaged("a column is shorter than its table"));
    }
    Ok(column.column(kind)?.slice(rows.offset, rows.len))
}

/// One array of a tree of them, whose counts are right.
struct Part<'a> {
    array: &'a FFI_ArrowArray,
    /// The imported array, which keeps the memory of all its parts alive.
    owner: &'a Arc<FFI_ArrowArray>,
    len: usize,
    offset: usize,
}

impl<'a> Part<'a> {
    fn new(array: &'a FFI_ArrowArray, owner: &'a Arc<FFI_ArrowArray>) -> Result<Self, String> {
        let size = |count: i64| {
            let size = u64::try_from(count).ok().filter(|count| *count <= LEN_MAX);
            let size = size.and_then(|size| usize::try_from(size).ok());
            size.ok_or_else(|| damaged(&format!("a length of {count}")))
        };
        Ok(Self { array, owner, len: size(array.length)?, offset: size(array.offset)? })
    }

    fn column(&self, kind: &DataType) -> Result<ArrayRef, String> {
        Ok(match kind {
            DataType::Utf8 | DataType::Binary => {
                let (offsets, values) = self.offsets::<i32>()?;
                let made = BinaryArray::try_new(offsets, values, self.nulls()?);
                Arc::new(made.map_err(|error| damaged(&error.to_string()))?)
            }
            DataType::LargeUtf8 | DataType::LargeBinary => {
                let (offsets, values) = self.offsets::<i64>()?;
                let made = LargeBinaryArray::try_new(offsets, values, self.nulls()?);
                Arc::new(made.map_err(|error| damaged(&error.to_string()))?)
            }
            DataType::Utf8View | DataType::BinaryView => self.views()?,
            DataType::Dictionary(keys, values) => self.dictionary(keys, values)?,
            other => return Err(format!("{other} is not text")),
        })
    }

    /// A buffer of the structure; `None`: it is null.
    fn buffer(&self, index: usize) -> Result<Option<NonNull<u8>>, String> {
        let count = usize::try_from(self.array.n_buffers).unwrap_or(0);
        if index >= count || self.array.buffers.is_null() {
            return Err(damaged("it has fewer buffers than its type"));
        }
        // SAFETY: an array of that many pointers, as the C data interface has it.
        let buffer: *const c_void = unsafe { self.array.buffers.add(index).read_unaligned() };
        Ok(NonNull::new(buffer.cast_mut().cast()))
    }

    /// The `len` bytes that a buffer begins with, where they are.
    fn lent(&self, index: usize, len: usize) -> Result<Buffer, String> {
        let start = self.buffer(index)?;
        match (start, len) {
            (_, 0) => Ok(Buffer::default()),
            (None, _) => Err(damaged("a buffer is null")),
            // SAFETY: the producer of Arrow data promises that a buffer is as long as its lengths
            // require, and that it stays until the array is released; `owner` is dropped after the
            // last buffer. Bytes that are written meanwhile may have any value.
            (Some(start), len) => Ok(unsafe {
                Buffer::from_custom_allocation(start, len, Arc::clone(self.owner) as _)
            }),
        }
    }

    /// Copies `len` numbers of a buffer, from number `from` on.
    fn copied<T: Copy>(&self, index: usize, from: usize, len: usize) -> Result<Vec<T>, String> {
        if len == 0 {
            return Ok(Vec::new());
        }
        let start = self.buffer(index)?.ok_or_else(|| damaged("a buffer is null"))?;
        let start = start.cast::<T>();
        let mut numbers = Vec::new();
        (numbers.try_reserve_exact(len)).map_err(|_| damaged("longer than memory"))?;
        // SAFETY: as in `lent`; the buffer need not be aligned.
        numbers.extend((from..from + len).map(|at| unsafe { start.add(at).read_unaligned() }));
        Ok(numbers)
    }

    fn nulls(&self) -> Result<Option<NullBuffer>, String> {
        if self.array.null_count == 0 || self.len == 0 || self.buffer(0)?.is_none() {
            return Ok(None);
        }
        let bytes = (self.offset + self.len).div_ceil(8);
        let bits = self.copied::<u8>(0, 0, bytes)?;
        let bits = BooleanBuffer::new(Buffer::from(bits), self.offset, self.len);
        Ok(Some(NullBuffer::new(bits)))
    }

    /// Returns the offsets at which the values begin and end, copied and checked, and the buffer
    /// with the values' bytes.
    fn offsets<O: Offset>(&self) -> Result<(OffsetBuffer<O>, Buffer), String> {
        if self.len == 0 {
            return Ok((OffsetBuffer::new_empty(), Buffer::default()));
        }
        let offsets = self.copied::<O>(1, self.offset, self.len + 1)?;
        let mut last = O::default();
        for offset in &offsets {
            if *offset < last {
                return Err(damaged("its offsets do not ascend from 0"));
            }
            last = *offset;
        }
        let values = self.lent(2, last.as_usize())?;
        Ok((OffsetBuffer::new(ScalarBuffer::from(offsets)), values))
    }

    fn views(&self) -> Result<ArrayRef, String> {
        let views = self.copied::<u128>(1, self.offset, self.len)?;
        // The last buffer has the lengths of those between it and the views.
        let count = usize::try_from(self.array.n_buffers).unwrap_or(0);
        let parts = (count.checked_sub(3)).ok_or_else(|| damaged("it has no lengths"))?;
        let lens = self.copied::<i64>(count - 1, 0, parts)?;
        let parts = lens.iter().enumerate().map(|(index, len)| {
            let len = u64::try_from(*len).ok().filter(|len| *len <= LEN_MAX);
            let len = len.and_then(|len| usize::try_from(len).ok());
            self.lent(2 + index, len.ok_or_else(|| damaged("a buffer of negative length"))?)
        });
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        let made = BinaryViewArray::try_new(ScalarBuffer::from(views), parts, self.nulls()?);
        Ok(Arc::new(made.map_err(|error| damaged(&error.to_string()))?))
    }

    fn dictionary(&self, keys: &DataType, values: &DataType) -> Result<ArrayRef, String> {
        fn wide<T: Copy>(numbers: Vec<T>, wide: impl Fn(T) -> i64) -> Vec<i64> {
            numbers.into_iter().map(wide).collect()
        }
        let (from, len) = (self.offset, self.len);
        let keys = match keys {
            DataType::Int8 => wide(self.copied::<i8>(1, from, len)?, i64::from),
            DataType::Int16 => wide(self.copied::<i16>(1, from, len)?, i64::from),
            DataType::Int32 => wide(self.copied::<i32>(1, from, len)?, i64::from),
            DataType::Int64 => self.copied::<i64>(1, from, len)?,
            DataType::UInt8 => wide(self.copied::<u8>(1, from, len)?, i64::from),
            DataType::UInt16 => wide(self.copied::<u16>(1, from, len)?, i64::from),
            DataType::UInt32 => wide(self.copied::<u32>(1, from, len)?, i64::from),
            // One that is too large for 63 bits is no value's either.
            DataType::UInt64 => wide(self.copied::<u64>(1, from, len)?, |key| {
                i64::try_from(key).unwrap_or(i64::MAX)
            }),
            other => return Err(format!("{other} cannot be a dictionary's key")),
        };
        // SAFETY: null, or an array that the parent owns.
        let held = unsafe { self.array.dictionary.as_ref() };
        let held = held.ok_or_else(|| damaged("it has no dictionary"))?;
        let values = Part::new(held, self.owner)?.column(values)?;
        let keys = PrimitiveArray::<Int64Type>::new(ScalarBuffer::from(keys), self.nulls()?);
        let made = DictionaryArray::try_new(keys, values);
        Ok(Arc::new(made.map_err(|error| damaged(&error.to_string()))?))
    }
}

/// A number that says where a value begins.
trait Offset: arrow_array::OffsetSizeTrait {}

impl Offset for i32 {}
impl Offset for i64 {}

fn damaged(what: &str) -> String {
    format!("the Arrow array is damaged: {what}")
}
