//! Searches tracks in all levels.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ord::sort::sort;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat;
use overside_tables::pack::CodecPool;
use overside_tables::{Between, check_schema};

use super::concurrency::at_once;
use super::layout::{Node, TreeOptions};
use super::manifest::{Manifest, NodeSize};
use super::run;
use super::source::{Gathered, TrackQuery, TrackSource};
use super::writer::SCHEMA_FILE;
use overside_flow_files::ReadOptions;
use overside_flow_operators::Error;
use overside_flow_operators::{Filter, literal, partitions_of_rows, value_type, values_bytes};

/// Maximum number of ids of one query.
const IDS_MAX: usize = 100;
/// Maximum number of attempts. A file may have been merged and removed since the manifest was read; then a
/// newer manifest is read.
const TRIES: usize = 100;

/// Reader of a tree in the state of the last commit before the opening.
pub struct TreeReader {
    directory: PathBuf,
    manifest: Manifest,
    schema: SchemaRef,
    pool: Arc<CodecPool>,
}

/// Query for a tree's columns.
struct Search {
    filter: Option<Filter>,
    /// Leaves that the ids belong to; `None` for all.
    leaves: Option<Vec<u32>>,
    /// Bounds of the rows that must be read.
    bounds: Vec<Between>,
}

impl TreeReader {
    /// Opens a tree.
    ///
    /// # Errors
    /// [`Error`]: there is no tree, or it is damaged.
    pub fn open(directory: &Path, pool: &Arc<CodecPool>) -> Result<Self, Error> {
        let manifest = Manifest::read(directory)?;
        let path = directory.join(SCHEMA_FILE);
        let reader = run::open(&path, &ReadOptions::default(), pool)
            .map_err(|error| Error::file(&path, error))?;
        Ok(Self {
            directory: directory.into(),
            manifest,
            schema: reader.schema().clone(),
            pool: Arc::clone(pool),
        })
    }

    /// Returns the directory of the tree.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the options that the tree was created with.
    pub fn options(&self) -> &TreeOptions {
        &self.manifest.options
    }

    /// Returns the schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns, while rows are being passed to other trees, the root's children that have received all rows
    /// of this tree. Rows of other children may be both here and there. `None` if no rows are being passed.
    pub fn passed(&self) -> Option<&[u32]> {
        self.manifest.passed.as_deref()
    }

    /// Returns the tree without its rows, for use beside trees that have them.
    #[must_use]
    pub fn without_rows(mut self) -> Self {
        self.manifest.runs.clear();
        self
    }

    /// Returns the leaves that may have matching rows, or the root's children in a tree of one level;
    /// `None` for all.
    ///
    /// # Errors
    /// [`Error`]: an id or a time cannot be parsed.
    pub fn leaves_of(&self, query: &TrackQuery) -> Result<Option<Vec<u32>>, Error> {
        Ok(Search::new(query, &self.schema, &self.manifest.options)?.leaves)
    }

    /// Returns the size of each level, the root's first.
    pub fn levels(&self) -> Vec<NodeSize> {
        self.manifest.levels()
    }

    /// Returns how many times each byte has been written on average, in all levels together, since the tree
    /// was created.
    pub fn write_amplification(&self) -> f64 {
        let absorbed = self.manifest.absorbed_bytes.max(1);
        self.manifest.written_bytes as f64 / absorbed as f64
    }

    /// Returns the matching rows by id and time; nothing if there are none. `threads` threads read files.
    ///
    /// # Errors
    /// [`Error`]: an id or a time cannot be parsed, there are too many rows, or a file is damaged.
    pub fn query(&mut self, query: &TrackQuery, threads: usize) -> Result<Vec<RecordBatch>, Error> {
        self.gather(query, &Gathered::new(query.bytes_max), threads)
    }

    fn gather(
        &mut self,
        query: &TrackQuery,
        gathered: &Gathered,
        threads: usize,
    ) -> Result<Vec<RecordBatch>, Error> {
        for _ in 1..TRIES {
            match self.rows(query, gathered, threads) {
                Err(error) if error.io_kind() == Some(ErrorKind::NotFound) => {
                    let newer = Manifest::read(&self.directory)?;
                    if newer.runs == self.manifest.runs {
                        return Err(error);
                    }
                    self.manifest = newer;
                }
                done => return done,
            }
        }
        self.rows(query, gathered, threads)
    }

    fn rows(
        &self,
        query: &TrackQuery,
        gathered: &Gathered,
        threads: usize,
    ) -> Result<Vec<RecordBatch>, Error> {
        let options = &self.manifest.options;
        let search = Search::new(query, &self.schema, options)?;
        let files: Vec<PathBuf> = (self.manifest.runs.iter())
            .filter(|run| search.may_be_in(run.node, options))
            .map(|run| self.manifest.file(&self.directory, run))
            .collect();
        let bytes = AtomicU64::new(0);
        let add = |rows: &RecordBatch| {
            bytes.fetch_add(values_bytes(rows) as u64, Ordering::Relaxed);
            gathered.add(rows)
        };
        let read = |path: &PathBuf| {
            let found = self.read(path, &search, &add);
            found.map_err(|error| Error::file(path, error))
        };
        let found = at_once(&files, threads, read);
        let found = found.inspect_err(|_| gathered.forget(bytes.load(Ordering::Relaxed)))?;
        let batches: Vec<RecordBatch> = found.into_iter().flatten().collect();
        match batches.is_empty() {
            true => Ok(Vec::new()),
            false => Ok(vec![run::sorted(&batches, &options.id, &options.time)?]),
        }
    }

    /// Reads the rows of a file that match the search.
    fn read(
        &self,
        path: &Path,
        search: &Search,
        add: &impl Fn(&RecordBatch) -> Result<(), Error>,
    ) -> Result<Vec<RecordBatch>, Error> {
        let read = ReadOptions {
            bounds: search.bounds.clone(),
            written: Some(SchemaRef::clone(&self.schema)),
            ..ReadOptions::default()
        };
        let mut found = Vec::new();
        for batch in run::open(path, &read, &self.pool)? {
            let batch = batch?;
            check_schema(&self.schema, batch.schema_ref())?;
            let rows = match &search.filter {
                Some(filter) => filter.apply(&batch)?,
                None => batch,
            };
            if rows.num_rows() > 0 {
                add(&rows)?;
                found.push(rows);
            }
        }
        Ok(found)
    }
}

impl TrackSource for TreeReader {
    fn name(&self) -> String {
        self.directory().display().to_string()
    }

    fn schema(&self) -> &SchemaRef {
        Self::schema(self)
    }

    fn roles(&self) -> (&str, &str) {
        let options = self.options();
        (&options.id, &options.time)
    }

    fn query(
        &mut self,
        query: &TrackQuery,
        gathered: &Gathered,
        threads: usize,
    ) -> Result<Vec<RecordBatch>, Error> {
        self.gather(query, gathered, threads)
    }
}

impl Search {
    fn new(query: &TrackQuery, schema: &SchemaRef, options: &TreeOptions) -> Result<Self, Error> {
        if query.ids.len() > IDS_MAX {
            let count = query.ids.len();
            let reason = format!("{count} ids: a query has at most {IDS_MAX}");
            return Err(Error::Refused(reason));
        }
        let mut search = Self { filter: None, leaves: None, bounds: Vec::new() };
        let mut conditions = Vec::new();
        if !query.ids.is_empty() {
            let column = overside_flow_operators::column(schema, &options.id)?;
            let kind = value_type(schema.field(column).data_type());
            let id = |text: &String| {
                literal(text, kind).map_err(|_| no_value(text, "id", &options.id, kind))
            };
            let ids: Vec<ArrayRef> = query.ids.iter().map(id).collect::<Result<_, Error>>()?;
            let ids: Vec<&dyn Array> = ids.iter().map(AsRef::as_ref).collect();
            let ids = concat(&ids)?;
            let only_ids = Schema::new(vec![Field::new(&options.id, kind.clone(), true)]);
            let batch = RecordBatch::try_new(Arc::new(only_ids), vec![Arc::clone(&ids)])?;
            let leaves = partitions_of_rows(&batch, &options.leaf_key())?;
            let leaves = leaves.into_iter().map(u32::from);
            search.leaves = Some(leaves.map(|leaf| options.leaf(leaf)).collect());
            let ascending = sort(&ids, None)?;
            search.bounds.push(Between {
                column,
                least: Some(ascending.slice(0, 1)),
                most: Some(ascending.slice(ascending.len() - 1, 1)),
            });
            let list: Vec<String> = query.ids.iter().map(|id| quoted(id, '\'')).collect();
            let list = list.join(", ");
            conditions.push(format!("{} IN ({list})", quoted(&options.id, '"')));
        }
        let column = overside_flow_operators::column(schema, &options.time)?;
        let kind = value_type(schema.field(column).data_type());
        let mut sides = [None, None];
        let asked = [(">=", &query.from), ("<", &query.to)];
        for ((comparison, text), side) in asked.into_iter().zip(&mut sides) {
            if let Some(text) = text {
                let (value, text) = time(text, kind, &options.time)?;
                *side = Some(value);
                let (column, text) = (quoted(&options.time, '"'), quoted(&text, '\''));
                conditions.push(format!("{column} {comparison} {text}"));
            }
        }
        let [least, most] = sides;
        search.bounds.push(Between { column, least, most });
        if !conditions.is_empty() {
            let text = conditions.join(" AND ");
            search.filter = Some(Filter::new(SchemaRef::clone(schema), &text)?);
        }
        Ok(search)
    }

    fn may_be_in(&self, node: Node, options: &TreeOptions) -> bool {
        let is_above = |leaf: &u32| options.is_above(node, *leaf);
        (self.leaves.as_ref()).is_none_or(|leaves| leaves.iter().any(is_above))
    }
}

/// Parses a time, whose seconds are optional. Returns it with its full text.
fn time(text: &str, kind: &DataType, column: &str) -> Result<(ArrayRef, String), Error> {
    let written = [text.to_owned(), format!("{text}:00")];
    let value = |text: String| Some((literal(&text, kind).ok()?, text));
    (written.into_iter().find_map(value)).ok_or_else(|| no_value(text, "time", column, kind))
}

fn no_value(text: &str, role: &str, column: &str, kind: &DataType) -> Error {
    let remedy = match kind.is_temporal() {
        true => "; write it as 2018-08-01 or 2018-08-01T12:00:00",
        false => "",
    };
    Error::Refused(format!("{text:?} is no {role}: column {column:?} holds {kind}{remedy}"))
}

/// Quotes text as SQL does: names with `"`, strings with `'`. A mark within the text is doubled.
fn quoted(text: &str, mark: char) -> String {
    let doubled = text.replace(mark, &format!("{mark}{mark}"));
    format!("{mark}{doubled}{mark}")
}
