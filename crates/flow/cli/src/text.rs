//! Report of partitioning, as text for people and as JSON for programs.

use overside_command::{columns::columns, line};
use overside_config::units;
use overside_flow::operators::{PartitionKey, SkewReport};
use overside_flow::pack::{StageTime, StageTimes};
use serde_json::{Value, json};

/// Result of partitioning a table: statistics, times, and the files that were written.
pub(super) struct Summary {
    pub key: PartitionKey,
    pub skew: SkewReport,
    pub times: StageTimes,
    /// Time for sorting; `None` if no rows were sorted.
    pub sort: Option<StageTime>,
    /// File and its length, for each partition.
    pub files: Vec<(usize, String, u64)>,
}

/// Up to how many partitions each has a line; of more, only the largest and the smallest are named.
const LISTED_MAX: usize = 32;

/// Returns the result for people: the answer first.
pub(super) fn table(summary: &Summary) -> String {
    let skew = &summary.skew;
    let mut text = String::new();
    let count = skew.partitions.len();
    line!(
        text,
        "{} rows in {count} partitions ({}); the largest has {:.2} times the mean",
        units::count(skew.rows()),
        summary.key,
        skew.imbalance()
    );
    if skew.empty_partitions() > 0 {
        line!(text, "empty partitions: {} of {count}", skew.empty_partitions());
    }
    if skew.null_keys.rows > 0 {
        line!(text, "rows without a key: {}", units::count(skew.null_keys.rows));
    }
    if summary.files.len() <= LISTED_MAX {
        let head = ["partition", "rows", "size", "file"];
        let rows = summary.files.iter().map(|(partition, name, bytes)| {
            let rows = (skew.partitions.get(*partition)).unwrap_or(&skew.null_keys).rows;
            let partition = match *partition < count {
                true => partition.to_string(),
                false => "null".into(),
            };
            [partition, units::count(rows), units::size(*bytes as f64), name.clone()]
        });
        text += &columns(head, rows);
    }
    let stages = [
        Some(("unpack", &summary.times.unpack)),
        Some(("partition", &summary.times.partition)),
        summary.sort.as_ref().map(|sort| ("sort", sort)),
        Some(("repack", &summary.times.repack)),
    ];
    let head = ["stage", "time", "CPU time", "in", "out"];
    let rows = stages.into_iter().flatten().map(|(name, time)| {
        [
            name.into(),
            units::duration(time.wall_ns as f64 / 1e9),
            units::duration(time.cpu_ns as f64 / 1e9),
            units::size(time.bytes_in as f64),
            units::size(time.bytes_out as f64),
        ]
    });
    text += &columns(head, rows);
    text
}

/// Returns the result for programs.
pub(super) fn json(summary: &Summary) -> Value {
    let skew = &summary.skew;
    let files = summary.files.iter().map(|(partition, name, bytes)| {
        let size = skew.partitions.get(*partition).unwrap_or(&skew.null_keys);
        json!({
            "partition": (*partition < skew.partitions.len()).then_some(partition),
            "rows": size.rows,
            "values_bytes": size.bytes,
            "file": name,
            "file_bytes": bytes,
        })
    });
    let mut value = json!({
        "schema": "flow-partition/1",
        "key": summary.key.column,
        "method": summary.key.method.to_string(),
        "partitions": skew.partitions.len(),
        "rows": skew.rows(),
        "null_keys": skew.null_keys.rows,
        "empty_partitions": skew.empty_partitions(),
        "imbalance": skew.imbalance(),
        "files": files.collect::<Vec<_>>(),
        "unpack": summary.times.unpack,
        "partition": summary.times.partition,
        "repack": summary.times.repack,
    });
    if let Some(sort) = &summary.sort {
        value["sort"] = json!(sort);
    }
    value
}
