//! What a figure about codecs and engines is about, read from its words.

use crate::facts::{Figure, Kind};

/// A family of formats, or a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    /// DEFLATE, on CPUs by zlib.
    Deflate,
    /// DEFLATE by libdeflate.
    Libdeflate,
    /// LZ4.
    Lz4,
}

impl Codec {
    pub(in crate::claims) fn of(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        if text.contains("libdeflate") {
            Some(Self::Libdeflate)
        } else if text.contains("deflate") || text.contains("zlib") {
            Some(Self::Deflate)
        } else {
            text.contains("lz4").then_some(Self::Lz4)
        }
    }

    /// As in the names of parameters.
    pub(in crate::claims) fn name(self) -> &'static str {
        match self {
            Self::Deflate => "deflate",
            Self::Libdeflate => "libdeflate",
            Self::Lz4 => "lz4",
        }
    }
}

/// Which way data goes through a codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Uncompressed to compressed.
    Compress,
    /// Back.
    Decompress,
}

impl Way {
    pub(in crate::claims) fn of(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        if text.contains("decompress") {
            Some(Self::Decompress)
        } else {
            text.contains("compress").then_some(Self::Compress)
        }
    }

    pub(in crate::claims) fn name(self) -> &'static str {
        match self {
            Self::Compress => "compress",
            Self::Decompress => "decompress",
        }
    }
}

/// Who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::claims) enum Doer {
    /// The engine itself, by its own clock.
    Engine,
    /// The engine as a caller sees it who sets up a context for each input.
    Offload,
    /// A CPU core.
    Cpu,
}

/// A doer, and the machines that a figure averages over, by the names of their profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::claims) struct Side {
    pub doer: Doer,
    pub machines: Vec<&'static str>,
}

/// The cards of the co-processing study, their engines driven by their own cores.
pub(in crate::claims) const CARDS: [&str; 2] = ["bf2-soc", "bf3-soc"];
/// Its hosts.
pub(in crate::claims) const HOSTS: [&str; 2] = ["host-coproc-bf2", "host-coproc-bf3"];

fn generation(text: &str) -> Option<usize> {
    let two = text.contains("bf-2") || text.contains("bf2");
    let three = text.contains("bf-3") || text.contains("bf3");
    match (two, three) {
        (true, false) => Some(0),
        (false, true) => Some(1),
        _ => None,
    }
}

fn doer(text: &str) -> Option<Doer> {
    let has = |word: &str| text.contains(word);
    if has("asic") || has("rxp") || has("engine") {
        Some(Doer::Engine)
    } else if has("hw") || has("hardware") {
        Some(Doer::Offload)
    } else {
        (has("cpu") || has("arm") || has("host")).then_some(Doer::Cpu)
    }
}

/// The cores that a list such as `BF-3 ARM, BF-2 Host` names.
fn cpus(text: &str) -> Vec<&'static str> {
    let mut machines = Vec::new();
    let text = text.replace(" and ", ",").replace("cpus", "");
    for part in text.split([',', '/', '&', '+', '(', ')']) {
        let from = match (part.contains("arm"), part.contains("host")) {
            (true, _) => CARDS,
            (_, true) => HOSTS,
            _ => continue,
        };
        match generation(part) {
            Some(one) => machines.push(from[one]),
            None => machines.extend(from),
        }
    }
    if machines.is_empty() {
        machines.extend(CARDS);
        machines.extend(HOSTS);
    }
    machines.dedup();
    machines
}

impl Side {
    /// Of words such as `BF-2 HW`, `CPUs` or `BF-3 ASIC`; `otherwise` where they do not say who.
    pub(in crate::claims) fn of(text: &str, otherwise: Option<Doer>) -> Option<Self> {
        let text = text.to_lowercase();
        let doer = doer(&text).or(otherwise)?;
        let machines = match doer {
            Doer::Cpu => cpus(&text),
            _ => match generation(&text) {
                Some(one) => vec![CARDS[one]],
                None => CARDS.to_vec(),
            },
        };
        Some(Self { doer, machines })
    }

    /// Both sides of a ratio such as `CPUs/BF-2 HW` or `BF-3/BF-2 ASIC`.
    pub(in crate::claims) fn ratio(text: &str) -> Option<(Self, Self)> {
        let (left, right) = text.split_once('/')?;
        let own = |text: &str| doer(&text.to_lowercase());
        let either = own(left).or_else(|| own(right));
        Some((Self::of(left, either)?, Self::of(right, either)?))
    }
}

/// How much data a figure is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::claims) enum Amount {
    /// The files, each by itself, averaged.
    Files,
    /// All of the corpus, as its mean.
    Corpus,
    /// From the smallest inputs to the largest.
    Sweep,
    /// Inputs of that many bytes.
    At(f64),
    /// Inputs up to that many.
    Below(f64),
    /// Inputs from that many on.
    AtLeast(f64),
}

impl Amount {
    /// What a context for each input gives depends on the input so much that a range over all
    /// sizes has no middle: there the files count.
    pub(in crate::claims) fn for_doers(self, sides: &[&Side]) -> Self {
        let offloads = sides.iter().any(|side| side.doer == Doer::Offload);
        if self == Self::Sweep && offloads {
            Self::Files
        } else {
            self
        }
    }

    pub(in crate::claims) fn of(figure: &Figure<'_>) -> Self {
        let text = format!("{} {}", figure.fact.metric, figure.fact.conditions).to_lowercase();
        let sized = bytes_in(&text);
        match sized {
            Some(bytes) if text.contains(">=") || text.contains("above") => Self::AtLeast(bytes),
            Some(bytes) if text.contains('<') || text.contains("below") => Self::Below(bytes),
            Some(bytes) => Self::At(bytes),
            None if text.contains("small") => Self::Below(SMALL_BYTES),
            None if text.contains("plateau") || text.contains("large") => {
                Self::AtLeast(SMALL_BYTES)
            }
            None if text.contains("corpus") => Self::Corpus,
            None if is_range(figure) && !text.contains("mean") && !text.contains("file") => {
                Self::Sweep
            }
            None => Self::Files,
        }
    }
}

/// Inputs below it are called small.
pub(in crate::claims) const SMALL_BYTES: f64 = 10.0 * 1024.0 * 1024.0;
/// The smallest inputs that the study speaks of by their size.
pub(in crate::claims) const LEAST_BYTES: f64 = 100.0 * 1024.0;

fn is_range(figure: &Figure<'_>) -> bool {
    matches!(figure.value, crate::facts::FigureValue::Range(..))
}

/// The first size in a text: `100 KiB`, `512 MB`, `16383 B`.
pub(in crate::claims) fn bytes_in(text: &str) -> Option<f64> {
    let mut words = text
        .split(|c: char| c.is_whitespace() || "(),;=<>".contains(c))
        .filter(|word| !word.is_empty())
        .peekable();
    while let Some(word) = words.next() {
        let digits = word.trim_start_matches(|c: char| !c.is_ascii_digit());
        let end = digits
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(digits.len());
        let Ok(number) = digits[..end].parse::<f64>() else {
            continue;
        };
        let unit = match &digits[end..] {
            "" => words.peek().copied().unwrap_or_default(),
            glued => glued,
        };
        let scale = match unit.to_lowercase().as_str() {
            "b" | "byte" | "bytes" => 1.0,
            "kib" => 1024.0,
            "kb" => 1e3,
            "mib" => 1_048_576.0,
            "mb" => 1e6,
            "gib" => 1_073_741_824.0,
            "gb" => 1e9,
            _ => continue,
        };
        return Some(number * scale);
    }
    None
}

/// The first share in a text, as in `throughput @70 %`: 0 to 1.
pub(in crate::claims) fn share_in(text: &str) -> Option<f64> {
    let before = text
        .split('%')
        .next()
        .filter(|before| before.len() < text.len())?;
    let number = before.trim_end();
    let digits = number.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let percent: f64 = number[digits.len()..].parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

/// Whether a figure is one thing over another.
pub(in crate::claims) fn is_ratio(figure: &Figure<'_>) -> bool {
    figure.fact.kind == Kind::Ratio || figure.unit == "x"
}

/// One of the figure's units in base units; 1 for counts of things.
pub(in crate::claims) fn unit_in_base(figure: &Figure<'_>) -> f64 {
    figure.known_unit().map_or(1.0, crate::Unit::in_base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_machines_and_who_does_it() {
        let side = Side::of("BF-3 ARM, BF-2 Host, BF-3 Host", None).unwrap();
        assert_eq!(side.doer, Doer::Cpu);
        assert_eq!(side.machines, ["bf3-soc", HOSTS[0], HOSTS[1]]);
        let (left, right) = Side::ratio("BF-3/BF-2 ASIC").unwrap();
        assert_eq!(
            (left.machines, right.machines),
            (vec!["bf3-soc"], vec!["bf2-soc"])
        );
        assert_eq!(left.doer, Doer::Engine);
        let (left, right) = Side::ratio("CPUs/BF-2 HW").unwrap();
        assert_eq!((left.machines.len(), right.doer), (4, Doer::Offload));
        assert_eq!(
            Side::of("hosts + BF-3 ARM", None).unwrap().machines.len(),
            3
        );
        assert_eq!(Side::of("a card", None), None);
    }

    #[test]
    fn sizes_and_shares_are_read_with_their_units() {
        assert_eq!(bytes_in("CPU advantage near 100 KiB"), Some(102_400.0));
        assert_eq!(bytes_in("ratio at 512 MB"), Some(512e6));
        assert_eq!(bytes_in(">=7MiB"), Some(7_340_032.0));
        assert_eq!(bytes_in("4096 and 16383 B buffers"), Some(16_383.0));
        assert_eq!(bytes_in("throughput, 12 files"), None);
        assert_eq!(share_in("throughput @70 %"), Some(0.7));
        assert_eq!(share_in("plateau >= 40 %"), Some(0.4));
        assert_eq!(share_in("no share"), None);
        assert_eq!(share_in("%"), None);
    }
}
