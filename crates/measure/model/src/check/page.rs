//! Report on correct and wrong predictions of the model: the generated part of `docs/measure/model.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Check, FigureCheck, FigureComparison, Finding, Group, Scores, Spread, TELLING_MAX};
use crate::EvidenceLevel;
use crate::facts::Use;
use crate::questions::{OrderingFinding, OrderingVerdict};

/// Largest error without sign at which a figure outside its interval still counts as met: sources
/// round, and read figures off charts.
pub const TOLERANCE: f64 = 0.1;

impl FigureCheck {
    /// Returns `true` if the model gets the figure wrong: the interval does not contain it, and it
    /// is further off than [`TOLERANCE`].
    pub fn is_wrong(&self) -> bool {
        (self.compared()).is_some_and(|one| !one.inside && one.error.abs() > TOLERANCE)
    }
}

/// The line in `docs/measure/model.md` after which the text stands.
const BEGIN: &str = "<!-- written by `make model-figures`, from here -->\n";

/// The line before which it ends.
const END: &str = "<!-- to here -->\n";

/// Returns the text before and after the generated part of a document, marks included. `None` if a
/// mark is missing.
pub fn split(document: &str) -> Option<(&str, &str)> {
    let begin = document.find(BEGIN)? + BEGIN.len();
    let end = begin + document[begin..].find(END)?;
    Some((&document[..begin], &document[end..]))
}

/// The text, in Markdown.
pub fn page(check: &Check, spreads: &BTreeMap<EvidenceLevel, Spread>) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = write_page(&mut out, check, spreads);
    out
}

fn write_page(
    out: &mut String,
    check: &Check,
    spreads: &BTreeMap<EvidenceLevel, Spread>,
) -> std::fmt::Result {
    scores(out, check)?;
    goals(out, check)?;
    groups(out, check)?;
    widths(out, check, spreads)?;
    width_sources(out, check)?;
    fields(out, check)?;
    wrong(out, check)?;
    unpredicted(out, check)?;
    orderings(out, check)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

fn optional(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{:.1} %", 100.0 * share))
}

/// Three significant digits, or the whole number.
fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    let text = format!("{value:.*}", digits.clamp(0, 12) as usize);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A cell must not end its row.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// A line of the table of scores: its text, and its cell.
type ScoreRow = (&'static str, fn(&Scores) -> String);

fn scores(out: &mut String, check: &Check) -> std::fmt::Result {
    let rows: [ScoreRow; 8] = [
        ("facts with a number that is not in doubt", |all| {
            format!("{} ({} figures)", all.facts, all.figures)
        }),
        ("of these predicted", |all| {
            format!("{} ({} figures)", all.facts_predicted, all.figures_predicted)
        }),
        ("without a prediction", |all| percent(all.without_prediction)),
        ("median error of a fact", |all| optional(all.median_error)),
        ("median error of a figure", |all| optional(all.median_error_of_figures)),
        ("facts inside the interval", |all| optional(all.inside)),
        ("figures inside the interval", |all| optional(all.inside_of_figures)),
        ("geometric mean width of a fact", |all| {
            all.width.map_or("-".into(), |width| format!("x{width:.2}"))
        }),
    ];
    writeln!(out, "### How well it does\n")?;
    writeln!(out, "| | facts that judge it | facts that it rests on |")?;
    writeln!(out, "|---|---|---|")?;
    for (what, of) in rows {
        let (judging, resting) = (of(&check.validation), of(&check.calibration));
        writeln!(out, "| {what} | {judging} | {resting} |")?;
    }
    let orderings = &check.ordering_scores;
    writeln!(
        out,
        "\nOf {} published orderings {} are claimed; {} of these hold, and {} are likely.\n",
        orderings.orderings, orderings.claimed, orderings.holding, orderings.likely
    )
}

/// Writes the table of the model's goals on facts that judge it, and the scores that it reaches.
fn goals(out: &mut String, check: &Check) -> std::fmt::Result {
    let others: Vec<FigureCheck> = (check.figures.iter())
        .filter(|one| one.compared().is_none_or(|one| one.group != Group::Queries))
        .cloned()
        .collect();
    let (all, others) = (&check.validation, Scores::of(&others, Use::Validate));
    let orderings = &check.ordering_scores;
    let most = |value: Option<f64>, goal: f64, digits: fn(f64) -> String| {
        let value = value.unwrap_or(f64::INFINITY);
        let is_met = value <= goal;
        (format!("at most {}", digits(goal)), digits(value), is_met)
    };
    let share: fn(f64) -> String = |share| format!("{:.1} %", 100.0 * share);
    let times: fn(f64) -> String = |times| format!("x{times:.2}");
    let least = |value: Option<f64>, goal: f64| {
        let value = value.unwrap_or_default();
        let is_met = value >= goal;
        (format!("at least {}", share(goal)), share(value), is_met)
    };
    let rows = [
        ("facts without a prediction", most(Some(all.without_prediction), 0.1, share)),
        ("median error, without TPC-H", most(others.median_error, 0.1, share)),
        ("median error, with it", most(all.median_error, 0.15, share)),
        ("facts inside their interval", least(all.inside, 0.9)),
        ("figures inside their interval", least(all.inside_of_figures, 0.9)),
        ("geometric mean width, without TPC-H", most(others.width, 1.8, times)),
        ("geometric mean width, with it", most(all.width, 1.8, times)),
        (
            "orderings that hold of those claimed, by position",
            (
                "all, or listed".into(),
                format!(
                    "{} of {}, {} likely",
                    orderings.holding, orderings.claimed, orderings.likely
                ),
                true,
            ),
        ),
    ];
    writeln!(out, "### Against its goals\n")?;
    writeln!(out, "| over the facts that judge it | goal | is | |")?;
    writeln!(out, "|---|---|---|---|")?;
    for (what, (goal, is, is_met)) in rows {
        let met = if is_met { "met" } else { "**missed**" };
        writeln!(out, "| {what} | {goal} | {is} | {met} |")?;
    }
    writeln!(out)
}

fn groups(out: &mut String, check: &Check) -> std::fmt::Result {
    writeln!(out, "### What the scores are made of\n")?;
    writeln!(
        out,
        "The score on facts that judge the model is a development score: they were looked at while \
         its formulas were chosen.\n"
    )?;
    for (whose, scores) in
        [("that judge it", &check.validation), ("that it rests on", &check.calibration)]
    {
        writeln!(
            out,
            "| facts {whose} | figures | facts | median error | from the middle of ranges | inside | \
             geometric mean width |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|---|")?;
        for (group, one) in &scores.groups {
            writeln!(
                out,
                "| {} | {} | {} | {:.1} % | {:.1} % | {} | x{:.2} |",
                group.words(),
                one.figures,
                one.facts,
                100.0 * one.median_error,
                100.0 * one.median_error_of_middle,
                percent(one.inside),
                one.width,
            )?;
        }
        writeln!(
            out,
            "| cannot tell: wider than {TELLING_MAX:.0} times, or down to no difference | {} | | | | never | |\n",
            scores.cannot_tell
        )?;
    }
    Ok(())
}

fn widths(
    out: &mut String,
    check: &Check,
    spreads: &BTreeMap<EvidenceLevel, Spread>,
) -> std::fmt::Result {
    writeln!(out, "### How wide its intervals are\n")?;
    writeln!(
        out,
        "| evidence | left out and predicted | median miss | widened by | judging figures | median width | inside |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|")?;
    for (closeness, spread) in spreads {
        let judged = check.validation.widths.get(closeness);
        let judged = judged.map_or("0 | - | -".into(), |width| {
            format!("{} | x{:.2} | {}", width.figures, width.median, percent(width.inside))
        });
        writeln!(
            out,
            "| {} | {} facts, {} figures | x{:.2} | x{:.2}{} | {judged} |",
            closeness.words(),
            spread.facts,
            spread.figures,
            spread.median,
            closeness.factor(),
            if spread.too_few { " (few)" } else { "" },
        )?;
    }
    writeln!(out)
}

/// Writes the table of interval widths of figures that judge the model, by their causes: parameters
/// and formula. It also gives the least width that would contain nine of ten figures.
fn width_sources(out: &mut String, check: &Check) -> std::fmt::Result {
    let mut rows: BTreeMap<(Group, String), Vec<&FigureComparison>> = BTreeMap::new();
    for figure in &check.figures {
        let Some(one) = figure.compared() else {
            continue;
        };
        if figure.purpose == Use::Validate {
            // TPC-H is `dpbento.dbms.hot.q1[BF-2]`: its data and machine tell more than its query.
            let mut name = figure.name.split(['.', '[', ']']);
            let part = match (one.group, name.nth(2), name.nth(1)) {
                (Group::Queries, Some(data), Some(machine)) => format!(", {data}, {machine}"),
                (Group::Queries, ..) => ", ratios of all queries".into(),
                _ => String::new(),
            };
            rows.entry((one.group, part)).or_default().push(one);
        }
    }
    writeln!(out, "### What the widths are made of\n")?;
    writeln!(
        out,
        "Of the figures that judge it. The least width is that of intervals of one width around the \
         same predictions, chosen with the answers at hand, that hold nine of ten of them.\n"
    )?;
    writeln!(
        out,
        "| | figures | width | by the parameters alone | by the formula alone | inside | least width |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|")?;
    for ((group, part), all) in rows {
        let mean = |log_width: &dyn Fn(&FigureComparison) -> f64| {
            (all.iter().map(|one| log_width(one)).sum::<f64>() / all.len() as f64).exp()
        };
        let formula = |one: &FigureComparison| 2.0 * one.closeness.factor().ln();
        let parameters = |one: &FigureComparison| {
            let squares = one.width.ln().powi(2) - formula(one).powi(2);
            squares.max(0.0).sqrt()
        };
        let mut misses: Vec<f64> = (all.iter()).map(|one| one.error.ln_1p().abs()).collect();
        misses.sort_by(f64::total_cmp);
        let nine_of_ten = misses[(0.9 * misses.len() as f64).ceil() as usize - 1];
        let inside = all.iter().filter(|one| one.inside).count() as f64 / all.len() as f64;
        writeln!(
            out,
            "| {}{part} | {} | x{:.2} | x{:.2} | x{:.2} | {} | x{:.2} |",
            group.words(),
            all.len(),
            mean(&|one| one.width.ln()),
            mean(&parameters),
            mean(&formula),
            percent(inside),
            (2.0 * nine_of_ten).exp(),
        )?;
    }
    writeln!(out)
}

fn fields(out: &mut String, check: &Check) -> std::fmt::Result {
    let mut fields: BTreeMap<&str, Vec<&FigureComparison>> = BTreeMap::new();
    for figure in check.figures.iter().filter(|one| one.purpose == Use::Validate) {
        if let Some(compared) = figure.compared() {
            fields.entry(&compared.scenario).or_default().push(compared);
        }
    }
    writeln!(out, "### By field, over the figures that judge it\n")?;
    writeln!(out, "| field | figures | median error | inside | median width |")?;
    writeln!(out, "|---|---|---|---|---|")?;
    for (field, all) in fields {
        let median = |what: fn(&FigureComparison) -> f64| {
            overside_base::median(all.iter().map(|one| what(one))).unwrap_or_default()
        };
        let inside = all.iter().filter(|one| one.inside).count() as f64 / all.len() as f64;
        writeln!(
            out,
            "| {field} | {} | {:.1} % | {} | x{:.2} |",
            all.len(),
            100.0 * median(|one| one.error.abs()),
            percent(inside),
            median(|one| one.width),
        )?;
    }
    writeln!(out)
}

fn wrong(out: &mut String, check: &Check) -> std::fmt::Result {
    writeln!(out, "### What the model gets wrong\n")?;
    let judges = |one: &&FigureCheck| one.purpose == Use::Validate && one.is_wrong();
    let wrong: Vec<_> = check.figures.iter().filter(judges).collect();
    if wrong.is_empty() {
        return writeln!(out, "No figure that judges it.\n");
    }
    writeln!(
        out,
        "Figures that judge it, outside their interval and more than {} off.\n",
        percent(TOLERANCE)
    )?;
    writeln!(out, "| figure | published | modelled | error | field |")?;
    writeln!(out, "|---|---|---|---|---|")?;
    for (figure, one) in wrong.iter().filter_map(|one| Some((one, one.compared()?))) {
        writeln!(
            out,
            "| `{}` | {} {} | {} ({} to {}) | {:+.0} % | {} |",
            cell(&figure.name),
            cell(&figure.published),
            cell(&figure.unit),
            short(one.modelled.typ),
            short(one.modelled.low),
            short(one.modelled.high),
            100.0 * one.error,
            one.scenario,
        )?;
    }
    writeln!(out)
}

fn unpredicted(out: &mut String, check: &Check) -> std::fmt::Result {
    writeln!(out, "### What it does not predict\n")?;
    writeln!(out, "| fact that judges it | figures | why |")?;
    writeln!(out, "|---|---|---|")?;
    let mut rows: Vec<(&str, &str, usize)> = Vec::new();
    for figure in check.figures.iter().filter(|one| one.purpose == Use::Validate) {
        let why = match &figure.finding {
            Finding::Predicted(_) => continue,
            Finding::NoPrediction { why, .. } => why.as_str(),
            Finding::CannotTell { .. } => "cannot tell: the interval says nothing",
            Finding::NotCovered => "no scenario speaks of it",
            Finding::Doubtful => "its number is in doubt: for orderings only",
            Finding::Words => "it is qualitative",
        };
        match rows.iter_mut().find(|row| (row.0, row.1) == (&figure.fact, why)) {
            Some(row) => row.2 += 1,
            None => rows.push((&figure.fact, why, 1)),
        }
    }
    for (fact, why, figures) in rows {
        writeln!(out, "| `{}` | {figures} | {} |", cell(fact), cell(why))?;
    }
    writeln!(out)
}

fn orderings(out: &mut String, check: &Check) -> std::fmt::Result {
    writeln!(out, "### Orderings\n")?;
    writeln!(out, "| ordering | says | the model |")?;
    writeln!(out, "|---|---|---|")?;
    for ordering in &check.orderings {
        let finding = match &ordering.finding {
            OrderingFinding::Claimed { verdict, scenario, .. } => {
                let verdict = match verdict {
                    OrderingVerdict::Holds => "holds",
                    OrderingVerdict::Likely => "likely",
                    OrderingVerdict::Fails => "**fails**",
                };
                format!("{verdict} ({scenario})")
            }
            OrderingFinding::NotModelled { reason } => format!("not modelled: {reason}"),
        };
        writeln!(
            out,
            "| `{}` | {} | {} |",
            ordering.id,
            cell(&ordering.statement),
            cell(&finding)
        )?;
    }
    Ok(())
}

impl Group {
    /// Returns the name for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Itself => "rests on itself",
            Self::Restated => "said by another fact",
            Self::Predicted => "predicted",
            Self::Queries => "predicted, TPC-H",
        }
    }
}

impl EvidenceLevel {
    /// Returns the name for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Same => "the very figure",
            Self::Card => "same card, another size or count",
            Self::Application => "another application, codec or card",
        }
    }
}
