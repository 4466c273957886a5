//! Upper bounds of the memory for the state of libraries, for callers with a limit of memory.

use crate::family::Memory;
use crate::{Config, registry};

/// Memory in bytes of a thread in addition to its kernel.
const THREAD_BYTES: u64 = 256 << 10;

/// Returns the memory in bytes of an operation that is prepared for sources of up to `source_bytes`
/// bytes, with `kernels` kernels, each on a thread of its own. For an operation that cannot be
/// prepared, it is the memory of the threads.
pub fn memory_bytes(config: &Config, source_bytes: u64, kernels: usize) -> u64 {
    let memory = config.operation.family().memory;
    let Memory { shared, kernel } = memory(config, registry::chosen(config), source_bytes);
    shared.saturating_add((kernel + THREAD_BYTES).saturating_mul(kernels as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, MatchKind, Operation};

    fn compressing(format: Format, variant: &str, level: Option<u32>) -> Config {
        Config { variant: variant.into(), level, ..Config::new(Operation::Compress(format)) }
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
