//! Current dictionaries of a stream.

use std::collections::HashMap;

use arrow_array::{Array, ArrayRef};
use arrow_select::concat::concat;

use crate::Error;

/// Estimated memory of an array in addition to its buffers, in bytes.
const OVERHEAD_BYTES: u64 = 256;

/// Dictionaries by number. Additions are concatenated when the dictionary is next needed.
pub(super) struct Dictionaries {
    all: HashMap<i64, Dictionary>,
    /// The most bytes of all together.
    bytes_max: u64,
}

#[derive(Default)]
struct Dictionary {
    parts: Vec<ArrayRef>,
    bytes: u64,
}

impl Dictionaries {
    pub(super) fn new(bytes_max: u64) -> Self {
        let all = HashMap::new();
        Self { all, bytes_max }
    }

    /// Replaces a dictionary, or appends to it.
    pub(super) fn add(
        &mut self,
        number: i64,
        values: ArrayRef,
        is_delta: bool,
    ) -> Result<(), Error> {
        if is_delta && !self.all.contains_key(&number) {
            let what = format!("values are added to dictionary {number}, which is missing");
            return Err(Error::Damaged(what));
        }
        let dictionary = self.all.entry(number).or_default();
        if !is_delta {
            *dictionary = Dictionary::default();
        }
        dictionary.bytes += bytes(&values)?;
        dictionary.parts.push(values);
        let bytes = self.all.values().map(|one| one.bytes).sum();
        match bytes > self.bytes_max {
            true => Err(Error::TooLong { bytes, bytes_max: self.bytes_max }),
            false => Ok(()),
        }
    }

    /// Concatenates the additions of each dictionary.
    pub(super) fn join(&mut self) -> Result<(), Error> {
        for one in self.all.values_mut().filter(|one| one.parts.len() > 1) {
            let arrays: Vec<&dyn Array> = one.parts.iter().map(|part| &**part).collect();
            let joined = concat(&arrays)?;
            one.bytes = bytes(&joined)?;
            one.parts = vec![joined];
        }
        Ok(())
    }

    /// Returns a dictionary. Call [`Dictionaries::join`] first.
    pub(super) fn get(&self, number: i64) -> Option<&ArrayRef> {
        self.all.get(&number)?.parts.first()
    }
}

fn bytes(values: &ArrayRef) -> Result<u64, Error> {
    Ok(OVERHEAD_BYTES + values.to_data().get_slice_memory_size()? as u64)
}
