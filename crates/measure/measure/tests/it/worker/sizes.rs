//! Buffers of lengths that vary, and inputs that are cut to the limits of devices.

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use crate::worker::inputs::{DataSet, measured, text};
use overside_measure::{Input, Sample, Setting, Sizes, Test, Worker};
use overside_placement::Policy;
use overside_tables::pack::{CodecPool, Layout, PackOptions, Packer};
use overside_tables::{CsvOptions, Table};
use tempfile::TempDir;

/// Seconds that it takes to tear down a context of the emulated BlueField-2.
const SET_UP_S: f64 = 0.0135;

/// Files of these lengths, as one data set.
struct Files {
    dir: TempDir,
    data: DataSet,
}

impl Files {
    fn new(lengths: &[usize]) -> Self {
        let files = Self { dir: tempfile::tempdir().unwrap(), data: DataSet::new(b"") };
        let bytes = text(lengths.iter().copied().max().unwrap_or(0));
        for (number, &len) in lengths.iter().enumerate() {
            std::fs::write(files.dir.path().join(number.to_string()), &bytes[..len]).unwrap();
        }
        files
    }

    fn paths(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.dir.path()).unwrap();
        let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        paths.sort();
        paths
    }

    /// A test of the data's own lengths, up to 30,000 bytes, on an emulated card.
    fn test(&self) -> Test {
        let mut test = Test {
            device: "emulated:bf2".into(),
            sizes: Sizes::Own,
            buffer_size: 30_000,
            depth: 1,
            batch: 1,
            sample_s: 0.2,
            ..self.data.test("compress-deflate")
        };
        test.data.files = self.paths();
        test.data.sample_bytes = 1 << 20;
        test
    }
}

fn of(test: &Test) -> Sample {
    measured(&mut Worker::new(), test)
}

fn buffers(sample: &Sample) -> u64 {
    sample.check.as_ref().unwrap().buffers
}

fn seconds_a_job(sample: &Sample) -> f64 {
    sample.elapsed_ns.unwrap() as f64 / 1e9 / sample.work.unwrap().jobs as f64
}

#[test]
fn files_are_pieces_and_longer_ones_are_cut() {
    let files = Files::new(&[70_000, 0, 30_000, 7]);
    let test = files.test();
    let sample = of(&test);
    // 30,000, 30,000 and 10,000; 30,000; 7.
    assert_eq!(buffers(&sample), 5);
    let inputs = Test { input: Input::Files, placement: Some(Policy::Device), ..test.clone() };
    let sample = of(&inputs);
    let streams = sample.placement.as_ref().unwrap().streams;
    assert_eq!(sample.work.unwrap().jobs, 5 * streams);
    assert_eq!(sample.work.unwrap().bytes, 100_007 * streams);

    // Every second, up to 60,000 bytes together.
    let mut fewer = test;
    fewer.data.sample_bytes = 60_000;
    assert_eq!(buffers(&of(&fewer)), 3);
}

#[test]
fn batches_of_a_table_are_pieces() {
    let files = Files::new(&[]);
    let rows: String = (0..10_000).map(|row| format!("{row},{}\n", row % 7)).collect();
    let rows = format!("number,rest\n{rows}");
    let table = Table::csv(rows.as_bytes(), CsvOptions::default()).unwrap();
    let path = files.dir.path().join("data");
    let pool = Arc::new(CodecPool::new(NonZeroUsize::MIN).unwrap());
    let options = PackOptions { layout: Layout::File, ..PackOptions::default() };
    let schema = table.schema().clone();
    let mut packer = Packer::new(File::create(&path).unwrap(), schema, options, &pool).unwrap();
    let first = table.into_iter().next().unwrap().unwrap();
    for rows in [100, 1000, 1000, 1000] {
        packer.write(&first.slice(0, rows)).unwrap();
    }
    packer.finish().unwrap();
    let test = files.test();
    let sample = of(&test);
    assert_eq!(buffers(&sample), 4);
    // Two columns of 64 bits.
    let bytes = sample.work.unwrap().bytes as f64 / sample.work.unwrap().jobs as f64;
    assert!((10_000.0..15_000.0).contains(&bytes), "{bytes}");

    let damaged = std::fs::read(&path).unwrap();
    std::fs::write(&path, &damaged[..damaged.len() - 1]).unwrap();
    let sample = Worker::new().measure(&test);
    let error = sample.error.unwrap();
    assert!(error.message.contains("cannot be read"), "{error}");
}

#[test]
fn contexts_are_set_up_again_when_the_length_changes() {
    let same = Files::new(&[20_000, 20_000, 20_000]);
    let differ = Files::new(&[20_000, 10_000]);
    for (files, every) in [(&same, 0.0), (&differ, 1.0)] {
        let still = files.test();
        let again = Test { setting: Setting::Reconfiguration, ..still.clone() };
        let (still, again) = (of(&still), of(&again));
        let expected = seconds_a_job(&still) + every * SET_UP_S;
        let found = seconds_a_job(&again);
        assert!((found / expected - 1.0).abs() < 0.02, "{found} {expected}");
        // A prediction is of a job that has its set-up before it.
        assert_eq!(again.model.is_some(), every > 0.0);
    }
    // Buffers of one length stand for any that a caller may bring.
    let fixed = Test {
        setting: Setting::Reconfiguration,
        sizes: Sizes::Fixed,
        buffer_size: 20_000,
        ..same.test()
    };
    assert!(seconds_a_job(&of(&fixed)) > SET_UP_S);
}

#[test]
fn a_placement_is_set_up_again_when_the_length_changes() {
    // In its order: 30,000 twice and 10,000; 10,000; 30,000.
    let files = Files::new(&[70_000, 10_000, 30_000]);
    let test = Test {
        setting: Setting::Reconfiguration,
        input: Input::Files,
        placement: Some(Policy::Device),
        ..files.test()
    };
    let sample = of(&test);
    let placed = sample.placement.as_ref().unwrap();
    // The first stream begins with one more than the others, which begin as the last one ended.
    assert_eq!(placed.devices[0].setups, 2 * placed.streams + 1);
    let spread =
        of(&Test { input: Input::Buffers, placement: Policy::split(50.0).ok(), ..test.clone() });
    let placed = spread.placement.as_ref().unwrap();
    assert_eq!(spread.work.unwrap().jobs, 5 * placed.streams);
    assert!(placed.devices[0].setups >= 2 * placed.streams, "{placed:?}");
    let fixed = of(&Test { sizes: Sizes::Fixed, ..test });
    let placed = fixed.placement.as_ref().unwrap();
    assert_eq!(placed.devices[0].setups, 3 * placed.streams);
}

#[test]
fn whole_files_may_be_cut_into_mixed_lengths() {
    let files = Files::new(&[100_000, 50_000]);
    let sample = of(&Test {
        sizes: Sizes::Mixed,
        input: Input::Files,
        placement: Some(Policy::Device),
        ..files.test()
    });
    let streams = sample.placement.as_ref().unwrap().streams;
    assert_eq!(sample.work.unwrap().bytes, 150_000 * streams);
    assert!(sample.work.unwrap().jobs > 8 * streams);
    assert!(sample.metrics["file_throughput"] > 0.0);
}

#[test]
fn inputs_are_cut_to_what_the_devices_take_and_the_sample_says_so() {
    let files = Files::new(&[5 << 20]);
    let mut test = Test {
        device: "emulated:bf3".into(),
        operation: "decompress-lz4-block".parse().unwrap(),
        input: Input::Files,
        sizes: Sizes::Fixed,
        placement: Policy::split(50.0).ok(),
        buffer_size: 8 << 20,
        ..files.test()
    };
    test.data.sample_bytes = 8 << 20;
    let sample = of(&test);
    let streams = sample.placement.as_ref().unwrap().streams;
    // The card takes 2 MiB.
    assert_eq!(sample.work.unwrap().jobs, 3 * streams);
    let said = sample.warnings.iter().find(|one| one.kind == "cut").unwrap();
    assert!(
        said.message.contains("2097152") && said.message.contains("8388608"),
        "{}",
        said.message
    );

    // The CPU alone takes it as it is.
    let sample = of(&Test { placement: Some(Policy::Cpu), ..test.clone() });
    assert_eq!(sample.work.unwrap().jobs, sample.placement.as_ref().unwrap().streams);
    assert!(sample.warnings.iter().all(|one| one.kind != "cut"));

    // Buffers of a requested size are not cut.
    test.input = Input::Buffers;
    test.buffer_size = 4 << 20;
    let skipped = Worker::new().measure(&test);
    assert!(skipped.reason.unwrap().contains("2097152"));
}
