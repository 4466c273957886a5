//! Finds the fastest engine for patterns by trying them on a sample of the data.

use std::time::{Duration, Instant};

use crate::{Config, Error, Kernel, MatchKind, Operation, Prepared, prepare};

use super::supported;

/// Number of timed runs of each engine after the first one; the shortest time counts.
const ROUNDS: usize = 3;
/// Maximum time of another engine as a share of the default one's: noise must not decide.
const BETTER: f64 = 0.9;

/// Result of trying engines on a sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Variant to use.
    pub variant: &'static str,
    /// Shortest time for the sample of each variant that accepts the patterns. Empty if no engine is needed.
    pub times: Vec<(&'static str, Duration)>,
}

/// Tries all engines that accept `patterns` on `sample`, a part of the data that consists of whole
/// records. The engine that `auto` takes by the patterns alone stays unless another is clearly faster.
/// Compiles the patterns for each engine, which takes at least a few milliseconds.
///
/// # Errors
/// Those of [`prepare`] for the engine of `auto`.
pub fn try_matchers(patterns: &[String], sample: &[u8]) -> Result<Trial, Error> {
    let config = |variant: &str| Config {
        variant: variant.into(),
        patterns: patterns.to_vec(),
        ..Config::new(Operation::Match(MatchKind::Count))
    };
    let prepared = prepare(&config("auto"))?;
    let first = prepared.variant().name;
    if prepared.variant().version.is_empty() {
        return Ok(Trial { variant: first, times: Vec::new() });
    }
    let mut engines = vec![Timed::new(first, &prepared)?];
    for name in supported().map(|engine| engine.library.name) {
        // An engine that refuses the patterns is no candidate.
        if name != first
            && let Ok(prepared) = prepare(&config(name))
        {
            engines.push(Timed::new(name, &prepared)?);
        }
    }
    for _ in 0..=ROUNDS {
        for engine in &mut engines {
            engine.run(sample)?;
        }
    }
    let best = engines.iter().min_by_key(|engine| engine.time);
    let is_better =
        |best: &&Timed| best.time.as_secs_f64() < BETTER * engines[0].time.as_secs_f64();
    Ok(Trial {
        variant: best.filter(is_better).map_or(first, |best| best.name),
        times: engines.iter().map(|engine| (engine.name, engine.time)).collect(),
    })
}

struct Timed {
    name: &'static str,
    kernel: Box<dyn Kernel>,
    time: Duration,
}

impl Timed {
    fn new(name: &'static str, prepared: &Prepared) -> Result<Self, Error> {
        Ok(Self { name, kernel: prepared.kernel()?, time: Duration::MAX })
    }

    fn run(&mut self, sample: &[u8]) -> Result<(), Error> {
        let begin = Instant::now();
        self.kernel.run(&[std::hint::black_box(sample)], &mut [])?;
        self.time = self.time.min(begin.elapsed());
        Ok(())
    }
}
