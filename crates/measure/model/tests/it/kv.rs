//! Key-value scenarios: their answers, and the agreement of simulation and formulas.

use overside_model::scenario::{Method, Report};
use overside_model::{EvidenceLevel, Library};

use crate::ask::{ask, ask_of, figure, latency_ns, metric, rate, refused};

const DESIGNS: &str = "cpu-only, dpu-only, lat, sav, dual, shrd";

fn near(a: f64, b: f64, within: f64) -> bool {
    (a / b - 1.0).abs() < within
}

#[test]
fn every_design_is_answered_with_a_bottleneck_and_its_host_cores() {
    let report = ask("kv", &[("gets", "50, 95, 100")]);
    assert_eq!(report.rows.len(), 18);
    assert_eq!(report.provenance, "modelled");
    for row in &report.rows {
        assert!(row.bottleneck.is_some() && row.method == Method::ClosedForm, "{row:?}");
        let interval = figure(row.throughput.as_ref().unwrap());
        assert!(interval.low < interval.typ && interval.typ < interval.high, "{row:?}");
    }
    let cores: Vec<f64> =
        report.rows[..18].iter().map(|row| figure(row.host_cores.as_ref().unwrap()).typ).collect();
    // One host core for each of eight Arm cores, one for all, or those that serve beside them.
    for (index, expected) in [8.0, 0.0, 8.0, 1.0, 3.0, 8.0].into_iter().enumerate() {
        assert!(cores[3 * index..3 * index + 3].iter().all(|one| *one == expected), "{cores:?}");
    }
    assert!(report.facts.keys().any(|id| id.starts_with("dpukv.")), "{:?}", report.facts);
}

#[test]
fn the_same_cores_serve_as_much_when_simulated_as_the_formulas_say() {
    let closed = ask("kv", &[("design", DESIGNS)]);
    let simulated = ask("kv", &[("design", DESIGNS), ("requests", "200000")]);
    for (formula, events) in closed.rows.iter().zip(&simulated.rows) {
        assert_eq!(events.method, Method::Simulated);
        assert!(near(rate(events), rate(formula), 0.03), "{:?}", events.labels);
        assert!(near(latency_ns(events), latency_ns(formula), 0.05), "{:?}", events.labels);
        assert_eq!(metric(events, "dropped"), 0.0);
    }
}

#[test]
fn where_next_to_nothing_queues_formula_and_simulation_agree() {
    let set = [("design", DESIGNS), ("load", "0.1 Mops/s")];
    let closed = ask("kv", &set);
    let simulated = ask("kv", &[set[0], set[1], ("requests", "100000")]);
    for (formula, events) in closed.rows.iter().zip(&simulated.rows) {
        assert!(near(rate(events), 1e5, 0.02), "{:?}", events.labels);
        assert!(near(latency_ns(events), latency_ns(formula), 0.01), "{:?}", events.labels);
    }
}

#[test]
fn requests_wait_for_cores_as_queueing_theory_says() {
    // Eight Arm cores at about 85 % of 17.6 Mops, each a queue with a fixed service time.
    let set = [("design", "dpu-only"), ("load", "15 Mops/s")];
    let formula = ask("kv", &set);
    let events = ask("kv", &[set[0], set[1], ("requests", "2000000")]);
    assert!(
        near(latency_ns(&events.rows[0]), latency_ns(&formula.rows[0]), 0.03),
        "{} {}",
        latency_ns(&events.rows[0]),
        latency_ns(&formula.rows[0])
    );
}

#[test]
fn skewed_keys_are_bound_by_the_core_that_has_the_most_wanted() {
    let set = [("design", "dpu-only, shrd"), ("skew", "0.99")];
    let uniform = ask("kv", &[set[0]]);
    let formula = ask("kv", &set);
    let events = ask("kv", &[set[0], set[1], ("requests", "500000")]);
    for ((even, formula), events) in uniform.rows.iter().zip(&formula.rows).zip(&events.rows) {
        assert!(rate(formula) < 0.95 * rate(even), "{:?}", formula.labels);
        assert!(near(rate(events), rate(formula), 0.03), "{} {}", rate(events), rate(formula));
    }
    assert!(!formula.notes.is_empty());
}

#[test]
fn more_than_can_be_answered_is_dropped_and_not_hidden() {
    let set = [("design", "dpu-only"), ("load", "30 Mops/s")];
    let closed = ask("kv", &set);
    assert!(closed.rows[0].latency.as_ref().unwrap().answer.is_err());
    let report = ask("kv", &[set[0], set[1], ("queue", "64"), ("requests", "300000")]);
    let row = &report.rows[0];
    assert!(near(rate(row), rate(&closed.rows[0]), 0.02));
    // 17.6 of 30 are answered.
    assert!((metric(row, "dropped") - (1.0 - 17.6 / 30.0)).abs() < 0.02, "{row:?}");
    // A full queue of 64 in front of a core of 2.2 Mops.
    assert!(near(latency_ns(row), 65.0 / 2.2e6 * 1e9, 0.05), "{}", latency_ns(row));
}

#[test]
fn the_same_seed_has_the_same_answer() {
    let with = |seed| {
        let set =
            [("design", "dual"), ("load", "20 Mops/s"), ("requests", "50000"), ("seed", seed)];
        latency_ns(&ask("kv", &set).rows[0])
    };
    assert_eq!(with("7"), with("7"));
    assert_ne!(with("7"), with("8"));
}

#[test]
fn larger_dmas_carry_more_requests_at_the_same_cost() {
    let report = ask("kv", &[("design", "lat"), ("batch", "16, 64, 128")]);
    let rates: Vec<f64> = report.rows.iter().map(rate).collect();
    assert!(rates[0] < rates[1] && rates[1] < rates[2], "{rates:?}");
    // 2 KiB to 4 KiB gained 4.7 %.
    assert!(near(rates[2] / rates[1], 1.047, 1e-6), "{rates:?}");
}

#[test]
fn a_store_on_the_card_alone_moves_nothing_to_the_host() {
    let report = ask("kv", &[("design", "dpu-only")]);
    let row = &report.rows[0];
    let moved = figure(row.shown().find(|one| one.kind.name.contains("PCIe")).unwrap());
    assert_eq!((moved.low, moved.high), (0.0, 0.0));
}

#[test]
fn cards_without_figures_have_no_prediction_and_relatives_a_wide_one() {
    let unknown = ask("kv", &[("profile", "octeon-tx2"), ("design", "dpu-only")]);
    assert!(unknown.rows[0].throughput.as_ref().unwrap().answer.is_err());
    assert!(unknown.missing.iter().any(|one| one.remedy.contains("YCSB")));

    let twice = ask("kv", &[("profile", "bf3"), ("design", "dpu-only")]);
    let measured = ask("kv", &[("profile", "bf3-8c"), ("design", "dpu-only")]);
    let answer = |report: &Report| report.rows[0].throughput.clone().unwrap().answer.unwrap();
    assert_eq!(answer(&measured).closeness, EvidenceLevel::Same);
    assert_eq!(answer(&twice).closeness, EvidenceLevel::Application);
    assert!(answer(&twice).interval.typ > 1.8 * answer(&measured).interval.typ);
}

#[test]
fn what_was_left_out_is_predicted_from_the_rest_or_not_at_all() {
    let set = |library: &Library, design: &str| {
        let report = ask_of(library, "kv", &[("profile", "bf3-8c"), ("design", design)]).unwrap();
        report.rows[0].throughput.clone().unwrap().answer
    };
    let whole = Library::published();
    let without = whole.without(&["dpukv.bf3.lat.c"]);
    let (known, rest) = (set(whole, "lat").unwrap(), set(&without, "lat").unwrap());
    assert!(rest.closeness > known.closeness);
    assert!(rest.interval.low < known.interval.typ && known.interval.typ < rest.interval.high);
    let nothing = whole.without(&["dpukv.bf3.lat.c", "dpukv.coarse.bf3"]);
    assert!(set(&nothing, "dpu-only").is_err());
}

#[test]
fn clients_on_a_card_do_not_care_where_the_server_is() {
    let report = ask("pairings", &[("pairing", "ch-sh, cd-sh, cd-sd")]);
    let relative: Vec<f64> =
        (report.rows.iter()).map(|row| metric(row, "throughput over ch-sh")).collect();
    for of_store in relative.chunks(3) {
        assert_eq!(of_store[0], 1.0);
        assert!(of_store[1] < 1.0 && of_store[1] == of_store[2], "{relative:?}");
    }
}

#[test]
fn a_server_on_the_card_is_best_for_dpdk_on_the_newest_card_only() {
    let on = |card| {
        let set = [("profile", card), ("store", "mica"), ("pairing", "ch-sd")];
        metric(&ask("pairings", &set).rows[0], "throughput over ch-sh")
    };
    assert!(on("bf3-8c") > 1.0 && on("bf2-200g") < 1.0 && on("bf1") < on("bf2-200g"));
}

#[test]
fn values_that_cannot_be_are_named_with_what_is_allowed() {
    let error = refused("kv", &[("design", "shard")]);
    assert_eq!((error.key.as_str(), error.suggestion.as_deref()), ("design", Some("shrd")));
    let error = refused("kv", &[("load", "5"), ("in_flight", "100")]);
    assert!(error.to_string().contains("not both"), "{error}");
    let error = refused("kv", &[("gets", "101")]);
    assert!(error.key == "gets" && error.remedy.contains("100"), "{error}");
    let error = refused("kv", &[("requests", "100000000"), ("batch", "1, 2, 4, 8, 16, 32, 64")]);
    assert!(error.to_string().contains("events"), "{error}");
    let error = refused("pairings", &[("submode", "sm3"), ("store", "herd"), ("pairing", "ch-sh")]);
    assert_eq!(error.key, "submode");
}

#[test]
fn one_host_core_processes_for_all_arm_cores_where_host_cores_are_to_be_saved() {
    let report = ask("kv", &[("profile", "bf3-8c"), ("design", "sav")]);
    let row = &report.rows[0];
    assert_eq!(figure(row.host_cores.as_ref().unwrap()).typ, 1.0);
    // Where the study found it saturated.
    assert!(near(rate(row), 20.5e6, 1e-6), "{}", rate(row));
    assert_eq!(row.bottleneck.as_deref(), Some("host cores"));
}

#[test]
fn designs_that_a_cards_mode_cannot_carry_have_no_prediction() {
    for card in ["bf3-8c", "bf3"] {
        let report = ask("kv", &[("profile", card), ("design", "dual, shrd")]);
        for row in &report.rows {
            let none = row.throughput.as_ref().unwrap().answer.as_ref();
            let none = none.expect_err("it has no such mode");
            assert!(none.why.contains("separated-host mode"), "{none}");
            assert!(none.remedy.contains("sav"), "{none}");
        }
    }
    let carried = ask("kv", &[("profile", "bf2-200g"), ("design", "dual, shrd")]);
    assert!(carried.rows.iter().all(|row| rate(row) > 0.0));
    assert_eq!(carried.rows[0].bottleneck.as_deref(), Some("PCIe path"));
}

#[test]
fn no_more_than_the_load_is_served_and_no_more_cores_are_counted_than_it_needs() {
    let at = |design: &str, load: &str| {
        let set = [("design", design), ("load", load)];
        let report = ask("kv", &set);
        let row = &report.rows[0];
        let served = figure(row.throughput.as_ref().unwrap());
        let cores = figure(row.host_cores.as_ref().unwrap()).typ;
        (served, cores, report)
    };
    let (served, cores, _) = at("cpu-only", "5 Mops/s");
    assert_eq!((served.typ, served.high), (5e6, 5e6), "{served:?}");
    assert_eq!(cores, 2.0);
    assert_eq!(at("cpu-only", "20 Mops/s").1, 6.0);
    // Each host core has an Arm core of its own.
    let (served, cores, report) = at("lat", "5 Mops/s");
    assert!(served.high <= 5e6, "{served:?}");
    assert_eq!(metric(&report.rows[0], "Arm cores"), cores);
    assert!(cores < 8.0);
    assert_eq!(at("sav", "5 Mops/s").1, 1.0);
    // Somebody who says how many gets as many.
    let set = [("design", "cpu-only"), ("load", "5 Mops/s"), ("host_cores", "7")];
    let row = &ask("kv", &set).rows[0];
    assert_eq!(figure(row.host_cores.as_ref().unwrap()).typ, 7.0);
}
