//! Union of several trees, for example of several machines that each have the tracks of some objects.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::concurrency::at_once;
use super::reader::TreeReader;
use super::run;
use super::source::{Gathered, TrackQuery, TrackSource};
use overside_flow_operators::Error;
use overside_tables::check_schema;
use overside_tables::pack::CodecPool;

/// Maximum number of trees that are queried at a time.
pub const TREES_AT_ONCE: usize = 16;

/// Trees with the same columns that are read as one.
pub struct TreeUnion {
    trees: Vec<Box<dyn TrackSource>>,
}

impl TreeUnion {
    /// Opens trees in directories.
    ///
    /// # Errors
    /// [`Error`]: a directory has no tree, or a damaged one; and those of [`TreeUnion::of`].
    pub fn open<P: AsRef<Path>>(directories: &[P], pool: &Arc<CodecPool>) -> Result<Self, Error> {
        let trees = directories.iter().map(|directory| {
            let tree = TreeReader::open(directory.as_ref(), pool)?;
            Ok(Box::new(tree) as Box<dyn TrackSource>)
        });
        Self::of(trees.collect::<Result<_, Error>>()?)
    }

    /// Combines trees of any location. They may be split in different ways.
    ///
    /// # Errors
    /// [`Error::Refused`]: their columns, ids or times differ, or there are no trees.
    pub fn of(trees: Vec<Box<dyn TrackSource>>) -> Result<Self, Error> {
        let Some(first) = trees.first() else {
            return Err(Error::Refused("no tree".into()));
        };
        for tree in &trees {
            let differs = |what: &str| {
                Error::Refused(format!(
                    "{}: the tree has {what} than the first one; ask for them one by one",
                    tree.name()
                ))
            };
            check_schema(first.schema(), tree.schema()).map_err(|_| differs("other columns"))?;
            if first.roles() != tree.roles() {
                return Err(differs("another id or time"));
            }
        }
        Ok(Self { trees })
    }

    /// Returns the schema.
    pub fn schema(&self) -> &SchemaRef {
        self.trees[0].schema()
    }

    /// Returns the matching rows of all trees by id and time; nothing if there are none. Several trees are
    /// queried at a time; `threads` threads read the files of each.
    ///
    /// # Errors
    /// Those of [`TreeReader::query`].
    pub fn query(&mut self, query: &TrackQuery, threads: usize) -> Result<Vec<RecordBatch>, Error> {
        let gathered = Gathered::new(query.bytes_max);
        let ask = |tree: &mut Box<dyn TrackSource>| tree.query(query, &gathered, threads);
        let found = at_once(&mut self.trees, TREES_AT_ONCE, ask)?;
        let with_rows = found.iter().filter(|rows| !rows.is_empty()).count();
        let found: Vec<RecordBatch> = found.into_iter().flatten().collect();
        if with_rows < 2 {
            return Ok(found);
        }
        let (id, time) = self.trees[0].roles();
        Ok(vec![run::sorted(&found, id, time)?])
    }
}
