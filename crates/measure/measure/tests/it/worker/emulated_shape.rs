//! Shape of an emulated engine: what is published of its start, its data and its output appears in samples.

use overside_base::Random;
use overside_measure::{Sample, Setting, Test, Worker};
use overside_model::{Profile, profile};

use crate::worker::inputs::{DataSet, measured, text};

/// BlueField-2's entry for an operation, in its profile.
fn older_rates(operation: &str) -> Vec<(u64, f64)> {
    let bf2: Profile = profile("bf2").unwrap();
    let entry = bf2.operation(operation.parse().unwrap()).unwrap();
    let whole = entry.one_at_a_time.as_ref().unwrap();
    whole.source_bytes.iter().copied().zip(whole.rate.iter().copied()).collect()
}

/// One job at a time on a BlueField-2.
fn alone(data: &DataSet, operation: &str, buffer_size: u64) -> Sample {
    alone_on("emulated:bf2", data, operation, buffer_size)
}

fn alone_on(device: &str, data: &DataSet, operation: &str, buffer_size: u64) -> Sample {
    let mut test = Test {
        device: device.into(),
        buffer_size,
        depth: 1,
        batch: 1,
        timeout_s: 60.0,
        ..data.test(operation)
    };
    test.data.sample_bytes = buffer_size;
    measured(&mut Worker::new(), &test)
}

#[test]
fn jobs_alone_are_between_the_rates_that_were_published_of_two_releases() {
    let data = DataSet::new(&text(20 << 20));
    let older = older_rates("compress-deflate");
    for bytes in [104_857, 1 << 20, 20 << 20] {
        let sample = alone(&data, "compress-deflate", bytes);
        let [low, high] = sample.bounds["throughput"];
        let (_, published) = older.iter().find(|(size, _)| *size == bytes).unwrap();
        assert!((low / published - 1.0).abs() < 0.2, "{bytes}: {low} for {published}");
        // Many at a time, or one of 2 MiB, with a newer one: 2.95 GiB/s.
        assert!((high / 3167.5 - 1.0).abs() < 0.01, "{bytes}: {high}");
        let throughput = sample.metrics["throughput"];
        assert!(low <= throughput && throughput <= high, "{low} {throughput} {high}");
        // The start counts for most of a short job, and for nothing of a long one.
        let [start, engine] = ["start_ns", "engine_ns"].map(|stage| sample.stages[stage]);
        assert_eq!(start > engine, bytes == 104_857, "{bytes}: {start} {engine}");
        assert_eq!(start > 0.0, bytes < 2 << 20, "{bytes}: {start}");
        if bytes == 104_857 {
            assert!((throughput / published - 1.0).abs() < 0.2, "{throughput} for {published}");
        }
    }
}

#[test]
fn the_older_release_takes_what_was_published_of_it() {
    let data = DataSet::new(&text(20 << 20));
    for (bytes, published) in older_rates("compress-deflate") {
        let sample = alone_on("emulated:bf2-older-doca", &data, "compress-deflate", bytes);
        let found = sample.metrics["throughput"];
        assert!((found / published - 1.0).abs() < 0.1, "{bytes}: {found} for {published}");
        let [low, high] = sample.bounds["throughput"];
        assert!(low < published && published < high, "{bytes}: {low} {published} {high}");
    }
}

/// A study finds its engine slower than all cores of its host below 100 KB, and 4.9 times as fast at 512 MB.
#[test]
fn the_break_even_is_where_the_studies_saw_it() {
    let data = DataSet::new(&text(20 << 20));
    let rate = |bytes| alone(&data, "compress-deflate", bytes).metrics["throughput"];
    let host = rate(20 << 20) / 4.9;
    assert!(rate(100_000) < host, "{host}");
    assert!(rate(1 << 20) > host, "{host}");
    let faster = (17..20).map(|power| 1 << power).find(|bytes| rate(*bytes) > host);
    assert!(faster.is_some(), "{host}");
}

#[test]
fn data_that_compress_poorly_are_slower_and_results_come_no_faster_than_published() {
    let (plain, noise) = (text(2 << 20), Random::new(1).bytes(2 << 20));
    let engine = |bytes: &[u8], operation: &str| {
        let sample = alone(&DataSet::new(bytes), operation, 2 << 20);
        sample.metrics["engine_throughput"] * 1e6 / f64::from(1 << 30)
    };
    let [usual, poor] = [&plain, &noise].map(|bytes| engine(bytes, "compress-deflate"));
    assert!((poor / 1.03 - 1.0).abs() < 0.01, "{poor}");
    assert!(usual > 1.5 * poor && usual < 2.96, "{usual}");
    // 1.2 GiB/s of the compressed side would be 60 GiB/s and more.
    let zeros = engine(&[0; 2 << 20], "decompress-deflate");
    assert!((zeros / 3.2 - 1.0).abs() < 0.01, "{zeros}");
}

#[test]
fn bounds_of_many_jobs_and_of_new_contexts_contain_the_figure() {
    let data = DataSet::new(&text(1 << 20));
    for (device, operation) in [
        ("emulated:bf2", "compress-deflate"),
        ("emulated:bf2", "decompress-deflate"),
        ("emulated:bf3", "decompress-lz4-block"),
    ] {
        let [few, many, anew] =
            [(1, Setting::Static), (16, Setting::Static), (1, Setting::Reconfiguration)].map(
                |(depth, setting)| {
                    let test = Test {
                        device: device.into(),
                        buffer_size: 16384,
                        depth,
                        setting,
                        ..data.test(operation)
                    };
                    let sample = measured(&mut Worker::new(), &test);
                    let ([low, high], found) =
                        (sample.bounds["throughput"], sample.metrics["throughput"]);
                    assert!(low < found && found <= high, "{test:?}: {low} {found} {high}");
                    assert_eq!(
                        sample.bounds.contains_key("latency_mean"),
                        test.depth == 1 && setting == Setting::Static
                    );
                    low
                },
            );
        assert!(anew < few && few <= many, "{device} {operation}: {anew} {few} {many}");
    }
    // This machine's own cores have no such bounds.
    assert!(measured(&mut Worker::new(), &data.test("compress-deflate")).bounds.is_empty());
}

/// The bounds of a placement are those of its device, as far as the CPU lets them show.
#[test]
fn bounds_of_a_placement_narrow_with_the_share_of_the_device() {
    let data = DataSet::new(&text(4 << 20));
    let width = |placement: &str| {
        let test = Test {
            device: "emulated:bf2".into(),
            buffer_size: 65536,
            placement: Some(placement.parse().unwrap()),
            ..data.test("compress-deflate")
        };
        let sample = measured(&mut Worker::new(), &test);
        let found = sample.metrics["throughput"];
        let [low, high] = *sample.bounds.get("throughput").unwrap_or(&[found; 2]);
        assert!(low <= found && found <= high, "{placement}: {low} {found} {high}");
        high / low
    };
    let [all, half, none] = ["device", "split:50", "cpu"].map(width);
    assert!(all > 1.5 && all > half, "{all} {half}");
    assert!(half >= 1.0 && none == 1.0, "{half} {none}");
    // A controller would share differently with another device.
    assert_eq!(width("adaptive"), 1.0);
}
