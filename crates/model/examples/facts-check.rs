//! Prints how the model meets the published facts: all, or those whose name holds a word.
//!
//!     cargo run -p overside-model --example facts-check -- [--all] [WORD]

use overside_model::Library;
use overside_model::check::{Finding, OrderingFinding, Scores, check};
use overside_model::facts::{Facts, Use};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let all = words.iter().any(|word| word == "--all");
    let wanted = words.iter().find(|word| !word.starts_with('-'));
    let named = |name: &str| wanted.is_none_or(|word| name.contains(word.as_str()));
    let check = check(Facts::published(), Library::published());
    for figure in check.figures.iter().filter(|figure| named(&figure.name)) {
        let shown = figure.purpose == Use::Validate || all || wanted.is_some();
        if !shown || figure.purpose == Use::Context {
            continue;
        }
        let finding = match &figure.finding {
            Finding::Predicted(one) => format!(
                "{:.4} ({:.4} to {:.4}) {:+.1} % {}{} {:?} [{}]",
                one.modelled.typ,
                one.modelled.low,
                one.modelled.high,
                100.0 * one.error,
                if one.inside { "inside" } else { "OUTSIDE" },
                if one.fitted { " fitted" } else { "" },
                one.closeness,
                one.scenario,
            ),
            Finding::NoPrediction { why, scenario, .. } => {
                format!("no prediction: {why} [{scenario}]")
            }
            Finding::NotCovered => "not covered".into(),
            Finding::Doubtful => "doubtful".into(),
            Finding::Words => "in words".into(),
        };
        let use_ = if figure.purpose == Use::Validate {
            "V"
        } else {
            "c"
        };
        println!(
            "{use_} {:44} {:>18} {:8} {finding}",
            figure.name, figure.published, figure.unit
        );
    }
    for ordering in check.orderings.iter().filter(|one| named(&one.id)) {
        let finding = match &ordering.finding {
            OrderingFinding::Claimed {
                holds, scenario, ..
            } => format!("{} [{scenario}]", if *holds { "holds" } else { "FAILS" }),
            OrderingFinding::NotModelled { reason } => format!("not modelled: {reason}"),
        };
        println!("{:10} {:70} {finding}", ordering.id, ordering.statement);
    }
    summary("validation", &check.validation);
    summary("calibration", &check.calibration);
    println!("{:?}", check.ordering_scores);
}

fn summary(name: &str, scores: &Scores) {
    println!("{name}: {scores:#?}");
}
