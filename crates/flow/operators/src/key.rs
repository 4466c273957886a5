//! Partition keys: a column, and the method by which its values choose a partition.
//!
//! | method | partition of a value |
//! |---|---|
//! | `bits:N` | its lowest N bits |
//! | `bits:A..B` | its bits from A up to but not including B; bit 0 is the lowest |
//! | `hash:N` | the 64-bit XXH3 (seed 0) of its bytes, modulo N |
//! | `ranges:A,B,C` | number of the ascending bounds that are not above it |
//!
//! The hash is the same on every machine, in every version and in columns of every width. Whole numbers
//! are hashed as 64-bit ones and floats as doubles, with -0 as 0 and every NaN as the positive quiet
//! one. Dates, times and decimals are hashed in the column's width. All are little-endian bytes.
//! Booleans are a byte of 0 or 1, text and binary their bytes, dictionaries their values.

use std::fmt;
use std::str::FromStr;

use super::MAX_PARTITIONS;
use crate::Error;

/// Method by which a value of the key column chooses a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionMethod {
    /// The value's bits from `from` up to but not including `to`.
    Bits {
        /// Lowest bit of the range.
        from: u32,
        /// Bit after the highest one of the range.
        to: u32,
    },
    /// The value's hash modulo `partitions`.
    Hash {
        /// Number of partitions.
        partitions: usize,
    },
    /// Index of the value among ascending bounds, each the lowest value of its partition.
    Ranges {
        /// Bounds as text; they are cast to the column's type when that is known.
        bounds: Vec<String>,
    },
}

impl PartitionMethod {
    /// Returns the method of the lowest `bits` bits.
    pub fn low_bits(bits: u32) -> Self {
        Self::Bits { from: 0, to: bits }
    }

    /// Returns the number of partitions for values that are not null.
    pub fn partitions(&self) -> u64 {
        match self {
            Self::Bits { from, to } => 1_u64.checked_shl(to - from).unwrap_or(u64::MAX),
            Self::Hash { partitions } => *partitions as u64,
            Self::Ranges { bounds } => bounds.len() as u64 + 1,
        }
    }

    /// Returns the number of partitions, or an error if it is not between 2 and [`MAX_PARTITIONS`].
    pub(super) fn check(&self) -> Result<usize, Error> {
        let partitions = self.partitions();
        if !(2..=MAX_PARTITIONS as u64).contains(&partitions) {
            return Err(Error::Partitions { partitions });
        }
        Ok(partitions as usize)
    }
}

impl fmt::Display for PartitionMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bits { from: 0, to } => write!(f, "bits:{to}"),
            Self::Bits { from, to } => write!(f, "bits:{from}..{to}"),
            Self::Hash { partitions } => write!(f, "hash:{partitions}"),
            Self::Ranges { bounds } => write!(f, "ranges:{}", bounds.join(",")),
        }
    }
}

impl FromStr for PartitionMethod {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong =
            |reason: &str| Error::Method { text: text.to_owned(), reason: reason.to_owned() };
        let (name, rest) = (text.split_once(':')).ok_or_else(|| wrong("a colon is missing"))?;
        let number = |part: &str| {
            let parsed: Result<u32, _> = part.trim().parse();
            parsed.map_err(|_| wrong(&format!("{part:?} is no number")))
        };
        let method = match name.trim() {
            "bits" => {
                let (from, to) = match rest.split_once("..") {
                    Some((from, to)) => (number(from)?, number(to)?),
                    None => (0, number(rest)?),
                };
                if from >= to {
                    return Err(wrong("it takes no bit"));
                }
                Self::Bits { from, to }
            }
            "hash" => Self::Hash { partitions: number(rest)? as usize },
            "ranges" => {
                let bounds: Vec<String> = rest.split(',').map(|one| one.trim().into()).collect();
                if bounds.iter().any(String::is_empty) {
                    return Err(wrong("a bound is empty"));
                }
                Self::Ranges { bounds }
            }
            _ => return Err(wrong("its name is unknown")),
        };
        method.check()?;
        Ok(method)
    }
}

/// Column and method by which a table is partitioned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionKey {
    /// Name of a column at the top level.
    pub column: String,
    /// Method by which the column's values choose a partition.
    pub method: PartitionMethod,
}

impl PartitionKey {
    /// Parses `method`, such as `bits:2`.
    pub fn parse(column: &str, method: &str) -> Result<Self, Error> {
        Ok(Self { column: column.to_owned(), method: method.parse()? })
    }
}

impl fmt::Display for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.column, self.method)
    }
}
