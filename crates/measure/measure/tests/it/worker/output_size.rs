//! Output buffers that grow where a result does not fit.

use std::sync::{Arc, Mutex};

use crate::worker::inputs::{DataSet, measured, text};
use overside_device::{
    Completion, Context, ContextConfig, Device, JobError, Lost, MemoryError, OpenError, Region,
};
use overside_layers::{ContextLayer, DeviceLayer, Layered, LayeredContext};
use overside_measure::{CompletionMode, Input, Setting, Status, Test, Worker};

fn decompression(data: &DataSet, output_size: u64) -> Test {
    Test { buffer_size: 4096, output_size: Some(output_size), ..data.test("decompress-deflate") }
}

#[test]
fn each_job_is_run_again_until_its_result_fits() {
    let data = DataSet::new(&text(1 << 16));
    for setting in [Setting::Static, Setting::Reconfiguration] {
        for completion in [CompletionMode::Event, CompletionMode::Poll] {
            for (output_size, grown) in
                [(1, 12.0), (500, 4.0), (2048, 1.0), (4096, 0.0), (1 << 30, 0.0)]
            {
                let test = Test { setting, completion, ..decompression(&data, output_size) };
                let sample = measured(&mut Worker::new(), &test);
                assert_eq!(sample.metrics["grown"], grown, "{test:?}");
                let work = sample.work.unwrap();
                assert_eq!(work.bytes, 4096 * work.jobs);
            }
        }
    }
    let whole = Test { output_size: None, ..decompression(&data, 1) };
    assert!(!measured(&mut Worker::new(), &whole).metrics.contains_key("grown"));
}

#[test]
fn what_compresses_badly_grows_and_what_compresses_well_does_not() {
    let grown = |bytes: &[u8]| {
        let data = DataSet::new(bytes);
        let test = Test { output_size: Some(256), ..data.test("compress-deflate") };
        measured(&mut Worker::new(), &test).metrics["grown"]
    };
    assert_eq!(grown(&[b'a'; 1 << 16]), 0.0);
    assert!((2.0..=4.0).contains(&grown(&text(1 << 16))));
}

#[test]
fn an_emulated_card_takes_its_time_for_every_try() {
    let data = DataSet::new(&text(1 << 19));
    let take = |setting, output_size| {
        let test = Test {
            device: "emulated:bf2".into(),
            buffer_size: 65536,
            depth: 1,
            batch: 1,
            setting,
            output_size,
            sample_s: 0.1,
            ..data.test("decompress-deflate")
        };
        measured(&mut Worker::new(), &test)
    };
    let each_ns = |setting, output_size| {
        let sample = take(setting, output_size);
        sample.elapsed_ns.unwrap() as f64 / sample.work.unwrap().jobs as f64
    };
    // Each try has a context of its own, which takes 13.5 ms.
    let [once, thrice] = [None, Some(16384)].map(|size| each_ns(Setting::Reconfiguration, size));
    assert!((once / 13.5e6 - 1.0).abs() < 0.1, "{once}");
    assert!((thrice / once - 3.0).abs() < 0.05, "{thrice} {once}");
    // Each try has a start of its own, and filling a quarter and a half takes about as long again.
    let [once, thrice] = [None, Some(16384)].map(|size| each_ns(Setting::Static, size));
    assert!((2.0..3.1).contains(&(thrice / once)), "{thrice} {once}");
    let sample = take(Setting::Static, Some(16384));
    let engine = |sample: &overside_measure::Sample| sample.stages["engine_ns"];
    let whole = take(Setting::Static, None);
    assert!(engine(&sample) > 1.5 * engine(&whole));
    // The model is of one try.
    assert!(sample.model.is_none() && whole.model.is_some());
}

#[test]
fn the_buffers_of_every_placement_grow_and_those_of_files_do() {
    let data = DataSet::new(&text(1 << 19));
    let mut worker = Worker::new();
    for placement in ["cpu", "device", "split:50", "adaptive"] {
        for setting in [Setting::Static, Setting::Reconfiguration] {
            for input in [Input::Buffers, Input::Files] {
                let mut each_ns = [0.0; 2];
                for (each_ns, output_size) in each_ns.iter_mut().zip([None, Some(16384)]) {
                    let test = Test {
                        device: "emulated:bf2".into(),
                        placement: Some(placement.parse().unwrap()),
                        buffer_size: 65536,
                        setting,
                        input,
                        output_size,
                        sample_s: 0.03,
                        ..data.test("decompress-deflate")
                    };
                    let sample = measured(&mut worker, &test);
                    let grown = sample.metrics.get("grown").copied();
                    assert_eq!(grown, output_size.map(|_| 2.0), "{placement} {setting:?}");
                    assert_eq!(sample.model.is_some(), placement != "cpu" && grown.is_none());
                    let jobs = sample.work.unwrap().jobs as f64;
                    *each_ns = sample.elapsed_ns.unwrap() as f64 / jobs;
                }
                // Trying three times takes longer, by whichever clock.
                if (placement, setting) == ("device", Setting::Static) {
                    assert!(each_ns[1] > 1.2 * each_ns[0], "{each_ns:?}");
                }
            }
        }
    }
}

/// A device for which no destination is long enough, and that remembers how long they were.
struct Expanding {
    inner: Arc<dyn Device>,
    destinations: Arc<Mutex<Vec<usize>>>,
}

impl DeviceLayer for Expanding {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError> {
        self.destinations.lock().unwrap().push(len);
        self.inner.alloc(len, align)
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        let inner = self.inner.open(config)?;
        Ok(LayeredContext::around(inner, ExpandingContext))
    }
}

struct ExpandingContext;

impl ContextLayer for ExpandingContext {
    fn poll(
        &mut self,
        inner: &mut dyn Context,
        out: &mut Vec<Completion>,
        max: usize,
    ) -> Result<usize, Lost> {
        let from = out.len();
        let count = inner.poll(out, max)?;
        for completion in &mut out[from..] {
            let capacity = completion.destination.as_ref().map_or(0, |region| region.len());
            completion.result = Err(JobError::OutputTooSmall { capacity });
        }
        Ok(count)
    }
}

#[test]
fn a_result_that_never_fits_has_no_more_memory_than_the_right_one() {
    let data = DataSet::new(&text(1 << 16));
    for (operation, placement) in [
        ("compress-deflate", None),
        ("decompress-deflate", None),
        ("decompress-deflate", Some("device")),
    ] {
        let destinations = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&destinations);
        let mut worker = Worker::with_devices(Box::new(move |name, options| {
            Ok(Arc::new(Layered(Expanding {
                inner: overside_backends::open(name, options)?,
                destinations: Arc::clone(&all),
            })))
        }));
        let test = Test {
            depth: 1,
            batch: 1,
            output_size: Some(1000),
            placement: placement.map(|placement: &str| placement.parse().unwrap()),
            ..data.test(operation)
        };
        let sample = worker.measure(&test);
        assert_eq!(sample.status, Status::Failed);
        let message = sample.error.unwrap().message;
        assert!(message.contains("the output does not fit into"), "{message}");
        let lengths = destinations.lock().unwrap();
        let grown: Vec<usize> = (lengths.iter().copied()).filter(|len| *len >= 1000).collect();
        // What nothing that is right is longer than.
        let most = if operation.starts_with("compress") { 5184 } else { 4096 };
        assert_eq!(grown, [1000, 2000, 4000, most]);
    }
}
