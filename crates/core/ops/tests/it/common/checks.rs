//! Properties of arbitrary bytes, as entry functions. The fuzzer calls them, and a test replays the
//! fuzzer's corpora with them.

#[path = "made.rs"]
mod made;

use overside_ops::{
    Config, Error, Format, Kernel, MatchKind, Operation, Output, prepare, variants,
};
use regex::bytes::{Captures, Regex, RegexBuilder};

pub(crate) const FORMATS: [Format; 7] = [
    Format::Deflate,
    Format::Zlib,
    Format::Gzip,
    Format::Lz4Block,
    Format::Lz4,
    Format::Zstd,
    Format::DeflatePart,
];

/// Checks that all variants agree about a stream and write nothing outside the room. The first byte
/// chooses a format, the next two the room; the rest is the stream, which need not be valid.
pub(crate) fn decompress(data: &[u8]) {
    let [format, low, high, stream @ ..] = data else {
        return;
    };
    let format = FORMATS[usize::from(*format) % FORMATS.len()];
    let capacity = usize::from(u16::from_le_bytes([*low, *high]));
    let mut accepted: Option<(Vec<u8>, &str)> = None;
    for variant in variants(Operation::Decompress(format)) {
        let mut kernel = kernel(Operation::Decompress(format), variant.name);
        let content = match guarded(&mut *kernel, stream, capacity) {
            Ok((content, _)) => content,
            Err(Error::OutputTooSmall { capacity: said }) => {
                assert_eq!(said, capacity);
                continue;
            }
            Err(Error::Corrupt(reason)) => {
                assert!(!reason.is_empty());
                continue;
            }
            Err(other) => panic!("{}: {other}", variant.name),
        };
        // The same kernel, with room for exactly that, and with one byte less. The C library's LZ4
        // decoder only refuses a block that ends in a match if that is near the end of the room.
        let c_lz4 = variant.name == "lz4";
        match guarded(&mut *kernel, stream, content.len()) {
            Ok((exact, _)) => assert!(exact == content, "{} {format:?}", variant.name),
            Err(Error::Corrupt(_)) if c_lz4 => {}
            Err(error) => panic!("{} {format:?}: {error}", variant.name),
        }
        if let Some(less) = content.len().checked_sub(1) {
            let short = guarded(&mut *kernel, stream, less).unwrap_err();
            assert_eq!(short, Error::OutputTooSmall { capacity: less }, "{}", variant.name);
        }
        if let Some((expected, other)) = &accepted {
            assert!(content == *expected, "{other} and {} differ", variant.name);
        }
        accepted = Some((content, variant.name));
    }
}

/// Checks that each variant restores what another one compressed, and that less room only leads to
/// a refusal. The first byte chooses a format, the second a level; the rest is the content.
pub(crate) fn compress(data: &[u8]) {
    let [format, level, content @ ..] = data else {
        return;
    };
    let format = FORMATS[usize::from(*format) % FORMATS.len()];
    for variant in variants(Operation::Compress(format)) {
        let level = variant.levels.as_ref().map(|(range, _)| {
            range.start() + u32::from(*level) % (range.end() - range.start() + 1)
        });
        let config = Config {
            variant: variant.name.into(),
            level,
            ..Config::new(Operation::Compress(format))
        };
        let mut compressor = prepare(&config).unwrap().kernel().unwrap();
        let room = content.len() + content.len() / 8 + 1024;
        let (stream, _) = guarded(&mut *compressor, content, room).unwrap();
        if let Ok((other, _)) = guarded(&mut *compressor, content, stream.len() - 1) {
            assert!(other.len() < stream.len());
            restores(format, &other, content);
        }
        restores(format, &stream, content);
    }
}

fn restores(format: Format, stream: &[u8], content: &[u8]) {
    for variant in variants(Operation::Decompress(format)) {
        let mut kernel = kernel(Operation::Decompress(format), variant.name);
        let restored = guarded(&mut *kernel, stream, content.len());
        assert_eq!(restored.unwrap().0, content, "{} {format:?}", variant.name);
    }
}

/// Checks that engines agree with the `regex` crate, which matches each original pattern record by
/// record. If the first byte is 0x80 or more, it chooses one engine and one kind of answer, and
/// patterns and text are made from the rest ([`made`]). Otherwise the data are patterns up to the
/// first 0xff byte, separated by 0xfe, and then text; all engines run with every kind of answer.
pub(crate) fn matching(data: &[u8]) {
    if let Some((how, rest)) = data.split_first()
        && *how >= 0x80
    {
        return made_matching(usize::from(how & 0x7f), rest);
    }
    let Some(end) = data.iter().position(|&byte| byte == 0xff) else {
        return;
    };
    let (patterns, text) = (&data[..end], &data[end + 1..]);
    let Ok(patterns) = patterns
        .split(|&byte| byte == 0xfe)
        .map(|pattern| String::from_utf8(pattern.to_vec()))
        .collect::<Result<Vec<_>, _>>()
    else {
        return;
    };
    matching_agrees(&patterns, text);
}

/// Checks one engine with one kind of answer: compiling takes most of the time.
fn made_matching(how: usize, data: &[u8]) {
    let mut bytes = made::Bytes::new(data);
    let patterns = bytes.patterns();
    let text = bytes.text();
    let expected = Expected::new(&oracle(&patterns).expect("valid patterns"), &text);
    let kinds = [MatchKind::Count, MatchKind::Search, MatchKind::Bitmap, MatchKind::Groups];
    let (kind, engine) = (kinds[how % 4], how / 4 % 5);
    let operation = Operation::Match(kind);
    let variant = variants(operation).get(engine).map_or("auto", |one| one.name);
    let config = Config { patterns: patterns.clone(), ..config(operation, variant, &[]) };
    let prepared = match prepare(&config) {
        Ok(prepared) => prepared,
        Err(Error::Pattern { .. }) => return,
        Err(other) => panic!("{variant}: {other}"),
    };
    let mut kernel = prepared.kernel().unwrap();
    let room = match kind {
        MatchKind::Groups => operation.result_bytes_max(&patterns, text.len() as u64) as usize,
        _ => expected.bitmap.len(),
    };
    let (answer, output) = guarded(&mut *kernel, &text, room).unwrap();
    let context = || format!("{variant} {kind:?} {patterns:?} {}", text.escape_ascii());
    let value = match kind {
        MatchKind::Search => expected.first,
        MatchKind::Count | MatchKind::Bitmap => Some(expected.count),
        MatchKind::Groups => Some(expected.matches),
    };
    assert_eq!(output.value, value, "{}", context());
    match kind {
        MatchKind::Bitmap => assert_eq!(answer, expected.bitmap, "{}", context()),
        MatchKind::Groups => assert_eq!(answer, expected.groups, "{}", context()),
        MatchKind::Search | MatchKind::Count => {}
    }
}

/// Compiles the patterns with the `regex` crate. Returns `None` if it refuses one.
fn oracle(patterns: &[String]) -> Option<Vec<Regex>> {
    (patterns.iter())
        .map(|pattern| RegexBuilder::new(pattern).unicode(false).build().ok())
        .collect()
}

/// Checks patterns and text like [`matching`]. Returns the number of engines that accepted the patterns.
pub(crate) fn matching_agrees(patterns: &[String], text: &[u8]) -> usize {
    let oracle = oracle(patterns);
    let mut taken = 0;
    for variant in variants(Operation::Match(MatchKind::Count)) {
        let with = |kind| Config {
            patterns: patterns.to_vec(),
            ..config(Operation::Match(kind), variant.name, &[])
        };
        let kernel = |kind| prepare(&with(kind)).unwrap().kernel().unwrap();
        let mut count = match prepare(&with(MatchKind::Count)) {
            Ok(prepared) => prepared.kernel().unwrap(),
            Err(Error::Pattern { .. } | Error::NoPattern) => continue,
            Err(other) => panic!("{}: {other}", variant.name),
        };
        taken += 1;
        let oracle = oracle.as_ref().expect("an engine takes what the regex crate does not");
        let expected = Expected::new(oracle, text);
        let context = || format!("{} {patterns:?} {}", variant.name, text.escape_ascii());
        let run = |kernel: &mut dyn Kernel| guarded(kernel, text, expected.bitmap.len()).unwrap();
        assert_eq!(run(&mut *count).1.value, Some(expected.count), "{}", context());
        assert_eq!(run(&mut *kernel(MatchKind::Search)).1.value, expected.first, "{}", context());
        let (bits, output) = run(&mut *kernel(MatchKind::Bitmap));
        assert_eq!(bits, expected.bitmap, "{}", context());
        assert_eq!(output.value, Some(expected.count));
        let mut groups = match prepare(&with(MatchKind::Groups)) {
            Ok(prepared) => prepared.kernel().unwrap(),
            // All records match, or none can, so there are no literals to look for.
            Err(Error::Pattern { .. }) if ["literal", "hyperscan"].contains(&variant.name) => {
                continue;
            }
            Err(other) => panic!("{}: {other}", variant.name),
        };
        let room = Operation::Match(MatchKind::Groups).result_bytes_max(patterns, text.len() as u64)
            as usize;
        let (answer, output) = guarded(&mut *groups, text, room).unwrap();
        assert_eq!(answer, expected.groups, "{}", context());
        assert_eq!(output.value, Some(expected.matches));
        if let Some(less) = answer.len().checked_sub(1) {
            let short = guarded(&mut *groups, text, less).unwrap_err();
            assert_eq!(short, Error::OutputTooSmall { capacity: less });
        }
    }
    taken
}

struct Expected {
    first: Option<u64>,
    count: u64,
    bitmap: Vec<u8>,
    /// Number of matches. `groups` contains the matches with their groups, in the format of kernels.
    matches: u64,
    groups: Vec<u8>,
}

impl Expected {
    fn new(patterns: &[Regex], text: &[u8]) -> Self {
        let mut records: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
        if records.last().is_some_and(|last| last.is_empty()) {
            records.pop();
        }
        let mut expected = Self {
            first: None,
            count: 0,
            bitmap: vec![0; records.len().div_ceil(8)],
            matches: 0,
            groups: Vec::new(),
        };
        let mut begin = 0;
        for (index, record) in records.into_iter().enumerate() {
            if patterns.iter().any(|pattern| pattern.is_match(record)) {
                expected.first.get_or_insert(begin);
                expected.count += 1;
                expected.bitmap[index / 8] |= 1 << (index % 8);
                expected.add_groups(patterns, record, begin as usize);
            }
            begin += record.len() as u64 + 1;
        }
        expected
    }

    /// Adds the matches in a record that begins at `offset`.
    fn add_groups(&mut self, patterns: &[Regex], record: &[u8], offset: usize) {
        let mut from = 0;
        while from <= record.len() {
            let found = (patterns.iter().enumerate())
                .filter_map(|(index, pattern)| Some((index, pattern.captures_at(record, from)?)));
            let start = |captures: &Captures<'_>| captures.get(0).unwrap().start();
            let Some((index, captures)) = found.min_by_key(|one| (start(&one.1), one.0)) else {
                return;
            };
            let whole = captures.get(0).unwrap().range();
            if !whole.is_empty() {
                let place = |at: usize| ((offset + at) as u32).to_le_bytes();
                self.matches += 1;
                self.groups.extend((index as u32).to_le_bytes());
                for group in captures.iter() {
                    self.groups.extend(match group {
                        Some(group) => [place(group.start()), place(group.end())].concat(),
                        None => vec![0xff; 8],
                    });
                }
            }
            from = whole.end.max(whole.start + 1);
        }
    }
}

/// Makes a kernel of the named variant.
pub(crate) fn kernel(operation: Operation, variant: &str) -> Box<dyn Kernel> {
    prepare(&config(operation, variant, &[])).unwrap().kernel().unwrap()
}

/// Returns the configuration of an operation by the named variant, with patterns.
pub(crate) fn config(operation: Operation, variant: &str, patterns: &[&str]) -> Config {
    Config {
        variant: variant.into(),
        patterns: patterns.iter().map(ToString::to_string).collect(),
        ..Config::new(operation)
    }
}

/// Runs a kernel with room for `capacity` bytes and checks that it writes nowhere else.
pub(crate) fn guarded(
    kernel: &mut dyn Kernel,
    source: &[u8],
    capacity: usize,
) -> Result<(Vec<u8>, Output), Error> {
    const GUARD: usize = 64;
    const MARK: u8 = 0xa5;
    let mut memory = vec![MARK; capacity + 2 * GUARD];
    let result = kernel.run(&[source], &mut memory[GUARD..GUARD + capacity]);
    let intact = |guard: &[u8]| guard.iter().all(|&byte| byte == MARK);
    assert!(intact(&memory[..GUARD]), "wrote before the destination");
    assert!(intact(&memory[GUARD + capacity..]), "wrote behind the destination");
    let output = result?;
    Ok((memory[GUARD..GUARD + output.written].to_vec(), output))
}
