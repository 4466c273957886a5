//! A search: patterns, and the executor that runs them on the input.

use std::sync::Arc;

use overside_backend_cpu::{CpuDevice, CpuOptions};
use overside_device::Device;
use overside_ops::{Config, Kernel, MatchKind, Operation, Trial, prepare, try_matchers};
use overside_placement::{DeviceSetup, Executor, Report, Setup, chunk_bytes};

use crate::{Answer, Error, Exact, MatchScope, Options, expressions};

/// Shortest input that is worth a trial of the engines.
pub(crate) const TRIAL_INPUT_BYTES: u64 = 16 << 20;
/// Number of bytes at the beginning of an input that the engines are tried on.
pub(crate) const TRIAL_BYTES: usize = 256 << 10;

/// Searches one input after the other for the same patterns.
pub struct Search {
    pub(crate) options: Options,
    /// Patterns with their options applied.
    patterns: Vec<String>,
    cpu: Arc<dyn Device>,
    pub(crate) state: Option<OpenSearch>,
    exact: Option<Exact>,
    because: Option<String>,
    /// Kernel of [`MatchKind::Count`] for records that are longer than chunks; `None` until the
    /// first one.
    alone: Option<Box<dyn Kernel>>,
}

/// State of a search that exists from its first chunk on.
pub(crate) struct OpenSearch {
    pub(crate) executor: Executor,
    pub(crate) chunk_bytes: usize,
    engine: String,
    trial: Option<Trial>,
}

impl Search {
    /// Checks the patterns and the engine. Devices are opened when there is something to search.
    ///
    /// # Errors
    /// [`Error::Operation`], [`Error::Cpu`].
    pub fn new(options: Options) -> Result<Self, Error> {
        let cpu = Arc::new(CpuDevice::new(CpuOptions { threads: options.threads, cores: None })?);
        let patterns = expressions::searched(&options);
        if options.scope != MatchScope::Anywhere && !options.fixed_strings {
            // With something around it, what is none may become a regular expression.
            let given = Config {
                patterns: options.patterns.clone(),
                ..Config::new(Operation::Match(MatchKind::Count))
            };
            prepare(&given)?;
        }
        let mut search =
            Self { options, patterns, cpu, state: None, exact: None, because: None, alone: None };
        let prepared = prepare(&search.config(&search.options.engine, MatchKind::Count))?;
        let variant = prepared.variant();
        search.because =
            (variant.because.as_ref()).map(|because| format!("engine {}: {because}", variant.name));
        Ok(search)
    }

    /// The patterns for one record at a time.
    ///
    /// # Errors
    /// [`Error::Operation`] if there they are too large.
    pub fn exact(&mut self) -> Result<&Exact, Error> {
        match &mut self.exact {
            Some(exact) => Ok(exact),
            none => Ok(none.insert(Exact::compile(&expressions::exact(&self.options))?)),
        }
    }

    /// Engine that `auto` chose by the patterns, and the reason. A trial may find a quicker one.
    pub fn because(&self) -> Option<&str> {
        self.because.as_deref()
    }

    /// Returns the executor's report of the work so far; `None` before the first chunk.
    pub fn report(&self) -> Option<Report> {
        self.state.as_ref().map(|state| state.executor.report())
    }

    /// Returns the trial that the engine was chosen by; `None` if engines were not tried.
    pub fn trial(&self) -> Option<&Trial> {
        self.state.as_ref()?.trial.as_ref()
    }

    fn config(&self, engine: &str, kind: MatchKind) -> Config {
        Config {
            variant: engine.into(),
            patterns: self.patterns.clone(),
            ..Config::new(Operation::Match(kind))
        }
    }

    /// Returns `true` if the engines must be tried before an input of `len_bytes` is searched.
    pub(crate) fn wants_trial(&self, len_bytes: Option<u64>) -> bool {
        self.state.is_none()
            && self.options.engine == "auto"
            && self.options.policy.uses_cpu()
            && len_bytes.is_some_and(|len| len >= TRIAL_INPUT_BYTES)
    }

    /// Opens the executor, unless it is; engines are tried on `sample` if there is one, which
    /// consists of whole records.
    pub(crate) fn open(&mut self, sample: &[u8]) -> Result<(), Error> {
        if self.state.is_some() {
            return Ok(());
        }
        let trial = match sample.is_empty() {
            true => None,
            false => Some(try_matchers(&self.patterns, sample)?),
        };
        let options = &self.options;
        let engine = trial.as_ref().map_or(options.engine.as_str(), |trial| trial.variant);
        let kind = match options.answer {
            Answer::Count | Answer::Any => MatchKind::Count,
            Answer::Records => MatchKind::Bitmap,
        };
        let operation = Operation::Match(kind);
        let mut chunk = options.chunk_bytes.max(1);
        if options.policy.uses_device() {
            // What one cannot do at all is the executor's to say.
            let taken = (options.devices.iter())
                .filter_map(|device| chunk_bytes(&**device, operation, chunk));
            chunk = taken.min().unwrap_or(chunk);
        }
        let mut setup = Setup::new(self.config(engine, kind), options.policy);
        setup.cpu = Some(Arc::clone(&self.cpu));
        setup.devices = options.devices.iter().cloned().map(DeviceSetup::new).collect();
        setup.source_bytes = chunk;
        setup.destination_bytes = match kind {
            // One bit for each record, and there may be one in each byte.
            MatchKind::Bitmap => chunk.div_ceil(8),
            MatchKind::Count | MatchKind::Search | MatchKind::Groups => 0,
        };
        setup.cpu_depth = 2 * options.threads;
        setup.verify = options.verify;
        let engine = engine.to_owned();
        self.state = Some(OpenSearch {
            executor: Executor::open(setup)?,
            chunk_bytes: chunk,
            engine,
            trial,
        });
        Ok(())
    }

    /// Returns `true` if a record that is not part of a chunk matches.
    pub(crate) fn is_match(&mut self, record: &[u8]) -> Result<bool, Error> {
        if memchr::memchr(b'\n', record).is_some() {
            return Ok(self.exact()?.is_match(record));
        }
        if self.alone.is_none() {
            let engine = self.state.as_ref().map_or("auto", |state| &state.engine);
            let config = self.config(engine, MatchKind::Count);
            self.alone = Some(prepare(&config)?.kernel()?);
        }
        let Some(kernel) = &mut self.alone else {
            return Ok(false);
        };
        // An empty buffer has no record; this record is there, even if it is empty.
        let buffer = if record.is_empty() { b"\n" } else { record };
        let output = kernel.run(&[buffer], &mut [])?;
        Ok(output.value.is_some_and(|count| count > 0))
    }
}
