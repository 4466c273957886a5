//! Leaving published figures out, and the model beside those that judge it.

use overside_model::Library;
use overside_model::check::{Finding, check};
use overside_model::facts::{Facts, Use};

#[test]
fn without_a_fact_its_values_are_not_known_and_all_others_are() {
    let all = Library::published();
    let without = all.without(&["coproc.comp.asic.bf2"]);
    let engine = |library: &Library, name: &str| {
        let operation = name.parse().unwrap();
        let profile = library.profile("bf2").unwrap();
        profile.operation(operation).cloned().unwrap()
    };
    assert!(engine(all, "compress-deflate").rate.is_some());
    assert!(engine(&without, "compress-deflate").rate.is_none());
    // What it cannot do without, and what rests on another fact.
    let before = engine(all, "compress-deflate");
    assert_eq!(
        engine(&without, "compress-deflate").max_source,
        before.max_source
    );
    let other = engine(all, "decompress-deflate");
    assert_eq!(engine(&without, "decompress-deflate"), other);
    assert_eq!(all.without(&["no.such.fact"]).profiles(), all.profiles());
}

#[test]
fn without_a_figure_the_others_of_its_fact_stay() {
    let figures = Facts::published()
        .get("coproc.rx.art.q4.buf")
        .unwrap()
        .figures();
    let peak = figures
        .iter()
        .find(|figure| figure.path == ["1024"])
        .unwrap();
    let sweep = |library: &Library| {
        let sweeps = library.profile("bf2").unwrap().sweeps();
        let (_, sweep) = sweeps.iter().find(|(key, _)| key.contains("Q4")).unwrap();
        sweep.source_bytes.clone()
    };
    let (all, without) = (
        Library::published(),
        Library::published().without_figure(peak),
    );
    assert!(sweep(all).contains(&1024));
    assert!(!sweep(&without).contains(&1024));
    assert_eq!(sweep(&without).len(), sweep(all).len() - 1);
}

#[test]
fn doubtful_figures_are_never_compared_and_all_others_are_accounted_for() {
    let check = check(Facts::published(), Library::published());
    for figure in &check.figures {
        let fact = Facts::published().get(&figure.fact).unwrap();
        let compared = figure.compared().is_some();
        assert!(!(compared && fact.is_doubtful()), "{}", figure.name);
        let judged_by_itself = figure.compared().is_some_and(|one| one.fitted);
        assert!(
            !(figure.purpose == Use::Validate && judged_by_itself),
            "{}",
            figure.name
        );
    }
    assert!(
        check
            .figures
            .iter()
            .any(|one| matches!(one.finding, Finding::Doubtful))
    );
    let all: usize = Facts::published()
        .facts
        .iter()
        .map(|fact| fact.figures().len())
        .sum();
    assert_eq!(check.figures.len(), all);
    assert_eq!(check.orderings.len(), Facts::published().orderings.len());
}
