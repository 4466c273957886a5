//! Which engine is the quickest with these patterns on this data.

use std::time::{Duration, Instant};

use crate::{Config, Error, Kernel, MatchKind, Operation, Prepared, prepare};

use super::supported;

/// Number of timed runs of each engine after the first one; the shortest time counts.
const ROUNDS: usize = 3;
/// Another engine than `auto`'s has to need less than this share of its time, so that noise does
/// not decide.
const BETTER: f64 = 0.9;

/// Result of trying engines on a sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The variant that is to be used.
    pub variant: &'static str,
    /// Each variant that takes the patterns, with the shortest time it took for the sample. Empty
    /// if no engine is needed.
    pub times: Vec<(&'static str, Duration)>,
}

/// Tries all engines that take `patterns` on `sample`, which is some of the data and consists of
/// whole records. The one that `auto` takes by the patterns alone stays unless another is clearly
/// quicker. Compiles the patterns for each engine, so a few milliseconds are the least that it
/// takes.
///
/// # Errors
/// Those of [`prepare`] for `auto`'s engine.
pub fn try_matchers(patterns: &[String], sample: &[u8]) -> Result<Trial, Error> {
    let config = |variant: &str| Config {
        variant: variant.into(),
        patterns: patterns.to_vec(),
        ..Config::new(Operation::Match(MatchKind::Count))
    };
    let prepared = prepare(&config("auto"))?;
    let first = prepared.variant().name;
    if prepared.variant().version.is_empty() {
        return Ok(Trial {
            variant: first,
            times: Vec::new(),
        });
    }
    let mut engines = vec![Timed::new(first, &prepared)?];
    for name in supported().map(|engine| engine.library.name) {
        // What refuses the patterns is no candidate.
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
        times: engines
            .iter()
            .map(|engine| (engine.name, engine.time))
            .collect(),
    })
}

struct Timed {
    name: &'static str,
    kernel: Box<dyn Kernel>,
    time: Duration,
}

impl Timed {
    fn new(name: &'static str, prepared: &Prepared) -> Result<Self, Error> {
        Ok(Self {
            name,
            kernel: prepared.kernel()?,
            time: Duration::MAX,
        })
    }

    fn run(&mut self, sample: &[u8]) -> Result<(), Error> {
        let begin = Instant::now();
        self.kernel.run(&[std::hint::black_box(sample)], &mut [])?;
        self.time = self.time.min(begin.elapsed());
        Ok(())
    }
}
