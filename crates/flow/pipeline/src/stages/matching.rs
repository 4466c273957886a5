//! `match`: keeps the rows, or the lines within values, that match a pattern.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use overside_config::{Error as ConfigError, Source, read_text};
use overside_device::{ExternalBytes, Operation};
use overside_match::{Answer, Options, Search, SelectedRecord, Sink, values_are_text};
use overside_ops::MatchKind;
use overside_placement::Report;
use serde::{Deserialize, Serialize};

use super::values::{BytesColumn, NewValues, value};
use crate::Error;
use crate::stage::{CompiledStage, PartitionedBatch, Resources, StageFunction, StageKind};

/// Column and patterns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Match {
    column: String,
    /// Regular expressions, at least one of which must match.
    #[serde(default)]
    patterns: Vec<String>,
    /// File with further patterns, one per line.
    pattern_file: Option<PathBuf>,
    /// `true` to match letters in both cases.
    #[serde(default)]
    ignore_case: bool,
    /// `true` to keep the rows or lines that do not match.
    #[serde(default)]
    invert: bool,
    /// Unit that is kept or dropped: rows or lines.
    #[serde(default)]
    per: Unit,
}

/// Unit that is kept or dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unit {
    /// A row, by its value.
    #[default]
    Row,
    /// A line of a value; a row whose value has no line left is dropped.
    Line,
}

const PATTERNS_MAX: usize = 10_000;
const PATTERN_FILE_BYTES_MAX: u64 = 1 << 20;

impl StageKind for Match {
    fn check(&mut self, directory: &Path) -> Result<(), ConfigError> {
        if let Some(file) = self.pattern_file.take() {
            let path = directory.join(file);
            let text = read_text(&path, PATTERN_FILE_BYTES_MAX, Source::Regular)
                .map_err(|error| ConfigError::of_key("pattern_file", error.to_string(), ""))?;
            self.patterns.extend(text.lines().map(str::to_owned));
        }
        if !(1..=PATTERNS_MAX).contains(&self.patterns.len()) {
            let problem = format!("{} patterns", self.patterns.len());
            let remedy = format!("1 to {PATTERNS_MAX}, here or in pattern_file");
            return Err(ConfigError::of_key("patterns", problem, remedy));
        }
        let search = Search::new(self.options(&Resources::default()));
        let search = search.map(|_| ());
        search.map_err(|error| ConfigError::of_key("patterns", error.to_string(), ""))
    }

    fn takes_device(&self) -> bool {
        true
    }

    fn compile(&self, schema: &SchemaRef, resources: &Resources) -> Result<CompiledStage, Error> {
        let options = self.options(resources);
        let index = crate::column(schema, &self.column)?;
        let kind = schema.field(index).data_type();
        if !values_are_text(kind) {
            return Err(Error::ColumnType {
                name: self.column.clone(),
                kind: kind.to_string(),
                role: "searched",
            });
        }
        let (schema, lines) = match self.per {
            Unit::Row => (Arc::clone(schema), None),
            Unit::Line => {
                let column = BytesColumn::new(schema, &self.column, None, "searched by line")?;
                (Arc::clone(&column.schema), Some(Arc::new(column)))
            }
        };
        let make = move || {
            let search = Search::new(options.clone())?;
            Ok(match &lines {
                None => Box::new(Rows { index, search }) as Box<dyn StageFunction>,
                Some(column) => Box::new(Lines { column: Arc::clone(column), search }),
            })
        };
        Ok(CompiledStage { schema, make: Box::new(make) })
    }
}

impl Match {
    fn options(&self, resources: &Resources) -> Options {
        let mut options = Options::new(self.patterns.iter().cloned());
        options.ignore_case = self.ignore_case;
        options.invert = self.invert;
        options.answer = Answer::Records;
        if let Some((devices, policy)) = &resources.devices {
            options.devices.clone_from(devices);
            options.policy = *policy;
        }
        options
    }
}

/// Function that keeps rows.
struct Rows {
    index: usize,
    search: Search,
}

impl StageFunction for Rows {
    fn apply(&mut self, batch: &RecordBatch) -> Result<Vec<PartitionedBatch>, Error> {
        let column = batch.column(self.index);
        let mask = self.search.mask(column)?;
        Ok(vec![PartitionedBatch::new(filter_record_batch(batch, &mask)?)])
    }

    fn reports(&self) -> Vec<(Operation, Report)> {
        reports(&self.search)
    }
}

/// Function that keeps lines within values, each with its line end.
struct Lines {
    column: Arc<BytesColumn>,
    search: Search,
}

/// Ranges of the selected lines within the text that was searched.
struct Selected(Vec<Range<usize>>);

impl Sink for Selected {
    fn found(&mut self, found: SelectedRecord<'_>) -> io::Result<bool> {
        if let (Some(offset), Some(line)) = (found.offset, found.value) {
            let begin = offset as usize;
            self.0.push(begin..begin + line.len());
        }
        Ok(true)
    }
}

impl StageFunction for Lines {
    fn apply(&mut self, batch: &RecordBatch) -> Result<Vec<PartitionedBatch>, Error> {
        let array = batch.column(self.column.index);
        let (text, ends) = joined(array);
        let mut selected = Selected(Vec::new());
        let text = Arc::new(text);
        self.search.memory(ExternalBytes::new(JoinedText(Arc::clone(&text))), &mut selected)?;
        let mut lines = selected.0.into_iter().peekable();
        let mut values = NewValues::with_capacity(array.len(), 0);
        let mut kept = Vec::with_capacity(array.len());
        for end in ends {
            let mut has_line = false;
            while let Some(line) = lines.next_if(|line| line.start < end) {
                has_line = true;
                values.bytes.extend_from_slice(&text[line]);
                values.bytes.push(b'\n');
            }
            kept.push(has_line);
            values.end_value();
        }
        let batch = self.column.replaced(batch, values)?;
        let kept = BooleanArray::new(BooleanBuffer::from(kept), None);
        Ok(vec![PartitionedBatch::new(filter_record_batch(&batch, &kept)?)])
    }

    fn reports(&self) -> Vec<(Operation, Report)> {
        reports(&self.search)
    }
}

struct JoinedText(Arc<Vec<u8>>);

impl AsRef<[u8]> for JoinedText {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Returns the values as lines of one text, and the offset at which each value ends.
fn joined(array: &dyn Array) -> (Vec<u8>, Vec<usize>) {
    let values = || (0..array.len()).map(|row| value(array, row).unwrap_or_default());
    let total: usize = values().map(<[u8]>::len).sum();
    let mut text = Vec::with_capacity(total + array.len());
    let ends = values().map(|value| {
        text.extend_from_slice(value);
        if !value.is_empty() && !value.ends_with(b"\n") {
            text.push(b'\n');
        }
        text.len()
    });
    let ends = ends.collect();
    (text, ends)
}

fn reports(search: &Search) -> Vec<(Operation, Report)> {
    let operation = Operation::Match(MatchKind::Bitmap);
    search.report().map(|report| (operation, report)).into_iter().collect()
}
