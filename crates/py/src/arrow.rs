//! Arrow data that cross by the Arrow PyCapsule interface, without pyarrow and without a copy.
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>

// Takes over C structures that other libraries made, and hands out its own.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::DataType;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::{arrow_import, errors, refused};

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// A column, array by array.
pub(crate) struct Column {
    kind: DataType,
    /// Index of the child in each array.
    child: Option<usize>,
    source: Source,
}

enum Source {
    /// One array; `None` once it was taken.
    Array(Option<FFI_ArrowArray>),
    Stream(Box<FFI_ArrowArrayStream>),
}

impl Column {
    /// The column that `object` offers, or the one that is called `name` of those it offers;
    /// `None` if it offers no Arrow data.
    pub(crate) fn of(object: &Bound<'_, PyAny>, name: Option<&str>) -> PyResult<Option<Self>> {
        let (kind, source) = if object.hasattr("__arrow_c_array__")? {
            array(object)?
        } else if object.hasattr("__arrow_c_stream__")? {
            stream(object)?
        } else {
            return Ok(None);
        };
        let child = child(&kind, name)?;
        Ok(Some(Self { kind, child, source }))
    }

    /// The type of the arrays that `next` gives.
    pub(crate) fn kind(&self) -> DataType {
        arrow_import::imported_kind(self.column_kind())
    }

    fn column_kind(&self) -> &DataType {
        match (&self.kind, self.child) {
            (DataType::Struct(fields), Some(child)) => fields[child].data_type(),
            (kind, _) => kind,
        }
    }

    /// Returns the next array; `None` after the last. An error is a description of the problem.
    pub(crate) fn next(&mut self) -> Result<Option<ArrayRef>, String> {
        let array = match &mut self.source {
            Source::Array(array) => array.take(),
            Source::Stream(stream) => next_of(stream)?,
        };
        let Some(array) = array else {
            return Ok(None);
        };
        arrow_import::import(array, self.column_kind(), self.child).map(Some)
    }
}

fn array(object: &Bound<'_, PyAny>) -> PyResult<(DataType, Source)> {
    let pair = object.call_method0("__arrow_c_array__")?;
    let pair = pair.cast_into::<PyTuple>()?;
    let kind = kind(&pair.get_item(0)?)?;
    let array = pointer(&pair.get_item(1)?, ARRAY)?;
    // SAFETY: the capsule's name says what it points to; it is moved out, which leaves a released
    // structure for the capsule, and Python cannot interfere while this thread is attached.
    let array = unsafe { FFI_ArrowArray::from_raw(array.as_ptr()) };
    if array.is_released() {
        return Err(refused("the Arrow array was taken by somebody before"));
    }
    Ok((kind, Source::Array(Some(array))))
}

fn stream(object: &Bound<'_, PyAny>) -> PyResult<(DataType, Source)> {
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let stream = pointer(&capsule, STREAM)?;
    // SAFETY: as in `array`.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) };
    let mut stream = Box::new(stream);
    let Some(get_schema) = stream.get_schema else {
        return Err(refused("the Arrow stream was taken by somebody before"));
    };
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: the stream is not released, since it has its functions; `schema` is released.
    let status = unsafe { get_schema(&raw mut *stream, &raw mut schema) };
    check(status, &mut stream).map_err(errors::data)?;
    Ok((kind_of(&schema)?, Source::Stream(stream)))
}

fn next_of(stream: &mut FFI_ArrowArrayStream) -> Result<Option<FFI_ArrowArray>, String> {
    let Some(get_next) = stream.get_next else {
        return Ok(None);
    };
    let mut array = FFI_ArrowArray::empty();
    // SAFETY: the stream is not released, since it has its functions; `array` is released.
    let status = unsafe { get_next(&raw mut *stream, &raw mut array) };
    check(status, stream)?;
    Ok((!array.is_released()).then_some(array))
}

/// An error if a stream's function did not return 0.
fn check(status: c_int, stream: &mut FFI_ArrowArrayStream) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    let text = (stream.get_last_error)
        // SAFETY: the last call of the stream failed, which is when this may be called.
        .map(|get_last_error| unsafe { get_last_error(&raw mut *stream) })
        .filter(|text| !text.is_null())
        .map(|text| {
            // SAFETY: a string that ends with a zero and stays until the stream's next call.
            let text = unsafe { CStr::from_ptr(text) };
            text.to_string_lossy().into_owned()
        });
    Err(text.unwrap_or_else(|| format!("the Arrow stream failed with status {status}")))
}

fn kind(capsule: &Bound<'_, PyAny>) -> PyResult<DataType> {
    let schema = pointer::<FFI_ArrowSchema>(capsule, SCHEMA)?;
    // SAFETY: the capsule's name says what it points to; the capsule stays meanwhile.
    kind_of(unsafe { schema.as_ref() })
}

fn kind_of(schema: &FFI_ArrowSchema) -> PyResult<DataType> {
    arrow_import::check_schema(schema).map_err(errors::data)?;
    DataType::try_from(schema).map_err(errors::data)
}

/// Returns the index of the child that is the column of that name.
fn child(kind: &DataType, name: Option<&str>) -> PyResult<Option<usize>> {
    let DataType::Struct(fields) = kind else {
        return match name {
            None => Ok(None),
            Some(_) => Err(refused("the data are one column, which needs no name")),
        };
    };
    let known = || {
        let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        names.join(", ")
    };
    let Some(name) = name else {
        return Err(refused(format!("column says which one to search; there are: {}", known())));
    };
    let mut of_that_name = (fields.iter().enumerate()).filter(|(_, field)| field.name() == name);
    match (of_that_name.next(), of_that_name.next()) {
        (Some((child, _)), None) => Ok(Some(child)),
        (None, _) => Err(refused(format!("there is no column {name:?}; there are: {}", known()))),
        _ => Err(refused(format!("several columns are called {name:?}"))),
    }
}

/// Returns the pointer of a capsule. Raises an exception if the capsule has another name or the
/// pointer is not aligned.
fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<NonNull<T>> {
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(name))?.cast::<T>();
    match pointer.is_aligned() {
        true => Ok(pointer),
        false => Err(PyTypeError::new_err("the capsule's pointer is not aligned")),
    }
}

/// The capsules of an array: its schema, and itself.
pub(crate) fn export<'py>(py: Python<'py>, array: &BooleanArray) -> PyResult<Bound<'py, PyTuple>> {
    let (array, schema) = to_ffi(&array.to_data()).map_err(errors::data)?;
    let schema = PyCapsule::new_with_value(py, schema, SCHEMA)?;
    let array = PyCapsule::new_with_value(py, array, ARRAY)?;
    PyTuple::new(py, [schema, array])
}
