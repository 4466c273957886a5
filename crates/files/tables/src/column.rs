//! Columns by name.

use arrow_schema::Schema;

use crate::Error;

/// Maximum length in bytes of a list of column names; further columns are only counted.
const LISTED_BYTES_MAX: usize = 500;

/// Columns of a table that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    /// All columns.
    All,
    /// Only the columns with these indices, in the schema's order.
    Only(Vec<usize>),
}

/// Returns the index of the only column with that name.
///
/// # Errors
/// [`Error::NoColumn`], [`Error::SameColumns`].
pub fn position<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    column: &str,
) -> Result<usize, Error> {
    let count = names.clone().filter(|name| *name == column).count();
    match (names.clone().position(|name| name == column), count) {
        (Some(index), 1) => Ok(index),
        (None, _) => Err(Error::NoColumn {
            name: column.into(),
            meant: overside_config::suggest(column, &names.clone().collect::<Vec<_>>()),
            known: listed(names),
        }),
        (_, count) => Err(Error::SameColumns { name: column.into(), count }),
    }
}

impl Columns {
    /// Returns `true` if the column with that index is read.
    pub fn has(&self, index: usize) -> bool {
        match self {
            Self::All => true,
            Self::Only(indices) => indices.contains(&index),
        }
    }

    /// Returns the columns of these names.
    ///
    /// # Errors
    /// Those of [`position`].
    pub fn named(schema: &Schema, names: &[impl AsRef<str>]) -> Result<Self, Error> {
        let known = schema.fields().iter().map(|field| field.name().as_str());
        let mut indices = names
            .iter()
            .map(|name| position(known.clone(), name.as_ref()))
            .collect::<Result<Vec<_>, _>>()?;
        indices.sort_unstable();
        indices.dedup();
        Ok(Self::Only(indices))
    }
}

/// Returns the names of a file's columns for a message: in one line of limited length.
fn listed<'a>(names: impl Iterator<Item = &'a str> + Clone) -> String {
    if names.clone().next().is_none() {
        return "none".into();
    }
    let mut list = String::new();
    for (index, name) in names.clone().enumerate() {
        if list.len() > LISTED_BYTES_MAX {
            return format!("{list}, and {} more", names.count() - index);
        }
        let comma = if index > 0 { ", " } else { "" };
        let name: String = name.chars().take(LISTED_BYTES_MAX).collect();
        list += &format!("{comma}{}", name.escape_debug());
    }
    list
}
