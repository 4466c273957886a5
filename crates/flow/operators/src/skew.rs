//! Rows and bytes of each partition, which show how evenly a table was partitioned.

/// Size of one partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartitionSize {
    /// Number of rows.
    pub rows: u64,
    /// Number of bytes of their values, offsets and null bits; a dictionary's values are not counted.
    pub bytes: u64,
}

/// Rows and bytes of each partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkewReport {
    /// Sizes of the partitions of keys that are not null, in order.
    pub partitions: Vec<PartitionSize>,
    /// Size of the partition of null keys, which comes after all others.
    pub null_keys: PartitionSize,
}

impl SkewReport {
    pub(super) fn new(partitions: usize) -> Self {
        Self {
            partitions: vec![PartitionSize::default(); partitions],
            null_keys: PartitionSize::default(),
        }
    }

    pub(super) fn add(&mut self, partition: usize, rows: u64, bytes: u64) {
        let size = match self.partitions.get_mut(partition) {
            Some(size) => size,
            None => &mut self.null_keys,
        };
        size.rows += rows;
        size.bytes += bytes;
    }

    /// Returns the number of all rows, including those with null keys.
    pub fn rows(&self) -> u64 {
        let rows: u64 = self.partitions.iter().map(|size| size.rows).sum();
        rows + self.null_keys.rows
    }

    /// Returns the number of bytes of all rows.
    pub fn bytes(&self) -> u64 {
        let bytes: u64 = self.partitions.iter().map(|size| size.bytes).sum();
        bytes + self.null_keys.bytes
    }

    /// Returns the number of rows of the largest partition divided by the mean, without null keys. 1 is
    /// balanced; the number of partitions means that one partition has all rows. Returns 1 without rows.
    pub fn imbalance(&self) -> f64 {
        let rows: u64 = self.partitions.iter().map(|size| size.rows).sum();
        let most = self.partitions.iter().map(|size| size.rows).max();
        match most {
            Some(most) if rows > 0 => most as f64 * self.partitions.len() as f64 / rows as f64,
            _ => 1.0,
        }
    }

    /// Returns the number of partitions without rows. The partition of null keys is not counted.
    pub fn empty_partitions(&self) -> usize {
        (self.partitions.iter()).filter(|size| size.rows == 0).count()
    }
}
