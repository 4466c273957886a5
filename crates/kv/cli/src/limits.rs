//! Limits of a server's clients.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use overside_kv::partition::SLOTS;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::value_parser;
use overside_command::options::{size_within, time_within};
use overside_kv::server::Limits;

const CLIENT_MEMORY: RangeInclusive<usize> = 1 << 20..=1 << 46;
/// Longest time of an option.
pub(super) const SECONDS_MAX: f64 = 1e9;

/// One of some values, by its name.
pub(super) fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    values: [(&'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(values.map(|(name, _)| name)).map(move |given| {
        let found = values.iter().find(|(name, _)| *name == given);
        found.expect("a name that the parser knows").1
    })
}

#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitArguments {
    /// Maximum number of clients at a time
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = value_parser!(u32).range(1..=1_000_000))]
    max_clients: u32,
    /// Memory of all connections together; beyond it the one that holds most is closed
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size_within(CLIENT_MEMORY))]
    client_memory: usize,
    /// Close clients that are idle for TIME; 0: never
    #[arg(long, value_name = "TIME", default_value = "0",
          value_parser = time_within(0.0..=SECONDS_MAX))]
    timeout: Duration,
    /// Close clients that do not read replies for TIME
    #[arg(long, value_name = "TIME", default_value = "60s",
          value_parser = time_within(1.0..=SECONDS_MAX))]
    stall: Duration,
}

impl LimitArguments {
    /// Memory of the connections of a side.
    pub(super) fn client_memory_bytes(&self) -> u64 {
        self.client_memory as u64
    }

    pub(super) fn limits(&self) -> Limits {
        let clients = self.max_clients as usize;
        Limits {
            clients,
            unauthenticated: (clients / 4).clamp(1, 1_000),
            memory_bytes: self.client_memory,
            stall: self.stall,
            idle: self.timeout,
            ..Limits::default()
        }
    }
}

/// Hash slots in order, from a text like `0-99,500`.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotList(pub Vec<u16>);

impl FromStr for SlotList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("slots are numbers below {SLOTS} and ranges of them: 0-99,500");
        let number = |text: &str| text.parse::<u16>().ok().filter(|slot| *slot < SLOTS);
        let mut slots = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (number(first), number(last)) {
                (Some(first), Some(last)) if first <= last => slots.extend(first..=last),
                _ => return Err(wrong()),
            }
        }
        Ok(Self(slots.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::SlotList;

    #[test]
    fn slots_are_numbers_and_ranges() {
        let parsed = |text: &str| text.parse::<SlotList>().map(|list| list.0).ok();
        assert_eq!(parsed("3,0-2,1"), Some(vec![0, 1, 2, 3]));
        assert_eq!(parsed("16383"), Some(vec![16383]));
        for wrong in ["", "16384", "2-1", "1-", "-1", "a", "1,,2", "1 2"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
