//! Whether a source is incompressible, asked of another compressor.

use overside_ops::{Config, Kernel, prepare};
use overside_probe::Failure;

use super::{another, internal};

/// What tables and framing may add to a short output: a source of no more than this may be
/// incompressible for one library and not for another.
const SLACK_BYTES: usize = 1024;

/// A compressor that has to fail where another is believed to have failed.
pub(super) struct CrossChecker {
    name: String,
    kernel: Box<dyn Kernel>,
}

impl CrossChecker {
    /// For what `config`'s library calls incompressible; none at level 0, which may only store.
    pub(super) fn new(config: &Config, variant: &str) -> Result<Option<Self>, Failure> {
        if config.level == Some(0) {
            return Ok(None);
        }
        let name = another(config.operation, variant)?;
        let config = Config {
            variant: name.clone(),
            // Zstandard's levels reach back differently far, and no other library has its format.
            level: config.level.filter(|_| name == variant),
            ..Config::new(config.operation)
        };
        let kernel = prepare(&config)
            .and_then(|prepared| prepared.kernel())
            .map_err(internal)?;
        Ok(Some(Self { name, kernel }))
    }

    /// Refuses to believe that what this compresses to less than half is incompressible. Libraries
    /// differ, but not by so much. `room` is as long as the source.
    pub(super) fn check(&mut self, original: &[u8], room: &mut [u8]) -> Result<(), String> {
        let half = original.len().saturating_sub(SLACK_BYTES) / 2;
        match self.kernel.run(&[original], &mut room[..half]) {
            Ok(made) if made.written > 0 => Err(format!(
                "it was called incompressible, but {} makes {} bytes of its {}",
                self.name,
                made.written,
                original.len()
            )),
            _ => Ok(()),
        }
    }
}
