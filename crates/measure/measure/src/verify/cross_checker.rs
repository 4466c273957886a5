//! Check by another compressor whether a source is incompressible.

use overside_ops::{Config, Kernel, prepare};
use overside_probe::Failure;

use super::{internal, others};

/// Bytes that tables and framing may add to a short output. A source of at most this length may be
/// incompressible for one library and not for another.
const SLACK_BYTES: usize = 1024;

/// A compressor that has to fail where another is believed to have failed.
pub(super) struct CrossChecker {
    name: &'static str,
    kernel: Box<dyn Kernel>,
}

impl CrossChecker {
    /// Makes a checker for sources that `config`'s library reports as incompressible. Returns `None` at level
    /// 0, which may only store.
    pub(super) fn new(config: &Config, variant: &str) -> Result<Option<Self>, Failure> {
        if config.level == Some(0) {
            return Ok(None);
        }
        let others = others(config.operation, variant);
        let Some(name) = others.first().copied() else {
            return Ok(None);
        };
        let config = Config {
            variant: name.into(),
            // Zstandard's levels reach back differently far, and no other library has its format.
            level: config.level.filter(|_| name == variant),
            ..Config::new(config.operation)
        };
        let kernel = prepare(&config).and_then(|prepared| prepared.kernel()).map_err(internal)?;
        Ok(Some(Self { name, kernel }))
    }

    /// Fails if a source that was reported as incompressible compresses to less than half here.
    /// Libraries do not differ by that much. `room` is as long as the source.
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
