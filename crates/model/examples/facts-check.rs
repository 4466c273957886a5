//! How the model meets the published facts.
//!
//!     facts-check [--all] [WORD]   prints figures and orderings, those whose name holds a word
//!     facts-check --left-out       prints how each figure is predicted without itself
//!     facts-check --write          writes the intervals' widths and the page that lists errors
//!
//! Widths take effect when the crate is built anew: `make model-figures` does both.

use std::path::Path;

use overside_model::Library;
use overside_model::check::{
    Check, FigureCheck, Finding, OrderingFinding, Residual, check, leave_one_out, page, spreads,
};
use overside_model::facts::{Facts, Use};

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let given = |name: &str| words.iter().any(|word| word == name);
    let wanted = words.iter().find(|word| !word.starts_with('-'));
    let named = |name: &str| wanted.is_none_or(|word| name.contains(word.as_str()));
    let (facts, library) = (Facts::published(), Library::published());
    if given("--left-out") {
        left_out(&leave_one_out(facts, library), named);
        return Ok(());
    }
    let check = check(facts, library);
    if given("--write") {
        return write(&check, &leave_one_out(facts, library));
    }
    for figure in check.figures.iter().filter(|one| named(&one.name)) {
        let judges = figure.purpose == Use::Validate;
        let shown = given("--all") || wanted.is_some();
        if judges || (shown && figure.purpose != Use::Context) {
            print(figure, judges);
        }
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
    println!("validation: {:#?}", check.validation);
    println!("calibration: {:#?}", check.calibration);
    println!("{:?}", check.ordering_scores);
    Ok(())
}

fn print(figure: &FigureCheck, judges: bool) {
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
        Finding::NoPrediction { why, scenario, .. } => format!("no prediction: {why} [{scenario}]"),
        Finding::NotCovered => "not covered".into(),
        Finding::Doubtful => "doubtful".into(),
        Finding::Words => "in words".into(),
    };
    println!(
        "{} {:44} {:>18} {:8} {finding}",
        if judges { "V" } else { "c" },
        figure.name,
        figure.published,
        figure.unit
    );
}

fn left_out(residuals: &[Residual], named: impl Fn(&str) -> bool) {
    let mut sorted: Vec<_> = residuals.iter().filter(|one| named(&one.name)).collect();
    sorted.sort_by(|a, b| a.needed.total_cmp(&b.needed));
    for one in sorted {
        println!(
            "{:44} x{:<8.3} needs x{:<8.3} {:?} [{}]",
            one.name, one.factor, one.needed, one.closeness, one.scenario
        );
    }
    println!("{:#?}", spreads(residuals));
}

fn write(check: &Check, residuals: &[Residual]) -> std::io::Result<()> {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let spreads = spreads(residuals);
    let source = crate_root.join("src/spread.rs");
    let mut text = std::fs::read_to_string(&source)?;
    for (closeness, spread) in &spreads {
        let name = format!("{closeness:?}").to_uppercase();
        let line = format!("pub(crate) const {name}: f64 = ");
        let from = text.find(&line).expect("each closeness has its line") + line.len();
        let to = from + text[from..].find(';').expect("a line ends");
        text.replace_range(from..to, &format!("{:?}", spread.rounded()));
    }
    std::fs::write(&source, text)?;
    let document = crate_root.join("../../docs/model.md");
    let text = std::fs::read_to_string(&document)?;
    let (before, after) = page::split(&text).expect("docs/model.md has the two marks");
    let generated = page::page(check, &spreads);
    std::fs::write(&document, format!("{before}{generated}{after}"))
}
