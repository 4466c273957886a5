//! Random requests, of few keys and values.

use std::path::Path;

use overside_base::Random;
use overside_kv::request::{CounterChange, SortedAddOptions, SortedRangeBy};
use overside_kv::{
    Condition, Expiry, ExpiryCondition, KeyHasher, Operation, Popped, ProcessingEngine, Request,
    ScoreBound, SetOptions, SortedRange, ValueKind,
};

const KEYS: [&[u8]; 12] = [
    b"", b"a", b"b", b"c", b"key:4", b"key:5", b"key:6", b"n", b"f", b"hash", b"sorted", b"\0\xff",
];
const VALUES: [&[u8]; 10] = [
    b"",
    b"0",
    b"17",
    b"-9223372036854775808",
    b"1.5",
    b"x",
    b"some text",
    b"\r\n\0",
    &[7; 300],
    &[b'z'; 5000],
];
const SCORES: [f64; 6] = [0.0, -1.5, 1.0, 2.0, f64::INFINITY, f64::NEG_INFINITY];

/// Names and content of the files of a fuzz target's corpus, in order; there are more than `least`.
pub(crate) fn corpus(target: &str, least: usize) -> Vec<(String, Vec<u8>)> {
    let all = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/corpus");
    let file = |file: std::io::Result<std::fs::DirEntry>| {
        let file = file.unwrap();
        (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap())
    };
    let files = std::fs::read_dir(Path::new(all).join(target)).unwrap();
    let mut files: Vec<_> = files.map(file).collect();
    files.sort();
    assert!(files.len() > least);
    files
}

/// Time at which [`answers`] asks.
const NOW_MS: u64 = 1_000_000;

pub(crate) fn request<'a>(key: &'a [u8], operation: Operation<'a>) -> Request<'a> {
    Request::new(key, &Requests::new(0).hasher, operation)
}

pub(crate) fn set<'a>(key: &'a [u8], value: &'a [u8]) -> Request<'a> {
    request(key, Operation::set(value))
}

pub(crate) fn get(key: &[u8]) -> Request<'_> {
    request(key, Operation::Get)
}

/// Answers to a batch as text.
pub(crate) fn answers(engine: &mut dyn ProcessingEngine, batch: &[Request<'_>]) -> Vec<String> {
    let mut all = Vec::new();
    engine.execute(batch, NOW_MS, &mut |index, answer| {
        assert_eq!(index, all.len(), "answers come in order");
        all.push(format!("{answer:?}"));
    });
    all
}

type Members = Box<[(f64, &'static [u8])]>;

/// Makes requests as of a time.
pub(crate) struct Requests {
    pub random: Random,
    pub hasher: KeyHasher,
}

impl Requests {
    pub(crate) fn new(seed: u64) -> Self {
        let random = Random::new(seed);
        let hasher = KeyHasher::with_seeds([1, 2, 3, 4]);
        Self { random, hasher }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.below(from.len() as u64) as usize]
    }

    fn is(&mut self) -> bool {
        self.random.chance(0.5)
    }

    fn value(&mut self) -> &'static [u8] {
        self.pick(&VALUES)
    }

    fn values(&mut self, multiple: u64) -> Box<[&'static [u8]]> {
        let count = (1 + self.random.below(4)) * multiple;
        (0..count).map(|_| self.value()).collect()
    }

    fn expiry(&mut self, now_ms: u64) -> Expiry {
        match self.random.below(4) {
            0 => Expiry::Keep,
            1 => Expiry::At(now_ms + self.random.below(3000)),
            _ => Expiry::Never,
        }
    }

    fn condition(&mut self) -> Condition {
        match self.random.below(8) {
            0 => Condition::IfAbsent,
            1 => Condition::IfPresent,
            2 => Condition::IfVersion(self.random.below(20)),
            _ => Condition::Always,
        }
    }

    fn bound(&mut self) -> ScoreBound {
        ScoreBound { score: self.pick(&SCORES), is_exclusive: self.is() }
    }

    fn range(&mut self) -> SortedRange<'static> {
        let by = match self.random.below(3) {
            0 => SortedRangeBy::Rank {
                start: self.random.below(8) as i64 - 4,
                end: self.random.below(8) as i64 - 4,
            },
            1 => SortedRangeBy::Score { min: self.bound(), max: self.bound() },
            _ => SortedRangeBy::Member {
                min: self.is().then(|| (self.value(), self.is())),
                max: self.is().then(|| (self.value(), self.is())),
            },
        };
        SortedRange {
            by,
            reverse: self.is(),
            offset: self.random.below(3),
            count: self.random.below(6),
            with_scores: self.is(),
        }
    }

    fn members(&mut self) -> (Members, SortedAddOptions) {
        let mut options = SortedAddOptions::default();
        match self.random.below(8) {
            0 => options.if_absent = true,
            1 => options.if_present = true,
            2 => options.if_greater = true,
            3 => options.if_less = true,
            4 => options.count_changed = true,
            5 => options.increment = true,
            _ => {}
        }
        let count = match options.increment {
            true => 1,
            false => 1 + self.random.below(4),
        };
        let members = (0..count).map(|_| (self.pick(&SCORES), self.value()));
        (members.collect(), options)
    }

    fn kind(&mut self) -> ValueKind {
        self.pick(&[ValueKind::Hash, ValueKind::Set, ValueKind::SortedSet])
    }

    pub(crate) fn next(&mut self, now_ms: u64) -> Request<'static> {
        let key = self.pick(&KEYS);
        let operation = self.operation(now_ms);
        Request::new(key, &self.hasher, operation)
    }

    fn operation(&mut self, now_ms: u64) -> Operation<'static> {
        match self.random.below(32) {
            0 => Operation::Get,
            1 => Operation::GetAndExpire(self.expiry(now_ms)),
            2 => Operation::GetAndDelete,
            3 => Operation::GetRange {
                start: self.random.below(10) as i64 - 5,
                end: self.random.below(10) as i64 - 5,
            },
            4 => Operation::Length,
            5..=8 => Operation::Set {
                value: self.value(),
                options: SetOptions {
                    flags: self.random.below(3) as u32,
                    expiry: self.expiry(now_ms),
                    condition: self.condition(),
                    return_old: self.random.chance(0.2),
                },
            },
            9 => Operation::Append { value: self.value(), front: self.is(), create: self.is() },
            10 => Operation::SetRange { offset: self.random.below(50), value: self.value() },
            11 => Operation::Increment { delta: self.random.below(100) as i64 - 50 },
            12 => Operation::IncrementFloat {
                delta: self.pick(&[b"0.1" as &[u8], b"-3", b"1.0e2", b"x"]),
            },
            13 => Operation::Count(CounterChange {
                delta: self.random.below(20),
                down: self.is(),
                initial: self.is().then(|| (5, self.expiry(now_ms))),
                expiry: self.expiry(now_ms),
            }),
            14 => Operation::Delete {
                version: self.random.chance(0.2).then_some(self.random.below(20)),
            },
            15 => Operation::Inspect,
            16 => Operation::Expire {
                expiry: self.expiry(now_ms),
                condition: ExpiryCondition {
                    if_never: self.random.chance(0.1),
                    if_later: self.random.chance(0.1),
                    ..ExpiryCondition::default()
                },
            },
            17 => Operation::HashSet { fields: self.values(2).as_chunks().0.into() },
            18 => Operation::HashGet { fields: self.values(1) },
            19 => Operation::HashDelete { fields: self.values(1) },
            20 | 21 => {
                let (members, options) = self.members();
                Operation::SortedAdd { members, options }
            }
            22 => Operation::SortedRemove { members: self.values(1) },
            23 => Operation::HashAdd { field: self.value(), value: self.value() },
            24 => Operation::HashIncrement {
                field: self.value(),
                delta: self.random.below(100) as i64 - 50,
            },
            25 => Operation::HashIncrementFloat { field: self.value(), delta: b"1.5" },
            26 | 27 => Operation::SetAdd { members: self.values(1) },
            28 => Operation::SetRemove { members: self.values(1) },
            29 => Operation::Pop {
                kind: self.pick(&[ValueKind::Set, ValueKind::SortedSet]),
                count: self.random.below(3),
                which: match self.random.below(3) {
                    0 => Popped::Least,
                    1 => Popped::Greatest,
                    _ => Popped::Random(self.random.below(9)),
                },
            },
            30 => Operation::SortedRemoveRange(self.range()),
            _ => match self.random.below(6) {
                0 => Operation::HashGetAll,
                1 => Operation::SortedRange(self.range()),
                2 => Operation::Members(self.kind()),
                3 => Operation::Scores {
                    kind: self.pick(&[ValueKind::Set, ValueKind::SortedSet]),
                    members: self.values(1),
                },
                4 => Operation::Choose {
                    kind: self.kind(),
                    count: self.random.below(9) as i64 - 4,
                    seed: self.random.below(9),
                },
                _ => match self.is() {
                    true => Operation::SortedRank { member: self.value(), reverse: self.is() },
                    false => Operation::SortedCount(self.range()),
                },
            },
        }
    }
}
