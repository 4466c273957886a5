//! Nodes of the tree, and the node of each row.

use arrow_schema::{DataType, IntervalUnit, SchemaRef};
use serde::{Deserialize, Serialize};

use super::run;
use overside_flow_operators::Error;
use overside_flow_operators::{PartitionKey, PartitionMethod, Partitioner};

/// Bits derived from the id that choose a row's leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TreeKey {
    /// Lowest bits of the id's hash: evenly distributed for ids of any type.
    #[default]
    Hash,
    /// Lowest bits of the id itself.
    Bits,
}

overside_base::words! { TreeKey, "no key is called"; Hash "hash", Bits "bits" }

/// Options with which a tree is created; they never change later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeOptions {
    /// Column with the id of an object.
    pub id: String,
    /// Column with the time.
    pub time: String,
    /// Bits derived from the id that choose a row's leaf.
    pub key: TreeKey,
    /// Number of bits of the key that a level splits by: a node has two to the power of this number of
    /// children.
    pub bits: u32,
    /// Number of levels below the root.
    pub levels: u32,
    /// Number of bytes of values that a node absorbs before it is compacted.
    pub capacity_bytes: u64,
    /// Number of lowest bits of the key by which nodes above this tree, on other machines, have split.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub above: u32,
}

fn is_zero(bits: &u32) -> bool {
    *bits == 0
}

impl TreeOptions {
    /// Default number of bits: two levels of four children each below the root have 16 leaves.
    pub const BITS: u32 = 2;
    /// See [`Self::BITS`].
    pub const LEVELS: u32 = 2;
    /// Default capacity of a node, above which it is split. Splitting and merging take up to four times as
    /// much memory.
    pub const CAPACITY_BYTES: u64 = 64 << 20;
    /// Maximum capacity: compacting a larger node would take gigabytes.
    const CAPACITY_BYTES_MAX: u64 = 4 << 30;
    /// Maximum number of bits of all levels together: there are at most as many leaves as partitions.
    const LEAF_BITS_MAX: u32 = 10;

    /// Returns the default options, with the hash of the id as the key.
    pub fn new(id: &str, time: &str) -> Self {
        Self {
            id: id.into(),
            time: time.into(),
            key: TreeKey::default(),
            bits: Self::BITS,
            levels: Self::LEVELS,
            capacity_bytes: Self::CAPACITY_BYTES,
            above: 0,
        }
    }

    /// Refuses sizes out of range, and columns that cannot have these roles.
    ///
    /// # Errors
    /// [`Error`].
    pub fn check(&self, schema: &SchemaRef) -> Result<(), Error> {
        self.check_sizes()?;
        let time = schema.field(overside_flow_operators::column(schema, &self.time)?);
        let kind = time.data_type();
        let is_text = matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        if !kind.is_temporal() && !kind.is_numeric() && !is_text {
            return Err(Error::ColumnType {
                name: self.time.clone(),
                kind: kind.to_string(),
                role: "the time",
            });
        }
        let is_lost = |kind: &DataType| match kind {
            DataType::Interval(unit) => *unit != IntervalUnit::MonthDayNano,
            kind => matches!(kind, DataType::RunEndEncoded(..)),
        };
        if let Some(name) = overside_flow_operators::column_of(schema, is_lost) {
            return Err(Error::Refused(format!(
                "column {name:?} has runs, or intervals without months or days, which leaves in Parquet do not give \
                 back; leave it out, or write another type"
            )));
        }
        // Columns that leaves cannot store are refused before anything is absorbed.
        run::options(true).storage(schema)?;
        for level in 0..self.levels {
            Partitioner::new(schema.clone(), &self.split(level), Default::default())?;
        }
        Ok(())
    }

    /// Checks what can be checked without a schema.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn check_sizes(&self) -> Result<(), Error> {
        let bits = self.bits.checked_mul(self.levels);
        let bits = bits.map(|bits| (bits, bits.saturating_add(self.above)));
        let wrong = |reason: String| Err(Error::Refused(reason));
        match bits {
            None | Some((0, _)) => {
                wrong("a tree has at least one level of at least one bit".into())
            }
            Some((_, bits)) if bits > Self::LEAF_BITS_MAX => wrong(format!(
                "{} levels of {} bits{} make too many leaves: {} bits of all levels are possible",
                self.levels,
                self.bits,
                match self.above {
                    0 => String::new(),
                    above => format!(" below {above}"),
                },
                Self::LEAF_BITS_MAX
            )),
            _ if !(1..=Self::CAPACITY_BYTES_MAX).contains(&self.capacity_bytes) => wrong(format!(
                "a capacity of {} bytes: between 1 B and {} GiB are possible",
                self.capacity_bytes,
                Self::CAPACITY_BYTES_MAX >> 30
            )),
            _ => Ok(()),
        }
    }

    /// Returns the partition key by which a node of that level splits its rows.
    fn split(&self, level: u32) -> PartitionKey {
        self.partition_key(level * self.bits, (level + 1) * self.bits)
    }

    /// Returns the partition key of the bits from `from` to `to` of this tree's.
    fn partition_key(&self, from: u32, to: u32) -> PartitionKey {
        let (from, to) = (self.above + from, self.above + to);
        let method = match self.key {
            TreeKey::Bits => PartitionMethod::Bits { from, to },
            // Rows of one node agree in the bits before.
            TreeKey::Hash => PartitionMethod::Hash { partitions: 1 << to },
        };
        PartitionKey { column: self.id.clone(), method }
    }

    /// Returns the number of leaves for ids that are not null.
    pub(super) fn leaves(&self) -> u32 {
        1 << (self.levels * self.bits)
    }

    /// Returns the leaf of rows without an id.
    fn null_leaf(&self) -> Node {
        Node { level: self.levels, index: self.leaves() }
    }

    /// Returns `true` if the node belongs to this tree.
    pub(super) fn has(&self, node: Node) -> bool {
        let in_level = node.level <= self.levels && node.index < 1 << (node.level * self.bits);
        in_level || node == self.null_leaf()
    }

    /// Returns `true` if the node has no children.
    pub(super) fn is_leaf(&self, node: Node) -> bool {
        node.level == self.levels
    }

    /// Returns the key by which a node splits its rows, and a function from the partition to the
    /// child.
    pub(super) fn children(&self, node: Node) -> (PartitionKey, impl Fn(usize) -> Node + use<>) {
        let key = self.split(node.level);
        let (null, null_leaf) = (key.method.partitions() as usize, self.null_leaf());
        let (kind, shift, above) = (self.key, node.level * self.bits, self.above);
        let child = move |partition: usize| match partition {
            partition if partition == null => null_leaf,
            partition => Node {
                level: node.level + 1,
                index: match kind {
                    TreeKey::Bits => node.index | (partition as u32) << shift,
                    TreeKey::Hash => partition as u32 >> above,
                },
            },
        };
        (key, child)
    }

    /// Returns the leaf of a partition by [`Self::leaf_key`].
    pub(super) fn leaf(&self, partition: u32) -> u32 {
        match self.key {
            TreeKey::Bits => partition,
            TreeKey::Hash => partition >> self.above,
        }
    }

    /// Returns the partition key whose partitions give the leaf of an id, by [`Self::leaf`].
    pub(super) fn leaf_key(&self) -> PartitionKey {
        self.partition_key(0, self.levels * self.bits)
    }

    /// Returns `true` if rows of the leaf may be in the node, because the node is that leaf or is
    /// above it.
    pub(super) fn is_above(&self, node: Node, leaf: u32) -> bool {
        match self.is_leaf(node) {
            true => node.index == leaf,
            false => node.index == leaf & ((1 << (node.level * self.bits)) - 1),
        }
    }
}

/// Node: its level (0 for the root), and the bits of the key that lead to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    pub level: u32,
    pub index: u32,
}

impl Node {
    pub(super) const ROOT: Self = Self { level: 0, index: 0 };
}
