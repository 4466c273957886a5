//! Forms of questions: differences of zero, means, figures and positions, and what is refused.

use overside_model::check::{Check, FigureComparison, Finding, Group, check};
use overside_model::facts::Facts;
use overside_model::questions::{OrderingFinding, OrderingVerdict, Questions};
use overside_model::{Interval, Library};

/// Line of the text of [`collection`] at which the question stands.
const ASK_LINE: usize = 11;

/// A collection of one fact with this value and question, and of these orderings.
fn collection(value: &str, ask: &str, orderings: &str) -> String {
    format!(
        "meta: {{}}\nfacts:\n- id: mine.one\n  paper: p\n  device: d\n  workload: w\n  metric: m\n  \
         kind: measured\n  use: validate\n  {value}\n  ask: {ask}\norderings: [{orderings}]\n"
    )
}

fn read(value: &str, ask: &str) -> Result<Facts, String> {
    let text = collection(value, ask, "");
    Facts::parse("mine.yaml", &text).map_err(|error| error.to_string())
}

/// The answer to a question, in base units.
#[track_caller]
fn answer(unit: &str, ask: &str) -> Interval {
    let facts = read(&format!("value: 1\n  unit: {unit}"), ask).unwrap();
    let figures = facts.facts[0].figures();
    let question = Questions::published().of(&figures[0]).unwrap();
    question.answer(Library::published()).unwrap_or_else(|none| panic!("{ask}: {none}")).interval
}

fn checked(value: &str, ask: &str) -> Finding {
    let facts = read(value, ask).unwrap();
    let Check { mut figures, .. } = check(&facts, Library::published());
    figures.remove(0).finding
}

#[track_caller]
fn compared(value: &str, ask: &str) -> FigureComparison {
    match checked(value, ask) {
        Finding::Predicted(compared) => compared,
        other => panic!("{ask}: {other:?}"),
    }
}

fn near(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-6
}

/// TCP through a card past its cores, over another path, as a change.
fn change(other: &str, change: &str) -> String {
    format!(
        "{{scenario: network, figure: TCP, profile: bf3-8c, path: sm4, relative_to: {{path: {other}}}, \
         change: {change}}}"
    )
}

#[test]
fn a_difference_of_zero_is_met_by_equal_sides_and_missed_by_others() {
    for form in ["more", "less"] {
        // The model has the same figure for both.
        let same = compared("value: 0\n  unit: '%'", &change("sm5", form));
        assert!(same.inside && same.error == 0.0 && same.modelled.typ == 0.0, "{same:?}");
        assert!(same.modelled.low < 0.0 && same.modelled.high > 0.0, "{same:?}");
        let around = compared("range: [-3, 3]\n  unit: '%'", &change("sm5", form));
        assert!(around.inside && around.error == 0.0, "{around:?}");
    }
    // Past the cores twice as much passes as through them, or more.
    let other = compared("value: 0\n  unit: '%'", &change("sm2", "more"));
    assert!(!other.inside && other.error > 0.3, "{other:?}");
    assert!(near(other.error, other.modelled.typ / 100.0), "{other:?}");
    // A difference that is one figure: nothing of what is forwarded is lost beside engines.
    let lost = "{scenario: interference, figure: lost, profile: bf3, beside: engine}";
    let lost = compared("value: 0\n  unit: '%'", lost);
    assert!(lost.inside && lost.error == 0.0 && lost.width == 1.0, "{lost:?}");
    let lost = "{scenario: interference, figure: lost, profile: bf3, beside: dma, intensity: 100}";
    let lost = compared("value: 0\n  unit: '%'", lost);
    assert!(!lost.inside && lost.error > 0.1, "{lost:?}");
}

#[test]
fn a_difference_the_other_way_round_is_wrong_and_one_that_may_be_none_tells_nothing() {
    let wrong = compared("value: 30\n  unit: '%'", &change("sm2", "less"));
    assert!(!wrong.inside && wrong.modelled.typ < 0.0 && wrong.error > 0.5, "{wrong:?}");
    let vague = checked("value: 30\n  unit: '%'", &change("sm5", "more"));
    assert!(matches!(vague, Finding::CannotTell { .. }), "{vague:?}");
}

/// Additions of a machine a second, with what else is asked.
fn additions(ask: &str) -> Interval {
    let set = "scenario: machine, figure: operations, work: arithmetic, type: int8, operation: add";
    answer("Gops", &format!("{{{set}, {ask}}}"))
}

#[test]
fn means_are_geometric_or_arithmetic() {
    let (a, b) = (additions("profile: bf2").typ, additions("profile: host-dpbento").typ);
    assert!(b > 1.5 * a, "{a} {b}");
    let of = |mean: &str| additions(&format!("{mean}: {{profile: [bf2, host-dpbento]}}")).typ;
    assert!(near(of("mean_over"), (a * b).sqrt()));
    assert!(near(of("arithmetic_mean_over"), (a + b) / 2.0));
    assert!(near(of("max_over"), b) && near(of("min_over"), a));
}

#[test]
fn cases_may_be_figures_and_questions_of_their_own() {
    let dual = |ask: &str| {
        answer("Mops", &format!("{{scenario: kv, profile: bf2-200g, design: dual, {ask}}}")).typ
    };
    let (card, host) = (dual("figure: card side"), dual("figure: host side"));
    let (less, more) = (card.min(host), card.max(host));
    assert!(more > 1.01 * less, "{card} {host}");
    let over = |aggregate: &str| dual(&format!("{aggregate}: {{figure: [card side, host side]}}"));
    assert!(near(over("max_over"), more) && near(over("min_over"), less));
    assert!(near(over("arithmetic_mean_over"), (card + host) / 2.0));
    // The mean of the larger of two, and of another scenario.
    let machine =
        "scenario: machine, figure: operations, work: arithmetic, profile: bf3, type: int8";
    let listed = additions(&format!(
        "profile: bf2, arithmetic_mean_over: [{{max_over: {{profile: [bf2, host-dpbento]}}}}, {{{machine}, operation: mul}}]"
    ));
    let mul = answer("Gops", &format!("{{{machine}, operation: mul}}")).typ;
    let larger = additions("profile: host-dpbento").typ;
    assert!(near(listed.typ, (larger + mul) / 2.0), "{listed:?}");
}

/// A position among buffers of a pattern of the study.
fn buffers(pattern: &str, ask: &str) -> String {
    format!("{{scenario: match, figure: throughput, pattern: {pattern}, {ask}}}")
}

#[test]
fn the_key_at_which_a_figure_peaks_or_falls_off_is_an_answer() {
    // Published for Q2: 1, 3, 3, 2 and 1 Gb/s.
    let sizes = "{buffer: [64 B, 128 B, 256 B, 512 B, 1 KiB]}";
    let peak = answer("B", &buffers("q2", &format!("peaks_at: {sizes}")));
    assert!([128.0, 256.0].contains(&peak.typ), "{peak:?}");
    assert_eq!((peak.low, peak.high), (128.0, 256.0));
    let falls = answer("B", &buffers("q2", &format!("falls_off_at: {sizes}")));
    assert_eq!((falls.low, falls.typ, falls.high), (512.0, 512.0, 512.0));
    let later = answer("B", &buffers("q2", &format!("falls_off_at: {sizes}, within: 2")));
    assert_eq!(later.typ, 1024.0);
    // 26, 47, 51 and 51: the largest is first reached at 4 KiB.
    let sizes = "{buffer: [1 KiB, 2 KiB, 4 KiB, 16383 B]}";
    let full = answer("B", &buffers("q4", &format!("peaks_at: {sizes}, within: 1.02")));
    assert_eq!(full.typ, 4096.0);
    assert_eq!(answer("B", &buffers("q4", &format!("peaks_at: {sizes}"))).typ, 4096.0);
    let none = checked("value: 1\n  unit: KB", &buffers("q4", &format!("falls_off_at: {sizes}")));
    assert!(
        matches!(&none, Finding::NoPrediction { why, .. } if why.contains("falls off at none"))
    );
    // A position among published figures is said by them.
    let peak = compared("value: 4096\n  unit: B", &buffers("q4", &format!("peaks_at: {sizes}")));
    assert_eq!((peak.modelled.typ, peak.group, peak.inside), (4096.0, Group::Restated, true));
}

#[test]
fn aggregates_of_given_figures_are_said_by_others_and_formulas_are_predicted() {
    let group = |ask: &str| {
        let set = "scenario: machine, figure: operations, work: arithmetic, type: int8";
        compared("value: 1\n  unit: Gops", &format!("{{{set}, {ask}}}")).group
    };
    assert_eq!(group("operation: add, profile: bf2"), Group::Restated);
    assert_eq!(group("operation: add, mean_over: {profile: [bf2, bf3]}"), Group::Restated);
    assert_eq!(group("profile: bf2, max_over: {operation: [add, mul]}"), Group::Restated);
    // Nobody published additions of 16 bits.
    let set =
        "scenario: machine, figure: operations, work: arithmetic, type: int16, operation: add";
    let formula = format!("{{{set}, mean_over: {{profile: [bf2, bf3]}}}}");
    assert_eq!(compared("value: 1\n  unit: Gops", &formula).group, Group::Predicted);
}

fn ordering(ask: &str) -> Result<OrderingFinding, String> {
    let entry = format!("{{id: mine.two, paper: p, statement: s, ask: {ask}}}");
    let text = collection("value: 1", "{not_modelled: x}", &entry);
    let facts = Facts::parse("mine.yaml", &text).map_err(|error| error.to_string())?;
    let asked = Questions::published().ordering(&facts.orderings[0]).unwrap().clone();
    Ok(asked.answer(Library::published()))
}

#[track_caller]
fn verdict(ask: &str) -> OrderingVerdict {
    match ordering(ask).unwrap() {
        OrderingFinding::Claimed { verdict, .. } => verdict,
        other @ OrderingFinding::NotModelled { .. } => panic!("{ask}: {other:?}"),
    }
}

#[test]
fn an_aggregate_that_an_ordering_shares_counts_for_each_of_its_questions() {
    let of = |ask: &str| {
        let shared = "scenario: machine, figure: operations, work: arithmetic, type: int8";
        match ordering(&format!(
            "{{ask: {{{shared}, {ask}}}, rising: [{{profile: bf2}}, {{profile: host-dpbento}}]}}"
        )) {
            Ok(OrderingFinding::Claimed { sides, .. }) => sides[0].1.typ,
            other => panic!("{other:?}"),
        }
    };
    let (add, mul) = (of("operation: add"), of("operation: mul"));
    assert!(!near(add, mul));
    assert!(near(of("max_over: {operation: [add, mul]}"), add.max(mul)));
    assert!(near(of("min_over: {operation: [add, mul]}"), add.min(mul)));
    assert!(near(of("arithmetic_mean_over: {operation: [add, mul]}"), (add + mul) / 2.0));
}

#[test]
fn intervals_that_overlap_wholly_make_an_ordering_likely_at_most() {
    let pushdown = |value: f64| {
        format!(
            "{{ask: {{scenario: pushdown, figure: over pulling, profile: bf3, cores: 2}}, \
             falling: [{{}}, {{value: {value}}}]}}"
        )
    };
    let typ = answer("x", "{scenario: pushdown, figure: over pulling, profile: bf3, cores: 2}");
    assert!(typ.low < typ.typ && typ.typ < typ.high);
    assert_eq!(verdict(&pushdown(typ.low / 2.0)), OrderingVerdict::Holds);
    assert_eq!(verdict(&pushdown((typ.low * typ.typ).sqrt())), OrderingVerdict::Likely);
    assert_eq!(verdict(&pushdown(typ.typ * 1.01)), OrderingVerdict::Fails);
    // A doubt that both share cancels: the ratio tells what the intervals do not.
    let shared = "{ask: {scenario: match, figure: throughput, pattern: q4}, \
                  rising: [{buffer: 1 KiB}, {buffer: 2 KiB}]}";
    assert_eq!(verdict(shared), OrderingVerdict::Holds);
    assert_eq!(
        verdict("{alike: [{value: 0}, {value: 0}]}"),
        OrderingVerdict::Holds,
        "none is as much as none"
    );
}

#[test]
fn what_has_no_meaning_is_refused_with_its_line() {
    let net = "scenario: network, figure: TCP, profile: bf2-200g";
    let rate = "value: 1\n  unit: Gbps";
    for (value, ask, says) in [
        (rate, format!("{{{net}, path: sm2, within: 1.1}}"), "without peaks_at"),
        (
            rate,
            format!("{{{net}, mean_over: {{path: [sm1, sm2]}}, max_over: {{path: [sm1]}}}}"),
            "max_over stands beside mean_over",
        ),
        (
            rate,
            format!("{{{net}, path: sm2, relative_to: {{path: sm1, unit: Gb/s}}}}"),
            "means nothing under relative_to",
        ),
        (
            rate,
            format!("{{{net}, max_over: [{{path: sm1, by: [path]}}]}}"),
            "means nothing under max_over",
        ),
        (
            rate,
            format!("{{{net}, max_over: {{figure: [TCP, RDMA connections], path: [ends]}}}}"),
            "several kinds",
        ),
        (
            rate,
            format!("{{{net}, max_over: {{figure: [TCP, UDP], path: [sm2]}}}}"),
            "no figure \"UDP\"",
        ),
        (rate, format!("{{{net}, max_over: corpus}}"), "only the mean is known"),
        (rate, format!("{{{net}, peaks_at: {{path: [sm1, sm2]}}}}"), "no numbers"),
        (rate, format!("{{{net}, path: ends, peaks_at: {{threads: [2, 1]}}}}"), "do not ascend"),
        (rate, format!("{{{net}, path: ends, peaks_at: {{threads: [2]}}}}"), "one value"),
        (
            rate,
            format!("{{{net}, peaks_at: {{threads: [1, 2], path: [ends]}}}}"),
            "not just one key",
        ),
        (
            rate,
            format!("{{{net}, path: ends, peaks_at: {{thread: [1, 2]}}}}"),
            "did you mean \"threads\"?",
        ),
        (
            rate,
            format!("{{{net}, path: ends, peaks_at: {{threads: [1, 2]}}, within: 0.5}}"),
            "no such factor",
        ),
        (
            rate,
            format!("{{{net}, path: ends, peaks_at: {{threads: [1, 2]}}, change: more}}"),
            "no change",
        ),
        (
            rate,
            format!("{{{net}, path: ends, peaks_at: {{threads: [1, 2]}}}}"),
            "counts in \"Gbps\"",
        ),
        (
            "values: {a: 1}\n  unit: Gbps",
            format!("{{{net}, by: [{{a: {{path: sm1}}, b: {{path: sm2}}}}]}}"),
            "no figure of the fact has this key",
        ),
        ("values: {a: 1}\n  unit: Gbps", format!("{{{net}, path: sm2}}"), "nothing is asked"),
    ] {
        let error = read(value, &ask).unwrap_err();
        assert!(error.contains(says), "{ask}: {error}");
        // The unit is the fact's, and stands in the line before the question.
        let before = usize::from(says.starts_with("counts in"));
        let line = ASK_LINE + value.matches('\n').count() - before;
        assert!(error.contains(&format!("mine.yaml:{line}:")), "{ask}: {error}");
    }
    for (ask, says) in [
        ("{ask: {value: 1}, rising: [{value: 1}, {value: 2}]}", "no question that others share"),
        ("{ask: {unit: s}, rising: [{value: 1}, {value: 2}]}", "means nothing in an ordering"),
        ("{rising: [{value: 1, by: [path]}, {value: 2}]}", "means nothing in an ordering"),
        ("{rising: [{value: 1, threads: 2}, {value: 2}]}", "means nothing in an ordering"),
        ("{rising: [{value: 1}, {value: 2}], within: 2}", "without alike"),
        ("{for: {path: [sm1]}, all: [{rising: [{value: 1}, {value: 2}]}]}", "not one list"),
        ("{for: [{value: 1}], rising: [{value: 1}, {value: 2}]}", "no case"),
        (
            "{ask: {scenario: kv, design: lat, profile: bf2-200g}, rising: [{figure: latency}, {figure: throughput}]}",
            "several kinds",
        ),
    ] {
        let error = ordering(ask).unwrap_err();
        assert!(error.contains(says), "{ask}: {error}");
        assert!(error.contains("mine.yaml:12:"), "{ask}: {error}");
    }
}

#[test]
fn answers_made_of_too_many_are_refused_quickly() {
    let threads: Vec<String> = (1..=40).map(|one| one.to_string()).collect();
    let cases = format!("{{threads: [{}]}}", threads.join(", "));
    let ask = format!(
        "{{scenario: network, figure: TCP, path: ends, profile: bf2, max_over: {cases}, relative_to: \
         {{min_over: {cases}}}}}"
    );
    let error = read("value: 1\n  unit: x", &ask).unwrap_err();
    assert!(error.contains("more than 1000"), "{error}");
}
