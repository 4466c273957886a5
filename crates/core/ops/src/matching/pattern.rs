//! Patterns in a form that means the same to every engine.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, HirKind, Look};

use crate::Error;

/// Maximum number of patterns of one matcher.
const MAX_PATTERNS: usize = 1000;
/// Maximum length in bytes of a pattern.
const MAX_PATTERN_BYTES: usize = 1000;
const MAX_SET_BYTES: usize = 100_000;
/// Maximum nesting of groups.
const MAX_NESTING: u32 = 100;
/// Maximum of a counted repetition, multiplied by the counted repetitions inside it: RE2's limit.
const MAX_REPETITION: u64 = 1000;
/// Maximum number of bytes and classes that a set may gain when counted repetitions are expanded:
/// engines compile such sets in less than a second.
const MAX_GROWTH: u64 = 20_000;
/// Maximum memory in bytes that an engine may use for its program or its caches.
pub(super) const MAX_PROGRAM_BYTES: usize = 64 << 20;

/// Result of simplifying a set of patterns.
pub(super) enum Patterns {
    /// No record can match.
    Never,
    /// Every record matches.
    Always,
    /// The result depends on the record.
    Some(Vec<Compiled>),
}

/// Rewritten pattern.
#[derive(Debug)]
pub(super) struct Compiled {
    /// Expression that the engines get. In it, `^` and `$` match the ends of lines.
    pub(super) expression: String,
    /// Syntax tree of the pattern.
    node: Node,
    /// Pattern as the user wrote it.
    source: String,
}

impl Patterns {
    /// Parses patterns and removes parts that cannot change which records match.
    ///
    /// # Errors
    /// [`Error::NoPattern`], [`Error::Pattern`].
    pub(super) fn parse(sources: &[String]) -> Result<Self, Error> {
        let first = sources.first().ok_or(Error::NoPattern)?;
        if sources.len() > MAX_PATTERNS {
            let reason = format!("it is one of {}; {MAX_PATTERNS} are taken", sources.len());
            return Err(refused(first, reason));
        }
        let (mut bytes, mut growth) = (0, 0u64);
        let mut always = false;
        let mut patterns = Vec::new();
        for source in sources {
            let node = parse(source).map_err(|reason| refused(source, reason))?;
            bytes += source.len();
            growth = growth.saturating_add(node.growth());
            if growth > MAX_GROWTH || node.repetition() > MAX_REPETITION {
                return Err(refused(source, "its repetitions are too large".into()));
            }
            if bytes > MAX_SET_BYTES {
                return Err(refused(source, "with it the patterns are too large".into()));
            }
            match node.needed() {
                Node::Never => {}
                Node::Concat(nodes) if nodes.is_empty() => always = true,
                node => {
                    let mut expression = String::new();
                    node.write(&mut expression);
                    patterns.push(Compiled { expression, node, source: source.clone() });
                }
            }
        }
        Ok(match patterns.is_empty() {
            _ if always => Self::Always,
            true => Self::Never,
            false => Self::Some(patterns),
        })
    }
}

impl Compiled {
    /// Compiles a set as one alternation. If that fails, compiles each pattern alone to find the
    /// one that causes the error.
    pub(super) fn all<T>(
        patterns: &[Self],
        compile: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Error> {
        let all = patterns.iter().map(|pattern| format!("(?:{})", pattern.expression));
        compile(&all.collect::<Vec<_>>().join("|")).map_err(|reason| {
            Self::blame(patterns, reason, |pattern| compile(&pattern.expression).err())
        })
    }

    /// Returns the syntax tree of the pattern.
    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    /// Returns the parts of the pattern in order. A pattern that is not a sequence is a single
    /// part.
    pub(super) fn parts(&self) -> &[Node] {
        match &self.node {
            Node::Concat(parts) => parts,
            node => std::slice::from_ref(node),
        }
    }

    /// Returns the error for this pattern.
    pub(super) fn refused(&self, reason: String) -> Error {
        refused(&self.source, reason)
    }

    /// Returns the error for a set that an engine refuses for `reason`: for the first pattern that
    /// is refused by itself, otherwise for the first one.
    pub(super) fn blame(
        patterns: &[Self],
        reason: String,
        refusal: impl Fn(&Self) -> Option<String>,
    ) -> Error {
        let one = patterns.iter().find_map(|pattern| Some((pattern, refusal(pattern)?)));
        let (pattern, reason) = one.unwrap_or((&patterns[0], reason));
        refused(&pattern.source, reason)
    }
}

pub(super) fn refused(source: &str, reason: String) -> Error {
    // The message has to fit on a screen.
    let mut pattern: String = source.chars().take(200).collect();
    if pattern.len() < source.len() {
        pattern.push('…');
    }
    Error::Pattern { pattern, reason }
}

fn parse(source: &str) -> Result<Node, String> {
    if source.len() > MAX_PATTERN_BYTES {
        return Err(format!("it is longer than {MAX_PATTERN_BYTES} bytes"));
    }
    Node::from_hir(&parse_hir(source)?)
}

/// Parses a pattern that matches bytes, not characters. The error is the parser's message.
pub(super) fn parse_hir(source: &str) -> Result<Hir, String> {
    let mut parser =
        ParserBuilder::new().unicode(false).utf8(false).nest_limit(MAX_NESTING).build();
    parser.parse(source).map_err(|error| match &error {
        regex_syntax::Error::Parse(error) => error.kind().to_string(),
        regex_syntax::Error::Translate(error) => error.kind().to_string(),
        _ => error.to_string(),
    })
}

/// Pattern without captures, greediness and line ends: none of these changes which records match.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// Matches nothing.
    Never,
    Byte(u8),
    /// Set of more than one byte, never with `\n`.
    Class(Vec<(u8, u8)>),
    Begin,
    End,
    WordBoundary,
    NoWordBoundary,
    Repeat {
        node: Box<Node>,
        min: u32,
        max: Option<u32>,
    },
    /// Parts one after the other; without parts, the empty match.
    Concat(Vec<Node>),
    /// At least two alternatives.
    Either(Vec<Node>),
}

const EMPTY: Node = Node::Concat(Vec::new());

impl Node {
    pub(super) fn from_hir(hir: &Hir) -> Result<Self, String> {
        Ok(match hir.kind() {
            HirKind::Empty => EMPTY,
            HirKind::Literal(literal) => {
                Self::concat(literal.0.iter().map(|&byte| Self::class(&[(byte, byte)])))
            }
            HirKind::Class(class) => Self::class(&byte_ranges(class)?),
            HirKind::Look(look) => match look {
                // A pattern sees one record only.
                Look::Start | Look::StartLF => Self::Begin,
                Look::End | Look::EndLF => Self::End,
                Look::WordAscii => Self::WordBoundary,
                Look::WordAsciiNegate => Self::NoWordBoundary,
                _ => return Err(format!("{:?} is not supported", hir.to_string())),
            },
            HirKind::Repetition(repetition) => {
                Self::repeat(Self::from_hir(&repetition.sub)?, repetition.min, repetition.max)
            }
            HirKind::Capture(capture) => Self::from_hir(&capture.sub)?,
            HirKind::Concat(parts) => Self::concat(Self::from_hirs(parts)?),
            HirKind::Alternation(parts) => Self::either(Self::from_hirs(parts)?),
        })
    }

    fn from_hirs(parts: &[Hir]) -> Result<Vec<Self>, String> {
        parts.iter().map(Self::from_hir).collect()
    }

    /// Returns the class of these bytes without `\n`, which no record contains.
    fn class(ranges: &[(u8, u8)]) -> Self {
        let mut class = ClassBytes::new(ranges.iter().map(|&(a, b)| ClassBytesRange::new(a, b)));
        class.difference(&ClassBytes::new([ClassBytesRange::new(b'\n', b'\n')]));
        let ranges: Vec<_> = class.iter().map(|range| (range.start(), range.end())).collect();
        match ranges.as_slice() {
            [] => Self::Never,
            [(a, b)] if a == b => Self::Byte(*a),
            _ => Self::Class(ranges),
        }
    }

    fn repeat(node: Self, min: u32, max: Option<u32>) -> Self {
        match (&node, min, max) {
            (_, _, Some(0)) => EMPTY,
            (Self::Never, 0, _) => EMPTY,
            (Self::Never, ..) => Self::Never,
            (_, 1, Some(1)) => node,
            // Repeating an empty match changes nothing.
            (node, 0, _) if node.is_look_or_empty() => EMPTY,
            (node, ..) if node.is_look_or_empty() => node.clone(),
            // `(?:x+)+` and similar nestings are one repetition.
            (
                Self::Repeat { node, min: inner_min @ (0 | 1), max: inner_max @ (None | Some(1)) },
                0 | 1,
                None | Some(1),
            ) => Self::Repeat { node: node.clone(), min: min * inner_min, max: inner_max.and(max) },
            _ => Self::Repeat { node: Box::new(node), min, max },
        }
    }

    fn is_look_or_empty(&self) -> bool {
        match self {
            Self::Begin | Self::End | Self::WordBoundary | Self::NoWordBoundary => true,
            Self::Concat(parts) | Self::Either(parts) => parts.iter().all(Self::is_look_or_empty),
            _ => false,
        }
    }

    fn concat(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut flat = Vec::new();
        for part in parts {
            match part {
                Self::Never => return Self::Never,
                Self::Concat(inner) => flat.extend(inner),
                part => flat.push(part),
            }
        }
        match flat.len() {
            1 => flat.remove(0),
            _ => Self::Concat(flat),
        }
    }

    fn either(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut parts: Vec<_> = parts.into_iter().filter(|part| *part != Self::Never).collect();
        match parts.len() {
            0 => Self::Never,
            1 => parts.remove(0),
            _ => Self::Either(parts),
        }
    }

    /// Returns the number of bytes and classes that it gains when counted repetitions are expanded.
    pub(super) fn growth(&self) -> u64 {
        self.positions() - self.written()
    }

    /// Returns the number of bytes and classes, with repetitions expanded.
    fn positions(&self) -> u64 {
        let sum = |parts: &[Self]| {
            parts.iter().fold(1u64, |sum, part| sum.saturating_add(part.positions()))
        };
        match self {
            Self::Repeat { node, min, max } => {
                let times = max.unwrap_or(*min).max(1);
                node.positions().saturating_mul(times.into())
            }
            Self::Concat(parts) | Self::Either(parts) => sum(parts),
            _ => 1,
        }
    }

    /// Returns the number of bytes and classes in the pattern as it is written.
    fn written(&self) -> u64 {
        match self {
            Self::Repeat { node, .. } => node.written(),
            Self::Concat(parts) | Self::Either(parts) => {
                1 + parts.iter().map(Self::written).sum::<u64>()
            }
            _ => 1,
        }
    }

    /// Returns the number of parts that are not plain bytes.
    pub(super) fn constructs(&self) -> u64 {
        match self {
            Self::Never | Self::Byte(_) => 0,
            Self::Repeat { node, .. } => 1 + node.constructs(),
            Self::Concat(parts) => parts.iter().map(Self::constructs).sum(),
            Self::Either(parts) => parts.iter().map(|part| 1 + part.constructs()).sum(),
            _ => 1,
        }
    }

    /// Returns the number of optional parts, with repetitions expanded.
    pub(super) fn optional(&self) -> u64 {
        match self {
            Self::Repeat { node, min, max } => {
                let is_single = matches!(**node, Self::Byte(_) | Self::Class(_));
                let own = match max {
                    Some(max) if !is_single => max - min,
                    Some(max) => u32::from(max > min),
                    None => 1,
                };
                let times = u64::from(max.unwrap_or(*min).max(1));
                u64::from(own).saturating_add(node.optional().saturating_mul(times))
            }
            Self::Concat(parts) => {
                parts.iter().fold(0, |sum, part| sum.saturating_add(part.optional()))
            }
            Self::Either(parts) => parts.iter().fold(0, |sum, part| {
                sum.saturating_add(u64::from(*part == EMPTY)).saturating_add(part.optional())
            }),
            _ => 0,
        }
    }

    /// Returns the depth of nested repetitions.
    pub(super) fn nesting(&self) -> u32 {
        match self {
            Self::Repeat { node, .. } => 1 + node.nesting(),
            Self::Concat(parts) | Self::Either(parts) => {
                parts.iter().map(Self::nesting).max().unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Returns the largest product of nested counted repetitions.
    fn repetition(&self) -> u64 {
        match self {
            Self::Repeat { node, min, max } => {
                let times = u64::from(max.unwrap_or(*min).max(1));
                node.repetition().saturating_mul(times)
            }
            Self::Concat(parts) | Self::Either(parts) => {
                parts.iter().map(Self::repetition).max().unwrap_or(1)
            }
            _ => 1,
        }
    }

    /// Returns the shortest pattern that matches in the same records: repetitions at either end are
    /// cut to their minimum. `.*foo.*` becomes `foo`; `(.+) on (.+)` becomes `. on .`.
    fn needed(self) -> Self {
        self.needed_at(Edge::First).needed_at(Edge::Last)
    }

    fn needed_at(self, edge: Edge) -> Self {
        match self {
            Self::Repeat { min: 0, .. } => EMPTY,
            Self::Repeat { node, min: 1, .. } => node.needed_at(edge),
            Self::Repeat { node, min, .. } => Self::repeat(*node, min, Some(min)),
            Self::Concat(mut parts) => {
                while !parts.is_empty() {
                    let at = edge.index(parts.len());
                    let part = parts.remove(at).needed_at(edge);
                    if part != EMPTY {
                        parts.insert(at, part);
                        break;
                    }
                }
                Self::concat(parts)
            }
            Self::Either(parts) => {
                let parts: Vec<_> = parts.into_iter().map(|part| part.needed_at(edge)).collect();
                match parts.contains(&EMPTY) {
                    true => EMPTY,
                    false => Self::either(parts),
                }
            }
            node => node,
        }
    }

    /// Appends the pattern in the syntax that the engines share.
    pub(super) fn write(&self, out: &mut String) {
        match self {
            // The constructors put none of these inside a pattern.
            Self::Never => out.push_str(r"[^\x00-\xff]"),
            Self::Byte(byte) => write_byte(*byte, out),
            Self::Class(ranges) => {
                out.push('[');
                for (first, last) in ranges {
                    write_byte(*first, out);
                    out.push('-');
                    write_byte(*last, out);
                }
                out.push(']');
            }
            Self::Begin => out.push('^'),
            Self::End => out.push('$'),
            Self::WordBoundary => out.push_str(r"\b"),
            Self::NoWordBoundary => out.push_str(r"\B"),
            Self::Repeat { node, min, max } => {
                write_group(std::slice::from_ref(node), "", out);
                write_times(*min, *max, out);
            }
            Self::Concat(parts) => parts.iter().for_each(|part| part.write(out)),
            Self::Either(parts) => write_group(parts, "|", out),
        }
    }
}

/// Beginning or end of a pattern.
#[derive(Clone, Copy)]
enum Edge {
    First,
    Last,
}

impl Edge {
    fn index(self, len: usize) -> usize {
        match self {
            Self::First => 0,
            Self::Last => len - 1,
        }
    }
}

fn byte_ranges(class: &Class) -> Result<Vec<(u8, u8)>, String> {
    let class = match class {
        Class::Bytes(class) => Some(class.clone()),
        // Only `(?u)` makes Unicode classes.
        Class::Unicode(class) => class.to_byte_class(),
    };
    let class = class.ok_or("it asks for Unicode; patterns match bytes")?;
    Ok(class.iter().map(|range| (range.start(), range.end())).collect())
}

fn write_group(parts: &[impl std::borrow::Borrow<Node>], separator: &str, out: &mut String) {
    out.push_str("(?:");
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            out.push_str(separator);
        }
        part.borrow().write(out);
    }
    out.push(')');
}

/// Appends the operator that repeats the preceding expression `min` to `max` times; `None` means
/// without maximum.
pub(super) fn write_times(min: u32, max: Option<u32>, out: &mut String) {
    out.push_str(&match (min, max) {
        (0, None) => "*".into(),
        (1, None) => "+".into(),
        (0, Some(1)) => "?".into(),
        (min, None) => format!("{{{min},}}"),
        (min, Some(max)) if min == max => format!("{{{min}}}"),
        (min, Some(max)) => format!("{{{min},{max}}}"),
    });
}

fn write_byte(byte: u8, out: &mut String) {
    match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b' ' => out.push(byte.into()),
        byte => out.push_str(&format!("\\x{byte:02x}")),
    }
}
