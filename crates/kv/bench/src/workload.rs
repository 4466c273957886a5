//! Workloads: kinds of requests, and the choice of records.

use std::collections::VecDeque;

use overside_base::{Random, Zipf};
use overside_link::codec;
use serde::{Deserialize, Serialize};

use super::ProtocolKind;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Read of one value.
    Read,
    /// A new value for a record that is there.
    Update,
    /// A new record.
    Insert,
    /// Several records in a row, from an index in a sorted set.
    Scan,
    /// A read and then an update, counted as one.
    ReadModifyWrite,
}

/// Distribution of the requested records.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// Rank k with a probability in proportion to k to the power of minus this, in no order of
    /// keys.
    Zipf(f64),
    /// The newest most, by a Zipf distribution of age.
    Latest(f64),
}

/// Shares of kinds, which add up to 1, and a distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Name of the workload.
    pub name: String,
    /// Kinds and shares.
    #[serde(deserialize_with = "codec::list::<_, _, KINDS_MAX>")]
    pub mix: Vec<(Kind, f64)>,
    /// Distribution of the requested records.
    pub distribution: Distribution,
    /// Records of a scan: from 1 to this, all alike.
    pub scan_max: u64,
}

/// Maximum number of parts of a mix.
const KINDS_MAX: usize = 16;
/// YCSB's exponent.
const SKEW: f64 = 0.99;
/// YCSB's longest scan, and the longest of all.
const SCAN_MAX: u64 = 100;
const SCAN_LIMIT: u64 = 10_000;

impl Workload {
    /// Returns YCSB's workload of this letter; `None` if there is none.
    #[must_use]
    pub fn ycsb(letter: char) -> Option<Self> {
        let (mix, distribution): (&[(Kind, f64)], _) = match letter.to_ascii_lowercase() {
            'a' => (&[(Kind::Read, 0.5), (Kind::Update, 0.5)], Distribution::Zipf(SKEW)),
            'b' => (&[(Kind::Read, 0.95), (Kind::Update, 0.05)], Distribution::Zipf(SKEW)),
            'c' => (&[(Kind::Read, 1.0)], Distribution::Zipf(SKEW)),
            'd' => (&[(Kind::Read, 0.95), (Kind::Insert, 0.05)], Distribution::Latest(SKEW)),
            'e' => (&[(Kind::Scan, 0.95), (Kind::Insert, 0.05)], Distribution::Zipf(SKEW)),
            'f' => (&[(Kind::Read, 0.5), (Kind::ReadModifyWrite, 0.5)], Distribution::Zipf(SKEW)),
            _ => return None,
        };
        Some(Self {
            name: letter.to_ascii_lowercase().to_string(),
            mix: mix.to_vec(),
            distribution,
            scan_max: SCAN_MAX,
        })
    }

    /// Reads of this share, and updates.
    #[must_use]
    pub fn reads(share: f64) -> Self {
        Self {
            name: format!("{}% reads", 100.0 * share),
            mix: vec![(Kind::Read, share), (Kind::Update, 1.0 - share)],
            distribution: Distribution::Uniform,
            scan_max: SCAN_MAX,
        }
    }

    /// The part of requests that only read.
    #[must_use]
    pub fn read_share(&self) -> f64 {
        let reads = |kind: &Kind| matches!(kind, Kind::Read | Kind::Scan);
        let shares = (self.mix.iter()).filter(|(kind, _)| reads(kind));
        shares.map(|(_, share)| share).sum()
    }

    /// Returns `true` if there are scans. Then a sorted set of all keys is kept, as YCSB's binding
    /// for Redis does.
    #[must_use]
    pub fn has_scans(&self) -> bool {
        (self.mix.iter()).any(|(kind, share)| *kind == Kind::Scan && *share > 0.0)
    }

    pub(super) fn check(&self, protocol: ProtocolKind) -> Result<(), String> {
        let sum: f64 = self.mix.iter().map(|(_, share)| share).sum();
        if (sum - 1.0).abs() > 1e-6 || self.mix.iter().any(|(_, share)| *share < 0.0) {
            return Err("the shares of a workload add up to 1".into());
        }
        if self.scan_max > SCAN_LIMIT {
            return Err(format!("a scan has at most {SCAN_LIMIT} records"));
        }
        if self.has_scans() && protocol != ProtocolKind::Resp {
            return Err(
                "only Redis's protocol has scans; choose another workload or --protocol resp"
                    .into(),
            );
        }
        match self.distribution {
            Distribution::Zipf(skew) | Distribution::Latest(skew)
                if !(0.0..=10.0).contains(&skew) =>
            {
                Err("the exponent of a Zipf distribution is from 0 to 10".into())
            }
            _ => Ok(()),
        }
    }
}

/// Generator of requests for one connection. Connections insert different records: connection `number` of
/// `connections` inserts records `count + number`, `count + number + connections`, ...
#[derive(Debug)]
pub(super) struct Requests {
    random: Random,
    mix: Vec<(Kind, f64)>,
    distribution: Distribution,
    zipf: Zipf,
    scan_max: u64,
    count: u64,
    /// Number of inserted records that may be read: all of them are stored.
    readable: u64,
    /// `true` for each later one that is stored.
    stored: VecDeque<bool>,
    number: u64,
    connections: u64,
}

impl Requests {
    pub(crate) fn new(
        workload: &Workload,
        count: u64,
        seed: u64,
        number: u64,
        connections: u64,
    ) -> Self {
        let skew = match workload.distribution {
            Distribution::Uniform => 0.0,
            Distribution::Zipf(skew) | Distribution::Latest(skew) => skew,
        };
        Self {
            random: Random::new(seed ^ (number + 1).wrapping_mul(0xd6e8_feb8_6659_fd93)),
            mix: workload.mix.clone(),
            distribution: workload.distribution,
            zipf: Zipf::new(count, skew),
            scan_max: workload.scan_max.max(1),
            count,
            readable: 0,
            stored: VecDeque::new(),
            number,
            connections,
        }
    }

    pub(crate) fn kind(&mut self) -> Kind {
        let mut draw = self.random.uniform();
        for (kind, share) in &self.mix {
            draw -= share;
            if draw < 0.0 {
                return *kind;
            }
        }
        self.mix.last().map_or(Kind::Read, |(kind, _)| *kind)
    }

    /// A record that is there.
    pub(crate) fn record(&mut self) -> u64 {
        match self.distribution {
            Distribution::Uniform => self.random.below(self.count),
            // Keys are in no order of records already, so ranks need not be scattered.
            Distribution::Zipf(_) => self.zipf.draw(&mut self.random),
            Distribution::Latest(_) => {
                let age = self.zipf.draw(&mut self.random);
                match self.readable.checked_sub(age + 1) {
                    Some(newest) => self.insert_number(newest),
                    None => self.count - 1 - (age - self.readable).min(self.count - 1),
                }
            }
        }
    }

    /// The next record to insert.
    pub(crate) fn insert(&mut self) -> u64 {
        self.stored.push_back(false);
        self.insert_number(self.readable + self.stored.len() as u64 - 1)
    }

    /// Notes that a record is stored. Before, it is not read: datagrams may overtake each other.
    pub(crate) fn stored(&mut self, record: u64) {
        let Some(behind) = record.checked_sub(self.insert_number(self.readable)) else {
            return;
        };
        if let Some(is_stored) = self.stored.get_mut((behind / self.connections) as usize) {
            *is_stored = true;
        }
        while self.stored.pop_front_if(|is_stored| *is_stored).is_some() {
            self.readable += 1;
        }
    }

    fn insert_number(&self, index: u64) -> u64 {
        self.count + self.number + index * self.connections
    }

    pub(crate) fn scan_len(&mut self) -> u64 {
        1 + self.random.below(self.scan_max)
    }

    pub(crate) fn nonce(&mut self) -> u64 {
        self.random.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::{Requests, Workload};

    #[test]
    fn new_records_are_read_once_they_and_those_before_are_stored() {
        let mut requests = Requests::new(&Workload::ycsb('d').unwrap(), 10, 1, 1, 4);
        let inserted: Vec<_> = (0..3).map(|_| requests.insert()).collect();
        assert_eq!(inserted, [11, 15, 19]);
        for (stored, newest) in [(3, 9), (15, 9), (11, 15), (11, 15), (19, 19)] {
            requests.stored(stored);
            let read = (0..1000).map(|_| requests.record()).max();
            assert_eq!(read, Some(newest));
        }
    }
}
