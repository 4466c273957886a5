//! Makes arrays from values of other arrays without validating them again.
#![allow(unsafe_code)]

use arrow_array::types::{ArrowDictionaryKeyType, ByteArrayType, ByteViewType};
use arrow_array::{
    ArrayRef, DictionaryArray, GenericByteArray, GenericByteViewArray, PrimitiveArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};

/// Makes an array of text or binary.
///
/// # Safety
///
/// `offsets` end within `values`; the bytes between two of them are a value of an array of that type.
pub(super) unsafe fn bytes<T: ByteArrayType>(
    offsets: OffsetBuffer<T::Offset>,
    values: Buffer,
    nulls: Option<NullBuffer>,
) -> GenericByteArray<T> {
    // SAFETY: as the caller promises.
    unsafe { GenericByteArray::new_unchecked(offsets, values, nulls) }
}

/// Makes an array of views of text or binary.
///
/// # Safety
///
/// Each view is either short, as a view of an array of that type, or has the length, first four
/// bytes, buffer and offset of a value of such an array.
pub(super) unsafe fn views<T: ByteViewType>(
    views: ScalarBuffer<u128>,
    buffers: Vec<Buffer>,
    nulls: Option<NullBuffer>,
) -> GenericByteViewArray<T> {
    // SAFETY: as the caller promises.
    unsafe { GenericByteViewArray::new_unchecked(views, buffers, nulls) }
}

/// Makes a dictionary.
///
/// # Safety
///
/// `keys` are keys of an array with these `values`.
pub(super) unsafe fn dictionary<K: ArrowDictionaryKeyType>(
    keys: PrimitiveArray<K>,
    values: ArrayRef,
) -> DictionaryArray<K> {
    // SAFETY: as the caller promises.
    unsafe { DictionaryArray::new_unchecked(keys, values) }
}
