//! Claims on figures of DMA between a host and its card, and of RDMA beside it (study 002, section
//! 3.3; study 000, section 5.5).

mod orderings;

use super::Claim;
use super::link_words::{About, Loans, largest, sizes, span};
use crate::Completion;
use crate::dma::{self, Access, Primitive, Transfer};
use crate::facts::Figure;
use crate::{Answer, EvidenceLevel, Initiator, Library, MissingParameter, Values};

pub(crate) use orderings::{ordered, ordering};

const SCENARIO: &str = "dma";
/// A transfer that is short beyond doubt, in bytes.
const SHORT: f64 = 64.0;
const MIB: f64 = 1024.0 * 1024.0;

/// The claim on a figure of DMA.
pub(crate) fn claim(figure: &Figure<'_>) -> Option<Claim> {
    let about = About::of(figure);
    let title = format!("{} {}", about.workload, about.metric);
    let is_dma = title.contains("dma")
        && (title.contains(" dma") || title.starts_with("dma") || title.contains("dma/"));
    let other = [
        "rout", "dpu-kv", "onpath", "on-path", "sweep", "max dma", "roce", "tcp",
    ];
    if !is_dma
        || other.iter().any(|word| title.contains(word))
        || !matches!(about.paper.as_str(), "000" | "002" | "003")
    {
        return None;
    }
    let question = Question::of(&about)?;
    let unit_in_base = match question.measure {
        Measure::Operations if question.right.is_none() => 1e6,
        Measure::Bandwidth if question.right.is_none() => figure.known_unit()?.in_base(),
        Measure::Latency if question.right.is_none() => figure.known_unit()?.in_base(),
        _ => about.unit(),
    };
    Some(Claim {
        scenario: SCENARIO,
        unit_in_base,
        predict: Box::new(move |library| question.answer(library)),
    })
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Measure {
    Latency,
    Operations,
    Bandwidth,
    CoreUse,
    Packets,
}

/// How two sides are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Ratio,
    Above,
    Below,
}

/// One side of a comparison; what it does not say is taken from the question.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Side {
    card: Option<&'static str>,
    primitive: Option<Primitive>,
    initiator: Option<Initiator>,
    completion: Option<Completion>,
    access: Option<Access>,
}

#[derive(Clone, Debug)]
struct Question {
    measure: Measure,
    form: Form,
    left: Side,
    right: Option<Side>,
    bytes: Vec<f64>,
    most: bool,
}

impl Side {
    fn of(text: &str) -> Self {
        let text = text.replace('_', "-");
        let has = |word: &str| text.contains(word);
        let rdma = text.replace("rdma", "");
        Self {
            card: None,
            primitive: match (has("inline"), has("rdma"), rdma.contains("dma")) {
                (true, ..) => Some(Primitive::RdmaInline),
                (_, true, false) => Some(Primitive::Rdma),
                (_, false, true) => Some(Primitive::Dma),
                _ => None,
            },
            initiator: match (has("dpu"), has("host")) {
                (true, false) => Some(Initiator::Soc),
                (false, true) => Some(Initiator::Host),
                _ => None,
            },
            completion: match (has("event"), has("poll")) {
                (true, false) => Some(Completion::Event),
                (false, true) => Some(Completion::Poll),
                _ => None,
            },
            access: match (has("read"), has("write")) {
                (true, false) => Some(Access::Read),
                (false, true) => Some(Access::Write),
                _ => None,
            },
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            card: self.card.or(other.card),
            primitive: self.primitive.or(other.primitive),
            initiator: self.initiator.or(other.initiator),
            completion: self.completion.or(other.completion),
            access: self.access.or(other.access),
        }
    }
}

/// The two sides of a comparison in words, and how they are compared.
fn sides(metric: &str) -> Option<(Form, &str, &str)> {
    if let Some((left, right)) = metric.split_once(" below ") {
        return Some((Form::Below, left, right));
    }
    if let Some((left, right)) = metric.split_once(" above ") {
        return Some((Form::Above, left, right));
    }
    if let Some((left, right)) = metric.split_once(" vs ") {
        return Some((Form::Above, left, right));
    }
    let (left, right) = metric.split_once('/')?;
    Some((Form::Ratio, left, right))
}

impl Question {
    fn of(about: &About) -> Option<Self> {
        let metric = about.metric.as_str();
        let measure = match metric {
            _ if metric.contains("packets") => Measure::Packets,
            _ if metric.contains("utili") => Measure::CoreUse,
            _ if metric.contains("latency") => Measure::Latency,
            _ if about.paper == "000" && metric.contains("throughput") => Measure::Bandwidth,
            _ if metric.contains("throughput") => Measure::Operations,
            _ => return None,
        };
        // Keys say more than the workload, and that more than the device.
        let context = Side::of(&about.keys)
            .or(Side::of(&about.workload))
            .or(Side::of(&about.conditions));
        let cards = about.cards();
        let named = about.cards_in(&about.device);
        let compares_cards = about.keys.is_empty() || about.cards_in(&about.keys).is_empty();
        let across = compares_cards
            && (about.device.contains(" vs ") || about.device.contains('/'))
            && named.len() == 2;
        let (form, left, right) = match sides(metric) {
            Some((form, left, right)) => {
                let (mut left, mut right) = (Side::of(left), Side::of(right));
                if right.primitive == Some(Primitive::Rdma)
                    && context.primitive == Some(Primitive::RdmaInline)
                {
                    right.primitive = Some(Primitive::RdmaInline);
                }
                let card = cards.first().copied()?;
                (left.card, right.card) = (Some(card), Some(card));
                (form, left.or(context), Some(right.or(context)))
            }
            None if across => {
                let side = |card| Side {
                    card: Some(card),
                    ..context
                };
                // "BF-3 vs BF-2" and "BF-3/BF-2" name the better part first.
                (Form::Above, side(named[0]), Some(side(named[1])))
            }
            None => {
                let initiator = match about.device.split_once("->") {
                    Some((from, _)) if from.contains("host") => Some(Initiator::Host),
                    Some(_) => Some(Initiator::Soc),
                    None => match (
                        measure,
                        about.keys.contains("host"),
                        about.keys.contains("bf"),
                    ) {
                        (Measure::CoreUse, true, _) => Some(Initiator::Host),
                        (Measure::CoreUse, _, true) => Some(Initiator::Soc),
                        _ => None,
                    },
                };
                let card = cards
                    .first()
                    .copied()
                    .or_else(|| (measure == Measure::CoreUse).then(|| about.profile(2)));
                let side = Side {
                    card: Some(card?),
                    initiator,
                    ..Side::default()
                };
                (Form::Ratio, side.or(context), None)
            }
        };
        let form = match (form, about.percent, about.negative) {
            (Form::Below, ..) => Form::Below,
            (Form::Above, true, true) => Form::Below,
            (Form::Above, true, false) => Form::Above,
            (_, true, _) if right.is_some() => return None,
            _ => Form::Ratio,
        };
        Some(Self {
            measure,
            form,
            left,
            right,
            bytes: lengths(about),
            most: about.metric.contains("up to") || about.metric.contains("max"),
        })
    }

    fn answer(&self, library: &Library) -> Answer {
        let mut machines: Vec<&str> = self.left.card.into_iter().collect();
        machines.extend(self.right.and_then(|side| side.card));
        machines.dedup();
        let loans = Loans::of(library, &machines);
        let mut answers = Vec::new();
        for initiator in self.initiators() {
            for access in self.accesses() {
                for bytes in &self.bytes {
                    answers.push(self.one(&loans, initiator, access, *bytes));
                }
            }
        }
        // Of cases that nothing was published about, those that are known stand for all.
        if answers.iter().any(Result::is_ok) {
            answers.retain(Result::is_ok);
        }
        if self.most {
            largest(answers)
        } else {
            span(answers)
        }
    }

    fn initiators(&self) -> Vec<Initiator> {
        match self.left.initiator {
            Some(one) => vec![one],
            None => vec![Initiator::Host, Initiator::Soc],
        }
    }

    fn accesses(&self) -> Vec<Access> {
        match self.left.access {
            Some(one) => vec![one],
            None => vec![Access::Read, Access::Write],
        }
    }

    fn one(&self, loans: &Loans, initiator: Initiator, access: Access, bytes: f64) -> Answer {
        let of = |side: &Side, initiator: Initiator| Transfer {
            primitive: side.primitive.unwrap_or(Primitive::Dma),
            initiator: side.initiator.unwrap_or(initiator),
            completion: side.completion.unwrap_or(Completion::Poll),
            access: side.access.unwrap_or(access),
            bytes,
        };
        let card = self.left.card.unwrap_or_default();
        let left = of(&self.left, initiator);
        let measure = self.measure;
        let Some(side) = self.right else {
            let closeness = match measure {
                Measure::Latency => EvidenceLevel::Card,
                _ => EvidenceLevel::Same,
            };
            return loans.predict(closeness, |values| absolute(values, card, &left, measure));
        };
        let other = side.card.unwrap_or_default();
        let right = of(&side, initiator);
        let form = self.form;
        loans.predict(
            self.closeness(loans, card, other, &left, &right),
            |values| {
                if card != other && left == right && measure == Measure::Latency {
                    let ratio = dma::over_card(values, card, other, &left)?;
                    return Ok(match form {
                        Form::Ratio => ratio,
                        Form::Above => ratio - 1.0,
                        Form::Below => 1.0 - ratio,
                    });
                }
                let left = relative(values, card, &left, measure)?;
                let right = relative(values, other, &right, measure)?;
                Ok(match form {
                    Form::Ratio => left / right,
                    Form::Above => left / right - 1.0,
                    Form::Below => 1.0 - left / right,
                })
            },
        )
    }

    /// The very quantity, if what tells the two sides apart was published of the card.
    fn closeness(
        &self,
        loans: &Loans,
        card: &str,
        other: &str,
        left: &Transfer,
        right: &Transfer,
    ) -> EvidenceLevel {
        let who = match left.initiator {
            Initiator::Host => "host",
            Initiator::Soc => "dpu",
        };
        let way = match left.access {
            Access::Read => "read",
            Access::Write => "write",
        };
        let same = if self.measure == Measure::Operations {
            left.access == Access::Write
                || left.completion != right.completion
                || left.initiator != right.initiator
        } else if left.bytes >= MIB
            && left.primitive != right.primitive
            && !loans.knows(card, &format!("rdma.{who}.{way}.large"))
        {
            return EvidenceLevel::Application;
        } else if left.primitive != right.primitive {
            left.bytes <= SHORT || left.bytes >= MIB
        } else if left.initiator != right.initiator && !loans.knows(card, "dma.event.initiator") {
            return EvidenceLevel::Application;
        } else if left.initiator != right.initiator {
            loans.knows(card, "dma.event.initiator")
        } else if left.completion != right.completion {
            loans.knows(card, "dma.event.dpu.latency")
        } else {
            card != other && loans.knows(card, &format!("dma.{who}.{way}.packet"))
        };
        if same {
            EvidenceLevel::Same
        } else {
            EvidenceLevel::Card
        }
    }
}

/// The lengths that a figure covers, in bytes: a range's ends, or what stands for the class.
fn lengths(about: &About) -> Vec<f64> {
    let texts = [
        &about.keys,
        &about.metric,
        &about.workload,
        &about.conditions,
    ];
    let longest = if about.cards().contains(&"bf3-8c") {
        2.0 * MIB
    } else {
        8.0 * MIB
    };
    for text in texts {
        let named = sizes(text);
        let Some(bound) = text
            .find('<')
            .filter(|at| sizes(&text[*at..]).first() == named.first())
        else {
            if !named.is_empty() {
                return named;
            }
            continue;
        };
        // Anything below a bound: what is far below it stands for all.
        return vec![
            sizes(&text[bound..])
                .first()
                .copied()
                .unwrap_or(SHORT)
                .min(SHORT),
        ];
    }
    let at_best = about.metric.contains("below") && about.metric.contains("up to");
    if about.says("large") || at_best {
        vec![longest]
    } else {
        vec![SHORT]
    }
}

fn absolute(
    values: &Values<'_>,
    card: &str,
    transfer: &Transfer,
    measure: Measure,
) -> Result<f64, MissingParameter> {
    match measure {
        Measure::Latency => dma::latency_ns(values, card, transfer),
        Measure::Operations => {
            dma::short_per_s(values, card, transfer.initiator, transfer.completion)
        }
        Measure::Bandwidth => dma::peak(values, card, transfer.initiator),
        Measure::CoreUse => dma::core_use(values, card, transfer),
        Measure::Packets => dma::packets(values, card, transfer.bytes),
    }
}

/// For comparisons: a latency in times of a short polled DMA. That of two cards behind one host
/// link is taken to be the same; nobody has published either.
fn relative(
    values: &Values<'_>,
    card: &str,
    transfer: &Transfer,
    measure: Measure,
) -> Result<f64, MissingParameter> {
    match measure {
        Measure::Latency => dma::latency(values, card, transfer),
        Measure::Operations
            if transfer.initiator == Initiator::Host
                && transfer.completion == Completion::Event =>
        {
            // How far apart the initiators are was published, whatever polling can do.
            let apart = values.get(&dma::of(card, "dma.event.throughput.initiator"))?;
            Ok(apart * dma::short_per_s(values, card, Initiator::Soc, Completion::Event)?)
        }
        measure => absolute(values, card, transfer, measure),
    }
}
