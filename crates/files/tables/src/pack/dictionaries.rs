//! Current dictionaries of a stream.

use std::collections::HashMap;

use arrow_array::{Array, ArrayRef};
use arrow_select::concat::concat;

use crate::Error;

/// Dictionaries by number. Additions are concatenated when the dictionary is next needed.
#[derive(Default)]
pub(super) struct Dictionaries(HashMap<i64, Vec<ArrayRef>>);

impl Dictionaries {
    /// Replaces a dictionary, or appends to it.
    pub(super) fn add(
        &mut self,
        number: i64,
        values: ArrayRef,
        is_delta: bool,
    ) -> Result<(), Error> {
        match (self.0.get_mut(&number), is_delta) {
            (Some(parts), true) => parts.push(values),
            (None, true) => {
                let what = format!("values are added to dictionary {number}, which is missing");
                return Err(Error::Damaged(what));
            }
            (_, false) => drop(self.0.insert(number, vec![values])),
        }
        Ok(())
    }

    /// Concatenates the additions of each dictionary.
    pub(super) fn join(&mut self) -> Result<(), Error> {
        for parts in self.0.values_mut().filter(|parts| parts.len() > 1) {
            let arrays: Vec<&dyn Array> = parts.iter().map(|part| &**part).collect();
            *parts = vec![concat(&arrays)?];
        }
        Ok(())
    }

    /// Returns a dictionary. Call [`Dictionaries::join`] first.
    pub(super) fn get(&self, number: i64) -> Option<&ArrayRef> {
        self.0.get(&number)?.first()
    }
}
