//! Cores, memory, storage, queries, scans and indexes.

use overside_model::check::{Finding, check};
use overside_model::facts::{Fact, Facts, Figure};
use overside_model::questions::Questions;
use overside_model::{EvidenceLevel, Library};

use crate::ask::{ask, assert_says, latency_ns, rate, refused};

fn figure<'a>(fact: &'a Fact, keys: &[&str]) -> Figure<'a> {
    (fact.figures().into_iter()).find(|figure| figure.path == keys).unwrap()
}

fn left_out(id: &str, keys: &[&str]) -> (f64, overside_model::Prediction) {
    let fact = Facts::published().get(id).unwrap();
    let figure = figure(fact, keys);
    let question = Questions::published().of(&figure).unwrap();
    let with = question.answer(Library::published()).unwrap();
    let without = (question.answer(&Library::published().without_figure(&figure))).unwrap();
    (with.interval.typ, without)
}

#[test]
fn a_database_on_flash_of_a_card_waits_for_it_and_in_memory_for_cores() {
    let limit = |data: &str| {
        let values = [("profile", "bf2"), ("data", data), ("query", "6")];
        ask("query", &values).rows[0].bottleneck.clone().unwrap()
    };
    assert!(limit("cold").contains("storage") && limit("hot").contains("cores"));
}

#[test]
fn every_query_has_a_time_and_more_data_takes_longer_by_as_much_or_less() {
    let one = ask("query", &[("profile", "bf3"), ("data", "cold")]);
    let two = ask("query", &[("profile", "bf3"), ("data", "cold"), ("scale", "20")]);
    assert_eq!(one.rows.len(), 23);
    for (one, two) in one.rows.iter().zip(&two.rows) {
        // Planning does not grow, and small tables keep more cores busy.
        let ratio = latency_ns(two) / latency_ns(one);
        assert!((1.5..2.0).contains(&ratio), "{ratio}");
    }
    let sum: f64 = one.rows[..22].iter().map(latency_ns).sum();
    assert!((latency_ns(&one.rows[22]) / sum - 1.0).abs() < 1e-9);
}

#[test]
fn cores_beyond_a_pipelines_groups_of_rows_do_not_help() {
    let time = |query: &str, cores: &str| {
        let set = [
            ("profile", "host-dpbento"),
            ("data", "hot"),
            ("scale", "0.01"),
            ("query", query),
            ("cores", cores),
        ];
        latency_ns(&ask("query", &set).rows[0])
    };
    // At this scale every table is within one group.
    assert_eq!(time("1", "48"), time("1", "2"));
    assert_eq!(time("1", "48"), time("1", "1"));
}

#[test]
fn what_was_measured_of_the_queries_is_said_beside_their_times() {
    let report = ask("query", &[("profile", "bf3"), ("data", "hot")]);
    assert_says(&report.notes, "DuckDB 1.1.3");
    assert_eq!(report.provenance, "modelled");
}

#[test]
fn more_cores_scan_faster_but_not_in_proportion() {
    for card in ["bf2", "bf3", "octeon-tx2"] {
        let report = ask("pushdown", &[("profile", card)]);
        let rates: Vec<f64> = report.rows.iter().map(rate).collect();
        let cores: Vec<f64> =
            (report.rows.iter()).map(|row| row.labels.last().unwrap().1.parse().unwrap()).collect();
        for at in 1..rates.len() {
            assert!(rates[at] > rates[at - 1], "{card}: {rates:?}");
            assert!(rates[at] / cores[at] < rates[at - 1] / cores[at - 1], "{card}: {rates:?}");
        }
    }
}

#[test]
fn more_cores_than_a_card_has_are_refused() {
    let error = refused("pushdown", &[("profile", "bf2"), ("cores", "9")]);
    assert_eq!((error.key.as_str(), &*error.remedy), ("cores", "1 to 8"));
}

#[test]
fn a_card_whose_memory_nobody_measured_has_no_prediction() {
    for scenario in ["pushdown", "index", "query"] {
        let report = ask(scenario, &[("profile", "bf1")]);
        assert!(!report.missing.is_empty(), "{scenario}");
        for row in &report.rows {
            let first = row.throughput.as_ref().or(row.latency.as_ref()).unwrap();
            assert!(first.answer.is_err(), "{scenario}");
        }
    }
}

#[test]
fn a_figure_that_is_left_out_is_predicted_from_its_neighbours() {
    for (id, keys, closeness) in [
        ("idio.stream.copy", vec!["BF-2", "8"], EvidenceLevel::Card),
        ("dpbento.str.strcat.256", vec!["BF-3"], EvidenceLevel::Card),
        ("dpbento.cpu.int8.add", vec!["host"], EvidenceLevel::Card),
        ("dpbento.sto.rnd.read.4MB", vec!["BF-3"], EvidenceLevel::Card),
        ("idio.mem.m1.large", vec!["BF-2/BF-3"], EvidenceLevel::Card),
        ("idio.hash.city64", vec!["BF-2"], EvidenceLevel::Application),
        ("dpbento.mem.seq.write.4MB", vec!["BF-3"], EvidenceLevel::Application),
    ] {
        let (published, without) = left_out(id, &keys);
        assert_eq!(without.closeness, closeness, "{id}");
        let error = without.interval.typ / published;
        assert!((0.8..1.25).contains(&error), "{id}: {error}");
    }
}

#[test]
fn a_memory_curve_is_not_drawn_across_the_edge_of_a_cache() {
    let fact = Facts::published().get("dpbento.mem.rnd.read.4MB").unwrap();
    let figure = figure(fact, &["BF-2"]);
    let question = Questions::published().of(&figure).unwrap();
    let without = Library::published().without_figure(&figure);
    let why = question.answer(&without).unwrap_err();
    assert!(why.remedy.contains("overside calibrate"), "{}", why.remedy);
}

#[test]
fn times_of_queries_were_not_fitted_and_most_lie_in_their_intervals() {
    let check = check(Facts::published(), Library::published());
    let times: Vec<_> = (check.figures.iter())
        .filter(|one| one.workload.contains("DuckDB"))
        .filter_map(|one| match &one.finding {
            Finding::Predicted(compared) => Some(compared),
            _ => None,
        })
        .collect();
    assert!(times.len() > 150);
    assert!(times.iter().all(|one| !one.fitted && one.closeness == EvidenceLevel::Application));
    let inside = times.iter().filter(|one| one.inside).count() as f64 / times.len() as f64;
    assert!(inside >= 0.85, "{inside}");
}

#[test]
fn data_that_does_not_fit_into_memory_is_not_hot() {
    let ask_at = |scale: &str, data: &str| {
        let set = [("profile", "bf2"), ("scale", scale), ("data", data)];
        let report = ask("query", &[set[0], set[1], set[2], ("query", "9")]);
        report.rows[0].latency.as_ref().unwrap().answer.clone()
    };
    assert!(ask_at("50", "hot").is_ok());
    let none = ask_at("1000", "hot").expect_err("104 GB in 16 GB");
    assert!(none.why.contains("16 GB"), "{none}");
    assert!(ask_at("1000", "cold").is_ok());
}

#[test]
fn all_queries_need_memory_for_what_they_read_together_and_what_one_builds() {
    let memory = |set: &[(&str, &str)]| {
        let report = ask("query", &[&[("profile", "bf3"), ("data", "hot")], set].concat());
        report.rows.iter().map(|row| crate::ask::metric(row, "memory")).collect::<Vec<_>>()
    };
    let each = memory(&[]);
    let (all, each) = each.split_last().unwrap();
    let most = each.iter().copied().fold(0.0, f64::max);
    let sum: f64 = each.iter().sum();
    // Queries read the same columns, and each builds tables of its own.
    assert!(most < *all && *all < sum, "{most} {all} {sum}");
    let [twice] = memory(&[("query", "all"), ("scale", "20")])[..] else { panic!() };
    assert!((twice / all - 2.0).abs() < 1e-9);
    // Q18 groups all orders in a hash table: it needs far more than Q6, which reads as much.
    assert!(each[17] > 1.5 * each[5], "{} {}", each[17], each[5]);
}

#[test]
fn percentiles_of_storage_lie_between_those_of_constant_and_of_memoryless_times() {
    let set =
        [("work", "storage"), ("profile", "bf3"), ("access", "random-read"), ("bytes", "4 MiB")];
    let mean = latency_ns(&ask("machine", &set).rows[0]);
    let at = |percentile: &str| {
        let set = [set.as_slice(), &[("percentile", percentile)]].concat();
        let report = ask("machine", &set);
        let name = "latency at the percentile";
        crate::ask::figure(report.rows[0].shown().find(|one| one.kind.name == name).unwrap())
    };
    for (percentile, memoryless) in [("50", 2.0_f64.ln()), ("99", 100.0_f64.ln())] {
        let is = at(percentile);
        assert!((is.typ / mean / memoryless.sqrt() - 1.0).abs() < 1e-6, "{is:?}");
        let (low, high) = (mean * memoryless.min(1.0), mean * memoryless.max(1.0));
        assert!(is.low < low && is.high > high && is.high < 10.0 * is.low, "{is:?}");
    }
    let small = [set.as_slice(), &[("bytes", "8 KiB"), ("percentile", "99")]].concat();
    let report = ask("machine", &small);
    let row = &report.rows[0];
    assert!(
        row.shown()
            .filter(|one| one.kind.name.starts_with("latency"))
            .all(|one| one.answer.is_err())
    );
    assert_eq!(refused("machine", &[("percentile", "100")]).key, "percentile");
    // Of anything else there is none.
    let access = ask("machine", &[("work", "access"), ("percentile", "99")]);
    assert!(access.rows[0].shown().all(|one| !one.kind.name.contains("percentile")));
}
