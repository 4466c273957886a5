//! Tests of the time by stage that a server reports.

use std::time::Instant;

use overside_kv::server::{Addresses, Settings};
use overside_kv::stages::Stage;

use super::running::{Running, addresses, local, settings, until};

#[test]
fn each_stage_has_its_time_and_all_together_are_the_time_that_passed() {
    let begin = Instant::now();
    let running = Running::start(Settings {
        addresses: Addresses { metrics: Some(local()), ..addresses() },
        ..settings()
    });
    let mut client = running.connect();
    client.ask("SET key value", "+OK\r\n");
    let first = Instant::now();
    for _ in 0..100 {
        client.say(&b"GET key\r\n".repeat(1000));
        client.hear(&b"$5\r\nvalue\r\n".repeat(1000));
    }
    let least_s = first.elapsed().as_secs_f64();
    let seconds = |stage: Stage| {
        running.metric(&format!("overside_kv_stage_seconds_total{{stage=\"{}\"}}", stage.name()))
    };
    let batches = running.metric("overside_kv_batches_total");
    assert!((100.0..=100_001.0).contains(&batches), "{batches}");
    let of_work = [Stage::Receive, Stage::Parse, Stage::Process, Stage::Respond, Stage::Other];
    for stage in of_work {
        assert!(seconds(stage) > 0.0, "{stage:?}");
    }
    // It sleeps when nobody asks.
    until("asleep", || seconds(Stage::Poll) < seconds(Stage::Wait));
    let sum: f64 = Stage::ALL.into_iter().map(seconds).sum();
    let most_s = begin.elapsed().as_secs_f64();
    assert!((least_s * 0.99..most_s * 1.01).contains(&sum), "{least_s} <= {sum} <= {most_s} s");
}

#[test]
fn info_has_the_stages() {
    let running = Running::start(settings());
    let mut client = running.connect();
    client.say(b"INFO stages\r\nQUIT\r\n");
    let text = String::from_utf8(client.rest()).unwrap();
    assert!(text.contains("\r\n# Stages\r\n"), "{text}");
    for stage in Stage::ALL {
        let name = format!("\r\nstage_{}_ns:", stage.name());
        assert_eq!(text.matches(&name).count(), 1, "{text}");
    }
    assert!(text.contains("\r\nbatches:"), "{text}");
    assert!(!text.contains("# Server"), "{text}");
}
