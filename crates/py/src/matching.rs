//! The function `match`.

use std::io;

use arrow_array::BooleanArray;
use overside_compress::{MAX_CHUNK_BYTES, MIN_CHUNK_BYTES};
use overside_device::ExternalBytes;
use overside_match::{Answer, Error, Input, Options, Search, SearchSummary, SelectedRecord, Sink};
use overside_placement::Report;
use overside_tables::Error as TableError;
use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arguments::PlacementArgs;
use crate::arrow::{self, Column};
use crate::lending::Numbers;
use crate::memory::{BorrowedBuffer, Immutable, Reader};
use crate::output::{Signals, applied_of, value};
use crate::{errors, guarded, refused};

/// Text that is worth a thread, in bytes.
const BYTES_A_THREAD: usize = 1 << 20;
/// Records after which it is looked for signals.
const RECORDS_PER_CHECK: usize = 4096;

/// One pattern, or several.
#[derive(FromPyObject)]
pub(crate) enum Patterns {
    One(String),
    Several(Vec<String>),
}

#[doc = stub!("match")]
#[pyfunction]
#[pyo3(name = "match", signature = (data, patterns, *, column=None, answer="records", ignore_case=false, invert=false, engine="auto", placement=None, device=None, threads=None, verify=None, chunk=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn find(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    patterns: Patterns,
    column: Option<&str>,
    answer: &str,
    ignore_case: bool,
    invert: bool,
    engine: &str,
    placement: Option<&str>,
    device: Option<&str>,
    threads: Option<usize>,
    verify: Option<&str>,
    chunk: Option<usize>,
) -> PyResult<Matches> {
    guarded(|| {
        let mut options = Options::new(match patterns {
            Patterns::One(pattern) => vec![pattern],
            Patterns::Several(patterns) => patterns,
        });
        options.answer = answer_of(answer)?;
        options.ignore_case = ignore_case;
        options.invert = invert;
        options.numbers = options.answer == Answer::Records;
        options.engine = engine.into();
        if let Some(chunk) = chunk {
            if !(MIN_CHUNK_BYTES..=MAX_CHUNK_BYTES).contains(&chunk) {
                return Err(refused(format!(
                    "a chunk has {MIN_CHUNK_BYTES} to {MAX_CHUNK_BYTES} bytes, not {chunk}"
                )));
            }
            options.chunk_bytes = chunk;
        }
        let data = Data::of(data, column)?;
        let mut targets = PlacementArgs::new(py, placement, device, threads, verify)?;
        if let Data::Text(text) = &data {
            targets = targets.for_bytes(text.len(), BYTES_A_THREAD);
        }
        options.policy = targets.policy;
        options.devices = targets.devices;
        options.threads = targets.threads;
        options.verify = targets.verify.unwrap_or(options.verify);
        let done = py.detach(|| search(data, options)).map_err(raised)?;
        done.into_matches(py)
    })
}

fn answer_of(name: &str) -> PyResult<Answer> {
    match name {
        "records" => Ok(Answer::Records),
        "count" => Ok(Answer::Count),
        "any" => Ok(Answer::Any),
        _ => {
            Err(refused(format!("no answer is called {name:?}; there are records, count and any")))
        }
    }
}

/// Data to search: text in memory, or an Arrow column.
enum Data {
    Text(BorrowedBuffer),
    Column(Column),
}

impl Data {
    fn of(object: &Bound<'_, PyAny>, column: Option<&str>) -> PyResult<Self> {
        if let Some(column) = Column::of(object, column)? {
            return Ok(Self::Column(column));
        }
        if column.is_some() {
            return Err(PyTypeError::new_err("column is for Arrow data, which this is not"));
        }
        BorrowedBuffer::new(object).map(Self::Text)
    }
}

impl Input for Reader<'_> {
    fn len_bytes(&self) -> Option<u64> {
        Some(self.len() as u64)
    }
}

fn search(data: Data, options: Options) -> Result<SearchResult, Error> {
    let is_wanted = options.answer == Answer::Records;
    let mut search = Search::new(options)?;
    let mut records = Records::new(matches!(data, Data::Text(_)));
    let mut rows = None;
    let tally = match data {
        Data::Text(lent) => match Immutable::new(lent) {
            Ok(text) => search.memory(ExternalBytes::new(text), &mut records)?,
            Err(lent) => search.text(&mut lent.reader(), &mut records)?,
        },
        Data::Column(mut column) => {
            let mut count = 0;
            let mut signals = Signals::new();
            let kind = column.kind();
            let arrays = std::iter::from_fn(|| {
                let next = match signals.check() {
                    Ok(()) => column.next().map_err(Error::Format),
                    Err(error) => Err(Error::Read(error.into())),
                };
                let next = next.transpose()?;
                count += next.as_ref().map_or(0, |array| array.len());
                Some(next)
            });
            let tally = search.arrays(&kind, arrays, &mut records)?;
            rows = Some(count);
            tally
        }
    };
    Ok(SearchResult {
        tally,
        records: is_wanted.then_some(records),
        rows,
        engine: search.trial().map(|trial| trial.variant.to_owned()),
        because: search.because().map(str::to_owned),
        report: search.report(),
    })
}

/// Maps an error of a search to the Python exception that is raised for it.
fn raised(error: Error) -> PyErr {
    match error {
        Error::Operation(error) => errors::operation(error),
        Error::Placement(error) => errors::executor(error),
        Error::Read(error) | Error::Write(error) => error.into(),
        Error::TooLong { .. } | Error::Format(_) => errors::data(error),
        Error::Table(TableError::Io(error)) => error.into(),
        Error::Table(TableError::NoColumn { .. } | TableError::SameColumns { .. })
        | Error::ColumnType { .. } => refused(error),
        Error::Table(_) => errors::data(error),
        Error::Cpu(_) | Error::Job(_) => errors::device(error),
    }
}

/// Gathers where the records are that are selected.
struct Records {
    indices: Vec<u64>,
    /// Offsets in text at which records begin, in bytes; `ends` has those at which they end.
    begins: Vec<u64>,
    ends: Vec<u64>,
    is_text: bool,
    signals: Signals,
}

impl Records {
    fn new(is_text: bool) -> Self {
        Self {
            indices: Vec::new(),
            begins: Vec::new(),
            ends: Vec::new(),
            is_text,
            signals: Signals::new(),
        }
    }
}

impl Sink for Records {
    fn found(&mut self, found: SelectedRecord<'_>) -> io::Result<bool> {
        if self.indices.len().is_multiple_of(RECORDS_PER_CHECK) {
            self.signals.check()?;
        }
        push(&mut self.indices, found.number.saturating_sub(1))?;
        if self.is_text {
            let begin = found.offset.unwrap_or(0);
            let len = found.value.map_or(0, <[u8]>::len) as u64;
            push(&mut self.begins, begin)?;
            push(&mut self.ends, begin + len)?;
        }
        Ok(true)
    }
}

fn push(numbers: &mut Vec<u64>, number: u64) -> io::Result<()> {
    (numbers.try_reserve(1))
        .map_err(|_| PyMemoryError::new_err("no memory for so many records"))?;
    numbers.push(number);
    Ok(())
}

/// Result of a search, before it is made into Python objects.
struct SearchResult {
    tally: SearchSummary,
    records: Option<Records>,
    rows: Option<usize>,
    engine: Option<String>,
    because: Option<String>,
    report: Option<Report>,
}

impl SearchResult {
    fn into_matches(self, py: Python<'_>) -> PyResult<Matches> {
        let numbers = |numbers| Py::new(py, Numbers::new(numbers));
        let (mut indices, mut begins, mut ends) = (None, None, None);
        if let Some(records) = self.records {
            indices = Some(numbers(records.indices)?);
            if records.is_text {
                begins = Some(numbers(records.begins)?);
                ends = Some(numbers(records.ends)?);
            }
        }
        Ok(Matches {
            tally: self.tally,
            indices,
            begins,
            ends,
            rows: self.rows,
            engine: self.engine,
            because: self.because,
            report: self.report,
        })
    }
}

#[doc = stub!("Matches")]
#[pyclass(module = "overside", frozen)]
pub(crate) struct Matches {
    tally: SearchSummary,
    indices: Option<Py<Numbers>>,
    begins: Option<Py<Numbers>>,
    ends: Option<Py<Numbers>>,
    rows: Option<usize>,
    engine: Option<String>,
    because: Option<String>,
    report: Option<Report>,
}

fn view<'py>(
    py: Python<'py>,
    numbers: Option<&Py<Numbers>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    numbers.map(|numbers| Numbers::view(numbers.bind(py))).transpose()
}

#[pymethods]
impl Matches {
    fn __len__(&self) -> usize {
        usize::try_from(self.tally.selected).unwrap_or(usize::MAX)
    }

    fn __repr__(&self) -> String {
        format!("<overside.Matches: {}>", self.tally.selected)
    }

    #[doc = stub!("Matches.count")]
    #[getter]
    fn count(&self) -> u64 {
        self.tally.selected
    }

    #[doc = stub!("Matches.indices")]
    #[getter]
    fn indices<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        view(py, self.indices.as_ref())
    }

    #[doc = stub!("Matches.begins")]
    #[getter]
    fn begins<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        view(py, self.begins.as_ref())
    }

    #[doc = stub!("Matches.ends")]
    #[getter]
    fn ends<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        view(py, self.ends.as_ref())
    }

    #[doc = stub!("Matches.__arrow_c_array__")]
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // A request that cannot be met is to be ignored.
        let _ = requested_schema;
        let (Some(rows), Some(indices)) = (self.rows, &self.indices) else {
            return Err(refused("there is a mask only of Arrow data whose records were asked for"));
        };
        guarded(|| {
            let mut mask = vec![false; rows];
            for index in indices.get().as_slice() {
                let is_selected = usize::try_from(*index).ok().and_then(|at| mask.get_mut(at));
                if let Some(is_selected) = is_selected {
                    *is_selected = true;
                }
            }
            arrow::export(py, &BooleanArray::from(mask))
        })
    }

    #[doc = stub!("Matches.applied")]
    #[getter]
    fn applied<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        applied_of(py, self.report.as_ref())
    }

    #[doc = stub!("Matches.report")]
    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let report = serde_json::json!({
            "selected": self.tally.selected,
            "long": self.tally.long,
            "without_value": self.tally.without_value,
            "tried_engine": self.engine,
            "because": self.because,
            "executor": self.report,
        });
        value(py, &report)
    }
}
