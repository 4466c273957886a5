//! Tests of transfers, of networks and of how they slow each other down.

use overside_model::Completion;
use overside_model::contention::{Demand, load_of, shares, stretch, traffic_loss};
use overside_model::dma::{self, Access, Primitive, Transfer};
use overside_model::network::{Submode, tcp_through};
use overside_model::scenario::Report;
use overside_model::{
    Axis, EvidenceLevel, Initiator, Library, Profile, Quantity, Table, Unit, profile,
};

use crate::ask::{ask, ask_of, figure, latency_ns, metric, preset, rate, refused};

fn polled(primitive: Primitive, bytes: f64) -> Transfer {
    Transfer {
        primitive,
        initiator: Initiator::Soc,
        completion: Completion::Poll,
        access: Access::Read,
        bytes,
    }
}

fn latency(card: &str, transfer: Transfer) -> f64 {
    let evidence = profile(card).unwrap().evidence();
    let answer =
        evidence.predict(EvidenceLevel::Same, |values| dma::latency(values, "", &transfer));
    answer.unwrap().interval.typ
}

/// Adds a table to the profile as if copies of 64 B and 64 KiB had been measured on the card, in
/// nanoseconds.
fn measure_copies(profile: &mut Profile, value_ns: [f64; 2]) {
    let measured = Table {
        by: Axis::Bytes,
        at: vec![64.0, 65536.0],
        value: value_ns.to_vec(),
        unit: Unit::Ns,
        facts: Vec::new(),
        citation: Some("measured on this card".into()),
        note: None,
        cites: Vec::new(),
    };
    (profile.tables).insert("dma.copy.latency.poll".into(), measured);
}

#[test]
fn a_latency_that_was_measured_on_the_card_needs_no_formula() {
    let mut calibrated = profile("bf2").unwrap();
    measure_copies(&mut calibrated, [2000.0, 8000.0]);
    let library = Library::new(vec![calibrated]);
    let latency = |bytes, initiator| {
        let transfer = Transfer { initiator, ..polled(Primitive::Dma, bytes) };
        dma::engine(&library, "bf2", &transfer, 1.0).latency_ns
    };
    let typ = |bytes| latency(bytes, Initiator::Host).unwrap().interval.typ;
    assert_eq!((typ(64.0), typ(65536.0)), (2000.0, 8000.0));
    assert!((2000.0..8000.0).contains(&typ(4096.0)));
    // Neither longer transfers nor those of the card's own cores were measured.
    assert!(latency(1e6, Initiator::Host).is_err());
    assert!(latency(64.0, Initiator::Soc).is_err());
}

#[test]
fn a_range_of_an_owners_gives_a_latency_with_its_interval() {
    let mut card = profile("bf2-200g").unwrap();
    let short = Quantity {
        value: None,
        low: Some(1000.0),
        high: Some(3000.0),
        unit: Unit::Ns,
        facts: Vec::new(),
        citation: Some("an owner's".into()),
        note: None,
        cites: None,
        rests_on: Vec::new(),
    };
    card.values.insert("dma.copy.latency.poll".into(), short);
    let library = Library::new(vec![card]);
    let transfer = polled(Primitive::Dma, 64.0);
    let answer = dma::engine(&library, "bf2-200g", &transfer, 1.0).latency_ns;
    let interval = answer.unwrap().interval;
    assert!(interval.low <= 1010.0 && interval.high >= 3000.0, "{interval:?}");
    assert!((1000.0..3100.0).contains(&interval.typ), "{interval:?}");
}

#[test]
fn a_rate_that_was_measured_on_the_card_is_that_of_its_engine() {
    let mut calibrated = profile("bf2").unwrap();
    let mut rates =
        Table { unit: Unit::MBPerS, ..(calibrated.tables.values().next()).unwrap().clone() };
    (rates.by, rates.at, rates.value) = (Axis::Bytes, vec![64.0, 65536.0], vec![320.0, 8000.0]);
    (calibrated.tables).insert("dma.copy.rate.poll".into(), rates);
    let library = Library::new(vec![calibrated]);
    let busy_ns = |bytes, cores| {
        let transfer = Transfer { initiator: Initiator::Host, ..polled(Primitive::Dma, bytes) };
        let answer = dma::engine(&library, "bf2", &transfer, cores).busy_ns;
        answer.unwrap().interval.typ
    };
    assert!((busy_ns(64.0, 1.0) / 200.0 - 1.0).abs() < 1e-9);
    assert!((busy_ns(65536.0, 1.0) / 8192.0 - 1.0).abs() < 1e-9);
    // Two cores are as fast as the link at most.
    assert!((busy_ns(64.0, 2.0) / 100.0 - 1.0).abs() < 1e-9);
    assert!(busy_ns(65536.0, 2.0) > 4096.0);
}

#[test]
fn a_transfer_takes_longer_the_longer_it_is_and_never_less_by_events() {
    for card in ["bf2-200g", "bf3-8c"] {
        for initiator in [Initiator::Host, Initiator::Soc] {
            let mut before = 0.0;
            for power in 1..24 {
                let poll = Transfer { initiator, ..polled(Primitive::Dma, f64::from(1 << power)) };
                let event = Transfer { completion: Completion::Event, ..poll };
                let now = latency(card, poll);
                assert!(now > before && latency(card, event) > now, "{card} {power}");
                before = now;
            }
        }
    }
}

#[test]
fn rdma_is_the_better_one_for_long_reads_and_dma_for_short_ones_on_a_bluefield_2() {
    let both = |card, bytes| {
        let dma = latency(card, polled(Primitive::Dma, bytes));
        dma / latency(card, polled(Primitive::Rdma, bytes))
    };
    assert!(both("bf2-200g", 64.0) < 0.85);
    assert!((0.95..1.05).contains(&both("bf3-8c", 64.0)));
    assert!(both("bf2-200g", 2097152.0) > 1.1);
    assert!(both("bf3-8c", 2097152.0) > 1.8);
}

#[test]
fn microseconds_need_a_calibrated_card() {
    let set = [("primitive", "dma"), ("initiator", "dpu"), ("access", "read")];
    let report = ask("dma", &set);
    for row in &report.rows {
        let why = row.latency.as_ref().unwrap().answer.as_ref().unwrap_err();
        assert!(why.why.contains("dma.copy.latency.poll"), "{why}");
        assert!(why.remedy.contains("overside calibrate"), "{why}");
        assert!(row.more.iter().all(|shown| shown.answer.is_ok()), "{row:?}");
    }

    let mut calibrated = profile("bf2-200g").unwrap();
    measure_copies(&mut calibrated, [1500.0, 9000.0]);
    let report = ask_of(&Library::new(vec![calibrated]), "dma", &set).unwrap();
    let short_ns = latency_ns(&report.rows[0]);
    assert!((1450.0..1700.0).contains(&short_ns), "{short_ns}");
}

#[test]
fn short_dmas_are_bound_by_cores_and_long_ones_by_the_link() {
    let set = [("primitive", "dma"), ("bytes", "64 B, 2 MiB")];
    let report = ask("dma", &set);
    let limits: Vec<_> = (report.rows.iter())
        .map(|row| row.throughput.as_ref().unwrap().answer.as_ref().unwrap())
        .map(|answer| answer.bottleneck.clone().unwrap())
        .collect();
    for pair in limits.chunks(2) {
        assert_eq!(pair[0], "the cost of a DMA on its core");
    }
    assert!(limits.contains(&"the link".to_owned()));
}

#[test]
fn shares_are_fair_by_weight_and_use_all_that_is_asked_for() {
    let ask = |bytes_per_s, weight| Demand { bytes_per_s, weight };
    // Nobody is held back while there is room.
    assert_eq!(shares(10.0, &[ask(3.0, 1.0), ask(4.0, 1.0)]), [3.0, 4.0]);
    // A small one keeps all of its own, the others share the rest.
    let got = shares(10.0, &[ask(1.0, 1.0), ask(100.0, 1.0), ask(100.0, 2.0)]);
    assert_eq!(got, [1.0, 3.0, 6.0]);
    assert_eq!(
        shares(10.0, &[ask(-1.0, 1.0), ask(f64::NAN, 1.0), ask(20.0, 1.0)]),
        [0.0, 0.0, 10.0]
    );
    assert_eq!(shares(10.0, &[]), Vec::<f64>::new());
}

#[test]
fn waiting_grows_with_load_and_traffic_loses_more_beside_more_dma() {
    assert!((stretch(load_of(4.0)) - 4.0).abs() < 1e-9);
    let evidence = profile("bf2-200g").unwrap().evidence();
    let loss = |intensity| {
        let answer =
            evidence.predict(EvidenceLevel::Same, |values| traffic_loss(values, "", intensity));
        answer.unwrap().interval.typ
    };
    assert!(loss(0.25) < loss(0.5) && loss(0.5) < loss(1.0));
    assert!((loss(1.0) - 0.366).abs() < 1e-9, "as published at full load");
}

#[test]
fn over_time_traffic_falls_to_the_closed_form_beside_dmas_and_recovers() {
    let gbps = |report: &Report, row: usize| {
        figure(report.rows[row].throughput.as_ref().unwrap()).scale(8e-9)
    };
    for intensity in ["25", "100"] {
        let closed = ask("interference", &[("intensity", intensity)]);
        let closed = gbps(&closed, 0).typ;
        let set =
            [("beside", "dma"), ("intensity", intensity), ("phase", "30 ms"), ("windows", "2")];
        let series = ask("interference", &set);
        assert_eq!(series.rows.len(), 6);
        for row in [0, 1, 5] {
            let quiet = gbps(&series, row);
            assert!((quiet.typ - 10.0).abs() < 0.05, "{intensity}: {quiet:?}");
            assert_eq!(quiet.low, quiet.high, "nothing is in doubt there");
        }
        for row in [2, 3] {
            let beside = gbps(&series, row);
            assert!((beside.typ / closed - 1.0).abs() < 0.05, "{beside:?}, {closed}");
            assert!(beside.low < beside.typ && beside.high <= 10.0 + 1e-9);
        }
    }
    // Jobs of an engine do not cross its path.
    let engine = [("beside", "engine"), ("phase", "3 ms")];
    let engine = ask("interference", &engine);
    assert!((0..engine.rows.len()).all(|row| (gbps(&engine, row).typ - 10.0).abs() < 0.1));
}

#[test]
fn a_card_that_loses_more_than_waiting_explains_is_simulated_all_the_same() {
    let text = profile("bf2-200g").unwrap().to_toml();
    let wild = text.replace("value = 3.1", "value = 1.05").replace("value = 36.6", "value = 99");
    assert_ne!(wild, text);
    let wild = Profile::parse("bf2-200g.toml", &wild).unwrap();
    let set = [("profile", "bf2-200g"), ("intensity", "100"), ("phase", "1 ms")];
    let report = ask_of(&Library::new(vec![wild]), "interference", &set).unwrap();
    assert!(report.rows.len() > 6);
}

#[test]
fn a_path_through_the_cards_cores_is_the_same_in_every_scenario() {
    let closed = ask("network", &[("path", "sm3")]);
    let set = [("submode", "sm3"), ("load", "1000"), ("frames", "2000")];
    let onpath = ask("onpath", &set);
    let (closed, onpath) = (rate(&closed.rows[0]), rate(&onpath.rows[0]));
    assert!((onpath / closed - 1.0).abs() < 0.02, "{onpath} {closed}");
}

#[test]
fn what_passes_no_core_of_the_card_is_as_fast_behind_every_card() {
    let rate = |card: &str, submode| {
        let evidence = profile(card).unwrap().evidence();
        let answer =
            evidence.predict(EvidenceLevel::Same, |values| tcp_through(values, "", submode));
        answer.unwrap().interval.typ
    };
    for card in ["bf1", "bf2-200g", "bf3-8c"] {
        assert_eq!(rate(card, Submode::Sm4), rate("bf1", Submode::OffPath));
        assert!(rate(card, Submode::Sm1) <= rate(card, Submode::Sm2));
        assert!(rate(card, Submode::Sm2) < rate(card, Submode::Sm3));
        assert!(rate(card, Submode::Sm3) < rate(card, Submode::Sm5));
    }
}

#[test]
fn the_ready_made_questions_about_links_are_answered() {
    for name in ["dma-primitives", "network-paths", "dma-beside-traffic", "dma-burst"] {
        let report = preset(name);
        let answered = report.rows.iter().filter(|row| row.shown().any(|one| one.answer.is_ok()));
        assert_eq!(answered.count(), report.rows.len(), "{name}");
        assert!(!report.facts.is_empty(), "{name}");
    }
    let set = [("primitive", "rdma-inline"), ("access", "write"), ("bytes", "4 KiB")];
    let error = refused("dma", &set);
    assert_eq!(error.key, "bytes");
    assert!(error.remedy.contains("128"), "{error}");
}

#[test]
fn no_more_passes_a_card_than_its_port_carries_and_losses_are_of_what_was_sent() {
    let port = 25e9 / 8.0;
    let set = [("profile", "bf2"), ("load", "800"), ("path_rate", "1000"), ("frames", "20000")];
    let onpath = ask("onpath", &set);
    let carried = figure(onpath.rows[0].throughput.as_ref().unwrap());
    assert!(carried.high <= port * 1.001, "{carried:?}");
    let lost = metric(&onpath.rows[0], "lost");
    assert!((lost - (1.0 - 25.0 / 800.0)).abs() < 0.06, "{lost}");

    let through = ask("network", &[("profile", "bf2"), ("path", "off-path")]);
    let carried = figure(through.rows[0].throughput.as_ref().unwrap());
    assert!(carried.high <= port, "{carried:?}");
    assert_eq!(through.rows[0].bottleneck.as_deref(), Some("the card's port"));

    for beside in ["dma", "engine"] {
        let set =
            [("profile", "bf2-200g"), ("beside", beside), ("intensity", "100"), ("traffic", "800")];
        let row = &ask("interference", &set).rows[0];
        let kept = figure(row.throughput.as_ref().unwrap());
        assert!(kept.high <= 200e9 / 8.0, "{kept:?}");
        let lost = metric(row, "lost");
        assert!((lost - (1.0 - kept.typ / 100e9)).abs() < 1e-9, "{lost}");
        assert_eq!(row.bottleneck.as_deref(), Some("the card's port"));
    }
}
