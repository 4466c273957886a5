//! What figures of links and networks are about, in words; and evidence that cards lend each
//! other.

use crate::facts::Figure;
use crate::{
    Answer, Evidence, EvidenceLevel, Interval, Library, Outcome, ParameterValue, Prediction,
};
use crate::{MissingParameter, Values};

/// What a figure is about, in lower case.
pub(super) struct About {
    pub(super) keys: String,
    pub(super) device: String,
    pub(super) workload: String,
    pub(super) metric: String,
    pub(super) conditions: String,
    pub(super) paper: String,
    pub(super) percent: bool,
    pub(super) negative: bool,
}

impl About {
    pub(super) fn of(figure: &Figure<'_>) -> Self {
        let fact = figure.fact;
        let unit = figure.unit.trim();
        let value = figure.value.to_string();
        Self {
            keys: figure.path.join(" ").to_lowercase(),
            device: fact.device.to_lowercase(),
            workload: fact.workload.to_lowercase(),
            metric: fact.metric.to_lowercase(),
            conditions: fact.conditions.to_lowercase(),
            paper: fact.paper.chars().take(3).collect(),
            percent: unit.starts_with('%'),
            negative: value.trim_start().starts_with('-'),
        }
    }

    /// Whether a word stands anywhere.
    pub(super) fn says(&self, word: &str) -> bool {
        self.texts().iter().any(|text| text.contains(word))
    }

    pub(super) fn texts(&self) -> [&str; 5] {
        [
            &self.keys,
            &self.device,
            &self.workload,
            &self.metric,
            &self.conditions,
        ]
    }

    /// One of the figure's units: a percentage counts hundredths, downwards where it is negative.
    pub(super) fn unit(&self) -> f64 {
        match (self.percent, self.negative) {
            (true, true) => -0.01,
            (true, false) => 0.01,
            _ => 1.0,
        }
    }

    /// The profile of a card of this study, by generation.
    pub(super) fn profile(&self, generation: u8) -> &'static str {
        match (generation, self.paper.as_str()) {
            (1, _) => "bf1",
            (2, "000" | "001") => "bf2",
            (2, _) => "bf2-200g",
            (_, "000" | "001") => "bf3",
            _ => "bf3-8c",
        }
    }

    /// The profiles of the cards that a text names, in its order.
    pub(super) fn cards_in(&self, text: &str) -> Vec<&'static str> {
        let text = text.replace(['-', '_', ' '], "");
        let mut found: Vec<(usize, u8)> = [1_u8, 2, 3]
            .into_iter()
            .filter_map(|generation| Some((text.find(&format!("bf{generation}"))?, generation)))
            .collect();
        if text.contains("bf1/2") {
            found.push((usize::MAX, 2));
        }
        found.sort_unstable();
        (found.into_iter())
            .map(|(_, generation)| self.profile(generation))
            .collect()
    }

    /// The cards that it is about: as the keys have it, else the device.
    pub(super) fn cards(&self) -> Vec<&'static str> {
        let named = self.cards_in(&self.keys);
        if named.is_empty() {
            self.cards_in(&self.device)
        } else {
            named
        }
    }
}

/// All sizes with a unit of bytes that a text names, in its order.
pub(super) fn sizes(text: &str) -> Vec<f64> {
    let text = text.replace(['<', '>', '='], " ").replace(['-', ','], " ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let unit = |word: &str| match word.trim_end_matches([';', ')', '.']) {
        "b" => Some(1.0),
        "kb" | "kib" => Some(1024.0),
        "mb" | "mib" => Some(1024.0 * 1024.0),
        _ => None,
    };
    let pairs = words.windows(2);
    pairs
        .filter_map(|pair| Some(pair[0].parse::<f64>().ok()? * unit(pair[1])?))
        .filter(|bytes| *bytes > 0.0)
        .collect()
}

/// The first whole number before one of `words` in a text, as in `8T` or `4 threads`.
pub(super) fn count_before(text: &str, words: &[&str]) -> Option<f64> {
    words.iter().find_map(|word| {
        text.match_indices(word).find_map(|(at, _)| {
            let before = text[..at].trim_end_matches([' ', '-']);
            let digits = before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            let count: f64 = before[digits..].parse().ok()?;
            (1.0..=1024.0).contains(&count).then_some(count)
        })
    })
}

/// Who is asked first for what a machine lacks.
const LENDERS: [&str; 7] = [
    "bf2-200g",
    "bf3-8c",
    "bf2",
    "bf3",
    "bf1",
    "host-dpbento",
    "host-idio",
];

/// What differs between generations by more than a half, and says nothing of another.
const OWN: [&str; 10] = [
    "dma.event.initiator",
    "dma.event.throughput",
    "dma.event.throughput.initiator",
    "rdma.dpu.read.large",
    "rdma.onpath.read.large",
    "rdma.onpath.send.large",
    "rdma.onpath.write.large",
    "tcp.slowpath.deficit",
    "tcp.sm1.rate",
    "tcp.sm2.rate",
];

/// What machines know of their links, and what they may lend each other.
pub(crate) struct Loans {
    own: Evidence,
    lent: Evidence,
}

impl Loans {
    /// Of those profiles. Hosts lend to hosts and cards to cards.
    pub(crate) fn of(library: &Library, machines: &[&str]) -> Self {
        let own = library.evidence(machines);
        let mut lent = own.clone();
        for machine in machines {
            let is_host = machine.starts_with("host");
            let lenders = LENDERS.iter().filter(|one| *one != machine);
            for lender in lenders.filter(|one| one.starts_with("host") == is_host) {
                lend(library, machine, lender, &mut lent);
            }
        }
        Self { own, lent }
    }

    /// Predicts from what they know themselves, else with what others lend.
    pub(crate) fn predict<F, O>(&self, closeness: EvidenceLevel, formula: F) -> Answer
    where
        F: Fn(&Values<'_>) -> Result<O, MissingParameter>,
        O: Into<Outcome>,
    {
        (self.own.predict(closeness, &formula)).or_else(|why| {
            (self.lent.predict(EvidenceLevel::Application, &formula)).map_err(|_| why)
        })
    }

    /// Whether a machine knows a parameter itself.
    pub(crate) fn knows(&self, machine: &str, name: &str) -> bool {
        self.own.get(&format!("{machine}/{name}")).is_some()
    }
}

fn lend(library: &Library, machine: &str, lender: &str, lent: &mut Evidence) {
    let theirs = library.evidence(&[lender]);
    let rate = |evidence: &Evidence, of: &str| match evidence.get(&format!("{of}/pcie.rate")) {
        Some(ParameterValue::Quantity(quantity)) => {
            Some((quantity.interval().typ, quantity.clone()))
        }
        _ => None,
    };
    for (name, known) in theirs.iter() {
        let Some(name) = name.strip_prefix(&format!("{lender}/")) else {
            continue;
        };
        let to = format!("{machine}/{name}");
        let moves = ["dma.", "rdma.", "tcp."]
            .iter()
            .any(|it| name.starts_with(it));
        if !moves || OWN.contains(&name) || lent.get(&to).is_some() {
            continue;
        }
        let mut known = known.clone();
        // What saturates a link saturates another one at the same share of it.
        if let (true, ParameterValue::Quantity(peak)) = (
            name.starts_with("dma.") && name.ends_with(".peak"),
            &mut known,
        ) {
            let (Some(mine), Some(other)) = (rate(lent, machine), rate(&theirs, lender)) else {
                continue;
            };
            for one in [&mut peak.value, &mut peak.low, &mut peak.high] {
                *one = one.map(|value| value * mine.0 / other.0);
            }
            peak.facts.extend(mine.1.facts);
        }
        lent.insert(to, known);
    }
}

/// One answer for a figure that covers several cases: the middle of the typical predictions,
/// within all their intervals.
pub(super) fn span(answers: Vec<Answer>) -> Answer {
    over(answers, |least, most| (least * most).sqrt())
}

/// The largest of several cases.
pub(super) fn largest(answers: Vec<Answer>) -> Answer {
    let mut best: Option<Prediction> = None;
    for answer in answers {
        let one = answer?;
        if (best.as_ref()).is_none_or(|best| one.interval.typ > best.interval.typ) {
            best = Some(one);
        }
    }
    best.ok_or_else(nothing)
}

fn nothing() -> crate::NoPrediction {
    crate::NoPrediction {
        why: "the figure names no case".into(),
        remedy: "look at its conditions: `overside facts show`".into(),
    }
}

fn over(answers: Vec<Answer>, middle: fn(f64, f64) -> f64) -> Answer {
    let mut all: Option<(Prediction, f64, f64)> = None;
    for answer in answers {
        let one = answer?;
        let typ = one.interval.typ;
        all = Some(match all {
            None => (one, typ, typ),
            Some((mut whole, least, most)) => {
                whole.interval = Interval {
                    low: whole.interval.low.min(one.interval.low),
                    typ,
                    high: whole.interval.high.max(one.interval.high),
                };
                whole.closeness = whole.closeness.max(one.closeness);
                whole.facts.extend(one.facts);
                whole.facts.sort();
                whole.facts.dedup();
                for influence in one.influences {
                    if !(whole.influences.iter()).any(|it| it.parameter == influence.parameter) {
                        whole.influences.push(influence);
                    }
                }
                (whole, least.min(typ), most.max(typ))
            }
        });
    }
    let (mut whole, least, most) = all.ok_or_else(nothing)?;
    whole.interval.typ = middle(least, most);
    Ok(whole)
}
