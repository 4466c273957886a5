//! Samples in virtual time: the same on any machine, however busy it is.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::worker::inputs::{DataSet, measured, sample_of, text};
use overside_device::{
    Context, ContextConfig, Device, Job, OpenError, Provenance, SubmitError, Timing,
};
use overside_layers::{ContextLayer, DeviceLayer, Layered, LayeredContext};
use overside_measure::boxes;
use overside_measure::{Input, Sample, Setting, Sizes, Test, Worker};
use overside_model::split::Split;
use overside_placement::Policy;
use serde_json::json;

/// A device on which everything that is computed takes four times as long.
struct Slow(Arc<dyn Device>);

impl DeviceLayer for Slow {
    fn inner(&self) -> &dyn Device {
        &*self.0
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        Ok(LayeredContext::around(self.0.open(config)?, SlowContext))
    }
}

struct SlowContext;

impl ContextLayer for SlowContext {
    fn submit(
        &mut self,
        inner: &mut dyn Context,
        jobs: &mut VecDeque<Job>,
    ) -> Result<usize, SubmitError> {
        let begun = Instant::now();
        let taken = inner.submit(jobs);
        let end = begun + 4 * begun.elapsed();
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        taken
    }
}

fn slow_worker() -> Worker {
    Worker::with_devices(Box::new(|name, options| {
        let device = overside_backends::open(name, options)?;
        Ok(Arc::new(Layered(Slow(device))))
    }))
}

/// Keeps cores busy meanwhile, by two threads.
fn beside_load<T>(work: impl FnOnce() -> T) -> T {
    beside_threads(2, work)
}

fn beside_threads<T>(threads: usize, work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let done = work();
        stop.store(true, Ordering::Relaxed);
        done
    })
}

/// Tests at rates that no software of this machine keeps up with.
fn fast(data: &DataSet) -> Vec<Test> {
    let of = |device: &str, operation: &str, buffer_size: u64, patterns: &[&str]| Test {
        device: device.into(),
        buffer_size,
        patterns: patterns.iter().map(|&one| one.to_owned()).collect(),
        sample_s: 0.02,
        ..data.test(operation)
    };
    let regex = ["Ramp to (.+)"];
    vec![
        of("emulated:bf3", "decompress-lz4-block", 65536, &[]),
        of("emulated:bf3-doca22", "match-count", 4096, &regex),
        of("emulated:bf2", "match-count", 64, &regex),
        of("emulated:bf2", "compress-deflate", 65536, &[]),
        Test {
            setting: Setting::Reconfiguration,
            ..of("emulated:bf2", "compress-deflate", 65536, &[])
        },
    ]
}

fn figures(sample: &Sample) -> (u64, u64, Vec<(String, f64)>) {
    // What the host's cores spend is measured.
    let of_model = |name: &str| !name.starts_with("cpu_");
    let metrics = sample.metrics.iter().filter(|(name, _)| of_model(name));
    (
        sample.elapsed_ns.unwrap(),
        sample.work.unwrap().jobs,
        metrics.map(|(name, value)| (name.clone(), *value)).collect(),
    )
}

#[test]
fn a_slower_and_a_busy_machine_give_the_same_figures() {
    let data = DataSet::new(&text(1 << 19));
    for test in fast(&data) {
        let sample = measured(&mut Worker::new(), &test);
        assert_eq!(
            (sample.provenance, sample.timing, sample.late),
            (Some(Provenance::Emulated), Some(Timing::Virtual), None)
        );
        assert!(sample.warnings.iter().all(|one| one.kind != "late"));
        let slower = measured(&mut slow_worker(), &test);
        assert_eq!(figures(&slower), figures(&sample), "{test:?}");
        let busy = beside_load(|| measured(&mut Worker::new(), &test));
        assert_eq!(figures(&busy), figures(&sample), "{test:?}");
    }
}

#[test]
fn a_busy_machine_gives_the_same_figures_of_dma_at_published_rates() {
    // Bytes a second of a BlueField-3's engine: 48 and 47 GiB/s.
    for (initiator, threads, buffer_size, gib_per_s) in
        [("host", 4, 1 << 20, 48.0), ("dpu", 16, 65536, 47.0)]
    {
        let test = json!({
            "kind": "dma", "device": "emulated:bf3", "initiator": initiator, "operation": "read",
            "completion": "poll", "measure": "throughput", "buffer_size": buffer_size, "depth": 8,
            "batch": 4, "threads": threads, "warmup_s": 0.0, "sample_s": 0.005, "timeout_s": 60.0, "seed": 7,
        });
        let quiet = sample_of(&test);
        assert_eq!(
            (quiet.provenance, quiet.timing, quiet.late),
            (Some(Provenance::Emulated), Some(Timing::Virtual), None),
            "{quiet:?}"
        );
        assert!(quiet.warnings.iter().all(|one| one.kind != "late"));
        let expected = gib_per_s * f64::from(1 << 30) / 1e6;
        let found = quiet.metrics["throughput"];
        assert!((found / expected - 1.0).abs() < 0.02, "{found} {expected}");
        let busy = beside_load(|| sample_of(&test));
        let of_engine = |sample: &Sample| {
            let (elapsed, jobs, _) = figures(sample);
            (elapsed, jobs, sample.metrics["throughput"], sample.metrics["rate"])
        };
        assert_eq!(of_engine(&busy), of_engine(&quiet), "{test}");
    }
}

#[test]
fn one_job_at_a_time_takes_what_the_model_says() {
    let data = DataSet::new(&text(1 << 19));
    for mut test in fast(&data) {
        (test.depth, test.batch) = (1, 1);
        let sample = measured(&mut Worker::new(), &test);
        let each = sample.elapsed_ns.unwrap() as f64 / sample.work.unwrap().jobs as f64;
        let model = sample.model.unwrap().typ_ns as f64;
        assert!((each / model - 1.0).abs() < 0.02, "{each} {model} {test:?}");
    }
}

#[test]
fn with_a_placement_a_job_also_costs_its_submitter_something() {
    let data = DataSet::new(&text(1 << 19));
    let alone = Test {
        device: "emulated:bf2".into(),
        buffer_size: 65536,
        depth: 1,
        batch: 1,
        sample_s: 0.05,
        ..data.test("compress-deflate")
    };
    let placed = Test { placement: Some("device".parse().unwrap()), ..alone.clone() };
    let each = |sample: &Sample| {
        let jobs = sample.work.unwrap().jobs;
        sample.elapsed_ns.unwrap() as f64 / jobs as f64
    };
    let alone = measured(&mut Worker::new(), &alone);
    let placed = measured(&mut Worker::new(), &placed);
    assert_eq!(placed.timing, Some(Timing::Virtual));
    let submit = placed.stages["submit_ns"];
    assert!(submit > 0.0);
    let expected = each(&alone) + submit;
    let found = each(&placed);
    assert!((found / expected - 1.0).abs() < 0.02, "{found} {expected}");
}

#[test]
fn a_split_takes_as_long_as_the_longer_of_its_targets() {
    let data = DataSet::new(&text(1 << 19));
    let split = Test {
        device: "emulated:bf2".into(),
        buffer_size: 16384,
        // So many that starting them does not hold the device up.
        depth: 64,
        sample_s: 0.1,
        threads: 4,
        placement: Some("split:50".parse().unwrap()),
        ..data.test("compress-deflate")
    };
    let sample = measured(&mut Worker::new(), &split);
    let placed = sample.placement.as_ref().unwrap();
    let (cpu, device) = (placed.cpu.as_ref().unwrap(), &placed.devices[0]);
    assert!(cpu.jobs > 0 && device.jobs > 0 && device.late == 0);
    // Chunks ran here, one after the other, on four threads that have all of their time.
    let spent_s = sample.stages["cpu_engine_total_ns"] / 1e9;
    let seconds = sample.elapsed_ns.unwrap() as f64 / 1e9;
    assert!(seconds >= 0.95 * spent_s / 4.0, "{seconds} {spent_s}");
    // On a busy machine handing chunks over may take longer than they do.
    let submitter_s = sample.stages["submit_ns"] / 1e9 * sample.work.unwrap().jobs as f64;
    assert!(seconds <= 1.5 * submitter_s.max(spent_s / 4.0), "{seconds} {spent_s} {submitter_s}");
    // The time of the submitter and the chunks is this machine's; the card's time is on no ledger.
    let host_s = sample.cpu.unwrap().host_s;
    assert!(host_s >= 0.9 * spent_s, "{host_s} {spent_s}");
}

/// With a tenth of the bytes on a device that keeps up easily, the CPU has nine tenths of its work: a
/// clock that other programs advance for one point and not for the other makes these differ by half.
#[test]
fn the_cpu_alone_and_nine_tenths_of_it_agree_on_a_busy_machine() {
    let data = DataSet::new(&text(1 << 22));
    let mut worker = Worker::new();
    let mut throughput = |placement: &str| {
        let test = Test {
            device: "emulated:bf2".into(),
            buffer_size: 65536,
            sample_s: 0.05,
            placement: Some(placement.parse().unwrap()),
            ..data.test("compress-deflate")
        };
        measured(&mut worker, &test).metrics["throughput"]
    };
    let ratios = beside_threads(4, || {
        let mut ratio = |_| 0.9 * throughput("split:10") / throughput("cpu");
        let mut ratios: Vec<f64> = (0..7).map(&mut ratio).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    });
    assert!((ratios[3] - 1.0).abs() < 0.1, "{ratios:?}");
}

/// Eight cores of a BlueField-2 compress 8 x 121.6 MiB/s, its engine these data at a rate that the samples say.
#[test]
fn a_cards_cores_and_its_engine_share_a_stream() {
    let data = DataSet::new(&text(1 << 22));
    let rate = |placement: &str| {
        let test = Test {
            device: "emulated:bf2-cores+emulated:bf2".into(),
            buffer_size: 262_144,
            depth: 64,
            sample_s: 0.2,
            placement: Some(placement.parse().unwrap()),
            ..data.test("compress-deflate")
        };
        let sample = measured(&mut Worker::new(), &test);
        assert_eq!(sample.provenance, Some(Provenance::Emulated));
        let placed = sample.placement.unwrap();
        assert!(placed.cpu.is_none());
        let bytes: Vec<f64> = placed.devices.iter().map(|one| one.bytes as f64).collect();
        let engine_mib_per_s = sample.metrics["engine_throughput"] * 1e6 / f64::from(1 << 20);
        let all = bytes.iter().sum::<f64>();
        let (seconds, submitter_s) =
            (sample.elapsed_ns.unwrap() as f64 / 1e9, sample.cpu.unwrap().host_s);
        (all, bytes[0] / all, seconds, submitter_s, engine_mib_per_s)
    };
    let (.., engine) = rate("split:0+100");
    assert!((1.03 * 1024.0..2.95 * 1024.0).contains(&engine), "{engine}");
    for (placement, first, mib_per_s) in [
        ("split:100+0", 1.0, 973.0),
        ("split:0+100", 0.0, engine),
        ("split:10+90", 0.1, engine / 0.9),
        ("split:50+50", 0.5, 973.0 / 0.5),
    ] {
        let (bytes, share, seconds, submitter_s, _) = rate(placement);
        assert!((share - first).abs() < 0.02, "{placement}: {share}");
        // The ends of a stream take a little, and the submitter's own cost more on a busy machine.
        let engines_s = bytes / mib_per_s / f64::from(1 << 20);
        let most_s = engines_s / 0.85 + submitter_s;
        assert!(
            (0.99 * engines_s..most_s).contains(&seconds),
            "{placement}: {seconds} s, the engines {engines_s}, the submitter {submitter_s}"
        );
    }
}

/// The tests of the box's first entry, on one file.
fn split_box(data: &DataSet) -> Vec<Test> {
    let text = include_str!("../../../../../../boxes/study-split.json");
    let read = boxes::parse(text).expect("a box");
    let entry = &read.tasks[0];
    assert_eq!((&*entry.task, &*entry.description), ("compress", "cCOMP"));
    let axes = serde_json::to_value(&entry.parameters).unwrap();
    let one = |name: &str| {
        let values = axes[name].as_array().unwrap();
        assert_eq!(values.len(), 1, "{name}");
        values[0].clone()
    };
    let mut base = serde_json::to_value(data.test("compress-deflate")).unwrap();
    for name in ["device", "cpu_variant", "input", "buffer_size", "depth"] {
        base[name] = one(name);
    }
    base["data"]["sample_bytes"] = one("sample_bytes");
    base["warmup_s"] = read.measure.warmup_s.into();
    base["sample_s"] = read.measure.sample_s.into();
    let mut all = Vec::new();
    for setting in axes["setting"].as_array().unwrap() {
        for placement in axes["placement"].as_array().unwrap() {
            base["setting"] = setting.clone();
            base["placement"] = placement.clone();
            all.push(Test::parse(&base.to_string()).unwrap());
        }
    }
    all
}

/// The study's split of 2 MiB inputs between a host core and a BlueField-2, with this machine's core
/// in place of its host's: the model with that core's rate.
#[test]
fn the_split_box_gives_the_studys_points_inside_the_models_interval() {
    let data = DataSet::new(&text(2 << 20));
    let mut worker = Worker::new();
    let mut points = Vec::new();
    for test in split_box(&data) {
        let percent = match test.placement.unwrap() {
            Policy::Cpu => 0.0,
            Policy::Device => 100.0,
            split => split.to_string().trim_start_matches("split:").parse().unwrap(),
        };
        if ![0.0, 50.0, 90.0, 100.0].contains(&percent) {
            continue;
        }
        let sample = measured(&mut worker, &test);
        let placed = sample.placement.as_ref().unwrap();
        let bytes = sample.work.unwrap().bytes as f64;
        let cpu_bytes = placed.cpu.as_ref().map_or(0, |cpu| cpu.bytes) as f64;
        let stage = |name: &str| sample.stages.get(name).copied();
        let cpu_rate = stage("cpu_engine_total_ns").map_or(1e9, |ns| cpu_bytes / ns * 1e9);
        let bytes_each = bytes / placed.streams as f64;
        let split = |device_gib_per_s: f64, largest_job_bytes: f64| Split {
            bytes: bytes_each,
            cpu_rate,
            device_rate: device_gib_per_s * f64::from(1 << 30),
            context_ns: match test.setting {
                Setting::Static => 0.0,
                Setting::Reconfiguration => 13.5e6,
            },
            largest_job_bytes,
        };
        let share = 1.0 - cpu_bytes / bytes;
        // The profile's interval. The model's caller works on the device's last job itself, which is
        // not overlapped; here the submitter is no target, and hides as much of it as there is to do
        // meanwhile. What handing a job over costs it is beside the model, and measured.
        let submit_ns = stage("submit_ns").unwrap_or(0.0);
        let jobs = sample.work.unwrap().jobs as f64 / placed.streams as f64;
        let longest_ns = split(1.03, test.buffer_size as f64).time_ns(share) + jobs * submit_ns;
        let shortest_ns = split(2.95, 1.0).time_ns(share);
        let found_ns = bytes_each / sample.metrics["file_throughput"] * 1e3;
        let rounded_ns = 1e-6 * found_ns;
        let what = format!("{:?} {percent} %: {found_ns} ns", test.setting);
        assert!((share - percent / 100.0).abs() < 1e-3, "{what}, {share}");
        assert_eq!(sample.timing, Some(Timing::Virtual), "{what}");
        assert!(found_ns + rounded_ns >= shortest_ns, "{what}, {shortest_ns}");
        if percent > 0.0 {
            assert!(found_ns <= longest_ns + rounded_ns, "{what}, {longest_ns}");
        }
        points.push((test.setting, percent));
    }
    assert_eq!(points.len(), 8);
}

/// Files of these lengths, as one data set.
fn files(lengths: &[usize]) -> (tempfile::TempDir, Vec<std::path::PathBuf>) {
    let dir = tempfile::tempdir().unwrap();
    let all = (lengths.iter().enumerate()).map(|(number, &len)| {
        let path = dir.path().join(number.to_string());
        std::fs::write(&path, &text(1 << 20)[..len]).unwrap();
        path
    });
    let all = all.collect();
    (dir, all)
}

#[test]
fn whole_files_are_joined_one_after_the_other() {
    let (_dir, paths) = files(&[100_000, 0, 40_000, 7]);
    let data = DataSet::new(&text(1 << 16));
    let mut test = Test {
        device: "emulated:bf2".into(),
        placement: Some("device".parse().unwrap()),
        input: Input::Files,
        buffer_size: 30_000,
        setting: Setting::Reconfiguration,
        sample_s: 0.5,
        ..data.test("decompress-deflate")
    };
    test.data.files = paths;
    test.data.sample_bytes = 80_000;
    let sample = measured(&mut Worker::new(), &test);
    let placed = sample.placement.as_ref().unwrap();
    // Three files with a byte in them, of 3, 2 and 1 buffers.
    let bytes = [80_000, 40_000, 7];
    assert_eq!(sample.work.unwrap().bytes, placed.streams * bytes.iter().sum::<u64>());
    assert_eq!(sample.work.unwrap().jobs, placed.streams * 6);
    assert_eq!(placed.devices[0].setups, placed.streams * 3);
    // Each takes the 13.5 ms of its context, and little more than the 0.6 ms of starting its first job.
    let seconds = sample.elapsed_ns.unwrap() as f64 / 1e9 / placed.streams as f64;
    assert!((0.0405..0.0445).contains(&seconds), "{seconds}");
    let mean = bytes.iter().map(|&bytes| bytes as f64 / 0.0141 / 1e6).sum::<f64>() / 3.0;
    let found = sample.metrics["file_throughput"];
    assert!((found / mean - 1.0).abs() < 0.05, "{found} {mean}");

    test.placement = None;
    assert!(test.check().is_err());
}

#[test]
fn mixed_lengths_are_as_many_in_each_octave() {
    let data = DataSet::new(&text(1 << 20));
    let mut test = Test {
        device: "emulated:bf2".into(),
        sizes: Sizes::Mixed,
        buffer_size: 4096,
        sample_s: 0.02,
        ..data.test("compress-deflate")
    };
    test.data.sample_bytes = 1 << 20;
    let sample = measured(&mut Worker::new(), &test);
    let mean = sample.work.unwrap().bytes as f64 / sample.work.unwrap().jobs as f64;
    // The mean of a log-uniform length between 256 and 4096.
    let expected = (4096.0 - 256.0) / 16_f64.ln();
    assert!((mean / expected - 1.0).abs() < 0.15, "{mean} {expected}");
}

#[test]
fn adaptive_sizes_are_verified_at_every_length() {
    let data = DataSet::new(&text(1 << 20));
    let mut test = Test {
        device: "emulated:bf2".into(),
        placement: Some(Policy::Adaptive),
        sizes: Sizes::Adaptive,
        buffer_size: 4096,
        depth: 1,
        batch: 1,
        warmup_s: 3.0,
        sample_s: 0.3,
        ..data.test("compress-deflate")
    };
    test.data.sample_bytes = 1 << 20;
    let sample = measured(&mut Worker::new(), &test);
    let placed = sample.placement.as_ref().unwrap();
    let bytes = placed.chunk_bytes.unwrap();
    assert!(bytes.is_power_of_two() && (4096..=1 << 18).contains(&bytes), "{bytes}");
    // 256 of 4 KiB, half as many of 8 KiB, and so on to 4 of 256 KiB.
    let check = sample.check.as_ref().unwrap();
    assert_eq!(check.buffers, 508);

    let fixed = Test { sizes: Sizes::Fixed, ..test.clone() };
    let fixed = measured(&mut Worker::new(), &fixed);
    assert_eq!(fixed.placement.as_ref().unwrap().chunk_bytes, None);
    for other in [
        Test { placement: Some(Policy::Device), ..test.clone() },
        Test { setting: Setting::Reconfiguration, ..test.clone() },
        Test { operation: "decompress-deflate".parse().unwrap(), ..test.clone() },
    ] {
        assert!(other.check().is_err());
    }
}

#[test]
fn virtual_time_needs_little_real_time() {
    let data = DataSet::new(&text(1 << 19));
    let test = Test {
        device: "emulated:bf2".into(),
        setting: Setting::Reconfiguration,
        buffer_size: 65536,
        sample_s: 60.0,
        ..data.test("compress-deflate")
    };
    let sample = measured(&mut Worker::new(), &test);
    // 13.5 ms a job.
    assert!(sample.elapsed_ns.unwrap() >= 60_000_000_000);
    assert!(sample.work.unwrap().jobs > 4000);
    assert!(Duration::from_secs_f64(sample.cpu.unwrap().emulator_s) < Duration::from_secs(30));
}
