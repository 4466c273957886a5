//! How much memory libraries take for their state: upper bounds, so that it can be said before they
//! take it.

use crate::variant::chosen_codec;
use crate::{Config, MatchKind, Operation, matching};

/// What a thread with a kernel takes beside it, in bytes.
const THREAD_BYTES: u64 = 256 << 10;

/// How many bytes an operation takes that is made ready for sources of so many bytes, with so many
/// kernels, each on a thread of its own. Of what cannot be made ready: what the threads take.
pub fn memory_bytes(config: &Config, source_bytes: u64, kernels: usize) -> u64 {
    let (shared, kernel) = match config.operation {
        Operation::Compress(_) => {
            let compressor = chosen_codec(config).map(|(codec, level)| {
                let bytes = codec.compressor_bytes;
                bytes(level, source_bytes)
            });
            (0, compressor.unwrap_or(0))
        }
        Operation::Decompress(_) => {
            let codec = chosen_codec(config);
            (0, codec.map_or(0, |(codec, _)| codec.decompressor_bytes))
        }
        Operation::Match(kind) => {
            let program = matching::program_bytes(&config.patterns);
            // For groups there may be a second engine.
            let programs = match kind {
                MatchKind::Groups => 2 * program,
                _ => program,
            };
            (programs, programs)
        }
        Operation::Hash(_) | Operation::Copy => (0, 0),
    };
    shared.saturating_add((kernel + THREAD_BYTES).saturating_mul(kernels as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    fn compressing(format: Format, variant: &str, level: Option<u32>) -> Config {
        Config {
            variant: variant.into(),
            level,
            ..Config::new(Operation::Compress(format))
        }
    }

    #[test]
    fn the_level_the_source_and_the_threads_count() {
        let zstd = |level| compressing(Format::Zstd, "zstd", Some(level));
        let large = memory_bytes(&zstd(22), 128 << 20, 1);
        assert!(large > 600 << 20, "{large}");
        assert!(memory_bytes(&zstd(22), 128 << 20, 2) == 2 * large);
        assert!(memory_bytes(&zstd(22), 1 << 20, 1) < 32 << 20);
        assert!(memory_bytes(&zstd(3), 128 << 20, 1) < 32 << 20);
    }

    #[test]
    fn auto_is_taken_for_what_it_will_be() {
        let bytes = |variant| memory_bytes(&compressing(Format::Zlib, variant, Some(12)), 1, 1);
        assert_eq!(bytes("auto"), bytes("libdeflate"));
    }

    #[test]
    fn patterns_count_up_to_what_engines_may_take() {
        let bytes = |patterns: usize| {
            let config = Config {
                patterns: vec!["some words".into(); patterns],
                ..Config::new(Operation::Match(MatchKind::Count))
            };
            memory_bytes(&config, 1, 1)
        };
        assert!(bytes(1) < bytes(10));
        assert_eq!(bytes(500), bytes(1000));
    }
}
