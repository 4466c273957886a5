//! Tree of an output in a definition.

use std::collections::HashSet;
use std::path::Path;

use arrow_schema::SchemaRef;
use overside_config::{ByteSize, Error as ConfigError};
use serde::Deserialize;

use crate::Error;
use overside_flow_tree::{MEMORY_CAPACITIES, TreeKey, TreeOptions, TreeWriter};

/// Tree of an output. Settings that are absent are those of the existing tree, or the defaults.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeDefinition {
    /// Column with the id of an object.
    pub id: String,
    /// Column with the time.
    pub time: String,
    /// Bits of the key: `hash` or `bits`.
    key: Option<TreeKey>,
    /// Number of bits that a level splits by.
    bits: Option<u32>,
    /// Number of levels below the root.
    levels: Option<u32>,
    /// Number of bytes of values that a node absorbs before it is split.
    capacity: Option<ByteSize>,
    /// Number of lowest bits of the key by which nodes above this tree, on other machines, split.
    above: Option<u32>,
    /// Services with trees that are the next nodes, two or another power of two: rows are passed to them
    /// instead of to children of this tree.
    #[serde(default)]
    pub next: Vec<String>,
}

const NEXT: std::ops::RangeInclusive<usize> = 2..=1024;

impl TreeDefinition {
    /// Returns the options of the tree in this directory, or of a new one, with the settings of
    /// this definition.
    ///
    /// # Errors
    /// [`Error`]: the existing tree is damaged.
    pub(crate) fn options(&self, directory: &Path) -> Result<TreeOptions, Error> {
        let found = TreeWriter::options(directory)?;
        let found = found.unwrap_or_else(|| TreeOptions::new(&self.id, &self.time));
        let (usual, capacity) = (TreeOptions::new("", "").capacity_bytes, found.capacity_bytes);
        match self.capacity.is_none() && capacity > usual {
            true => Err(Error::Refused(format!(
                "{}: the tree has a capacity of {capacity} bytes: name it as `capacity`, so that `memory` counts it",
                directory.display()
            ))),
            false => Ok(self.asked(found)),
        }
    }

    /// Applies the settings of this definition to `options`.
    fn asked(&self, options: TreeOptions) -> TreeOptions {
        let (bits, levels) = match self.next.len() {
            0 => (self.bits, self.levels),
            count => (Some(count.ilog2()), Some(1)),
        };
        TreeOptions {
            id: self.id.clone(),
            time: self.time.clone(),
            key: self.key.unwrap_or(options.key),
            bits: bits.unwrap_or(options.bits),
            levels: levels.unwrap_or(options.levels),
            capacity_bytes: self.capacity.map_or(options.capacity_bytes, |bytes| bytes.0),
            above: self.above.unwrap_or(options.above),
        }
    }

    /// Returns the maximum number of bytes that a tree of this capacity, or of the default one, uses.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let capacity = self.asked(TreeOptions::new("", "")).capacity_bytes;
        capacity.saturating_mul(MEMORY_CAPACITIES)
    }

    /// Refuses sizes out of range.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let count = self.next.len();
        if count > 0 && !(NEXT.contains(&count) && count.is_power_of_two()) {
            let problem = format!("{count} next nodes");
            let remedy = "2, 4, 8 or another power of two, up to 1024";
            return Err(ConfigError::of_key("tree.next", problem, remedy));
        }
        if count > 0 && (self.bits.is_some() || self.levels.is_some()) {
            let problem = "the next nodes say how it is split";
            return Err(ConfigError::of_key("tree.next", problem, "leave out bits and levels"));
        }
        let is_address =
            |text: &String| text.starts_with("grpc://") || text.starts_with("grpc+tls://");
        if let Some(wrong) = self.next.iter().find(|text| !is_address(text)) {
            let problem = format!("{wrong:?} is no address of a service");
            let remedy = "write it as grpc://HOST:PORT/PATH";
            return Err(ConfigError::of_key("tree.next", problem, remedy));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = self.next.iter().find(|address| !seen.insert(*address)) {
            let problem = format!("{twice:?} is there twice");
            let remedy = "a tree for each: one service can have several outputs";
            return Err(ConfigError::of_key("tree.next", problem, remedy));
        }
        let checked = self.asked(TreeOptions::new("", "")).check_sizes();
        checked.map_err(|error| {
            let remedy = "bits times levels from 1 to 10, and a capacity of at most 4 GiB";
            ConfigError::of_key("tree", error.to_string(), remedy)
        })
    }

    /// Returns `true` if the tree's rows go to next nodes on other machines.
    pub fn passes(&self) -> bool {
        !self.next.is_empty()
    }

    /// Refuses columns that cannot have these roles.
    pub(crate) fn check_columns(&self, schema: &SchemaRef) -> Result<(), Error> {
        self.asked(TreeOptions::new("", "")).check(schema)
    }
}
