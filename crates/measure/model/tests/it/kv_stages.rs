//! A store whose stages were measured: consequences for other designs and more cores.

use overside_model::scenario::Method;

use crate::ask::{ask, figure, metric, rate, refused};

/// Communication takes 150 ns, processing 20, a link 40 and 30, a client 200.
const COSTS: [(&str, &str); 10] = [
    ("receive", "20 ns"),
    ("parse", "40 ns"),
    ("process", "18 ns"),
    ("persist", "2 ns"),
    ("respond", "85 ns"),
    ("other", "5 ns"),
    ("link_communication", "40 ns"),
    ("link_processing", "30 ns"),
    ("client", "200 ns"),
    ("doubt", "20 %"),
];

fn asked(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    [&COSTS[..], more].concat()
}

fn one(more: &[(&'static str, &'static str)]) -> (f64, String) {
    let report = ask("kv-stages", &asked(more));
    let [row] = &report.rows[..] else { panic!("{report:?}") };
    assert_eq!(report.provenance, "modelled");
    (rate(row), row.bottleneck.clone().unwrap())
}

fn is_near(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-6
}

#[test]
fn the_slowest_cores_limit_each_design() {
    for (more, ns, bottleneck) in [
        (&[("design", "cpu-only")][..], 170.0, "host cores"),
        (&[("design", "cpu-only"), ("host_cores", "2")], 85.0, "host cores"),
        (&[("design", "dpu-only"), ("dpu_speed", "0.5")], 340.0, "DPU cores"),
        (&[("design", "lat"), ("dpu_cores", "4")], 190.0 / 4.0, "DPU cores"),
        (&[("design", "sav"), ("dpu_cores", "4")], 50.0, "host cores"),
        (&[("design", "sav"), ("dpu_cores", "3")], 190.0 / 3.0, "DPU cores"),
        (&[("design", "cpu-only"), ("client_cores", "1")], 200.0, "the clients' cores"),
        // An agent in place of a DPU takes the clients' core.
        (
            &[("design", "sav"), ("client_cores", "1"), ("dpu", "clients")],
            390.0,
            "the clients' cores",
        ),
        // The link to the right core, or half of the requests passed on: 190 + 70 / 2.
        (&[("design", "lat"), ("dpu_cores", "8")], 190.0 / 8.0, "DPU cores"),
        (&[("design", "lat"), ("dpu_cores", "2"), ("at_owner", "50 %")], 225.0 / 2.0, "DPU cores"),
        (&[("design", "cpu-only"), ("host_cores", "2"), ("at_owner", "50 %")], 102.5, "host cores"),
        // The DPU's core asks for one in 190 ns, of which each of two host cores answers half: 25 ns. That leaves
        // 86.8 % of the one with clients, which takes 150 ns and half of 20 for its own.
        (
            &[("design", "dual"), ("host_cores", "2")],
            1.0 / (1.0 / 190.0 + (1.0 - 25.0 / 190.0) / 160.0),
            "DPU cores",
        ),
        (&[("design", "proc"), ("host_cores", "2")], 95.0, "host cores"),
        (&[("design", "proc"), ("host_cores", "4"), ("dpu_speed", "0.5")], 100.0, "DPU cores"),
        (&[("design", "proc"), ("host_cores", "4"), ("dpu_cores", "2")], 190.0 / 4.0, "host cores"),
        // One percent crosses, or three of four do: 170 + 3/4 x 70, on the slowest core.
        (
            &[("design", "shrd"), ("host_cores", "8"), ("dpu_cores", "8"), ("at_owner", "99 %")],
            170.7 / 16.0,
            "DPU cores",
        ),
        (
            &[
                ("design", "shrd"),
                ("host_cores", "2"),
                ("dpu_cores", "2"),
                ("dpu_speed", "0.5"),
                ("at_owner", "25 %"),
            ],
            2.0 * 222.5 / 4.0,
            "DPU cores",
        ),
    ] {
        let (found, limit) = one(more);
        assert!(is_near(found, 1e9 / ns), "{more:?}: {found}");
        assert_eq!(limit, bottleneck, "{more:?}");
    }
}

#[test]
fn what_a_request_burns_on_either_side_is_told() {
    let report = ask("kv-stages", &asked(&[("design", "cpu-only, sav"), ("dpu_speed", "0.5")]));
    let of = |row: usize, name: &str| metric(&report.rows[row], name);
    assert!(is_near(of(0, "host CPU a request"), 170.0));
    assert!(of(0, "DPU CPU a request").abs() < 1e-9);
    assert!(is_near(of(1, "host CPU a request"), 50.0));
    assert!(is_near(of(1, "DPU CPU a request"), 380.0));
    let all = [("design", "proc, shrd"), ("host_cores", "2"), ("at_owner", "0 %")];
    let report = ask("kv-stages", &asked(&all));
    let of = |row: usize, name: &str| metric(&report.rows[row], name);
    assert!(is_near(of(0, "host CPU a request"), 260.0));
    assert!(is_near(of(0, "DPU CPU a request"), 50.0));
    assert!(is_near(of(0, "DPU cores"), 1.0));
    let each = 170.0 + 70.0;
    assert!(is_near(of(1, "host CPU a request"), 2.0 / 3.0 * each));
    assert!(is_near(of(1, "DPU CPU a request"), each / 3.0));
}

#[test]
fn doubt_about_the_measurement_is_doubt_about_the_figures() {
    let report = ask("kv-stages", &asked(&[("design", "cpu-only")]));
    let interval = figure(report.rows[0].throughput.as_ref().unwrap());
    assert!(interval.low <= interval.typ / 1.19 && interval.high >= interval.typ * 1.19);
}

#[test]
fn queues_in_front_of_the_cores_agree_with_the_formulas() {
    for design in ["cpu-only", "sav", "dual", "shrd", "proc"] {
        let more = [
            ("design", design),
            ("host_cores", "2"),
            ("dpu_cores", "3"),
            ("in_flight", "256"),
            ("requests", "100000"),
        ];
        let report = ask("kv-stages", &asked(&more));
        assert_eq!(report.rows[0].method, Method::Simulated);
        let (formula, _) = one(&more[..4]);
        assert!((rate(&report.rows[0]) / formula - 1.0).abs() < 0.03, "{design}");
    }
}

#[test]
fn without_measured_costs_there_is_no_prediction() {
    let report = ask("kv-stages", &[]);
    assert_eq!(report.rows.len(), 6);
    assert_eq!(report.missing.len(), 1, "{:?}", report.missing);
    assert!(report.missing.iter().all(|one| one.remedy.contains("overside kv profile --json")));
    let refused = refused("kv-stages", &asked(&[("design", "dual")])).to_string();
    assert!(refused.contains("2 or more"), "{refused}");
}
