//! The published method of partitioning, for comparison: it filters the whole table once for each output, so
//! everything is read as often as there are outputs.

use arrow_array::{BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use overside_tables::check_schema;

use super::assign::Assigner;
use super::key::PartitionKey;
use crate::Error;

/// Returns the batches of each partition, that of null keys last, with one filter for each.
pub fn partition_by_filters<'a>(
    schema: &SchemaRef,
    batches: impl IntoIterator<Item = &'a RecordBatch> + Clone,
    key: &PartitionKey,
) -> Result<Vec<Vec<RecordBatch>>, Error> {
    let mut assigner = Assigner::new(schema, key)?;
    let (mut ids, mut tables) = (Vec::new(), Vec::new());
    for partition in 0..=assigner.partitions() {
        let mut table = Vec::new();
        for batch in batches.clone() {
            check_schema(schema, batch.schema_ref())?;
            assigner.assign(batch.column(assigner.column()), &mut ids);
            let is_chosen = |row| usize::from(ids[row]) == partition;
            let chosen = BooleanBuffer::collect_bool(ids.len(), is_chosen);
            let rows = filter_record_batch(batch, &BooleanArray::new(chosen, None))?;
            if rows.num_rows() > 0 {
                table.push(rows);
            }
        }
        tables.push(table);
    }
    Ok(tables)
}

/// Returns the partition of each row. Rows with a null key are in the partition after all others.
pub fn partitions_of_rows(batch: &RecordBatch, key: &PartitionKey) -> Result<Vec<u16>, Error> {
    let mut assigner = Assigner::new(batch.schema_ref(), key)?;
    let mut ids = Vec::new();
    assigner.assign(batch.column(assigner.column()), &mut ids);
    Ok(ids)
}
