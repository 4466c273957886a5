//! Tests of the operations that an emulated card supports, and of their results.

use crate::common;

use common::{MODES, card, config, job, operation, run, text};
use overside_backend_emulated::{EmulatedDevice, Mode};
use overside_base::Random;
use overside_device::{Device, MemoryKind, OpenError, Outcome, Provenance, Refusal, SubmitError};
use overside_model::profile;

fn names(device: &EmulatedDevice) -> Vec<String> {
    device.capabilities().iter().map(|capability| capability.operation.to_string()).collect()
}

#[test]
fn cards_do_what_their_profiles_say_and_nothing_else() {
    for mode in MODES {
        let bf2 = EmulatedDevice::new(profile("bf2").unwrap(), mode);
        assert_eq!(
            names(&bf2),
            [
                "compress-deflate",
                "decompress-deflate",
                "match-search",
                "match-count",
                "match-bitmap",
                "match-groups"
            ]
        );
        let bf3 = EmulatedDevice::new(profile("bf3").unwrap(), mode);
        assert_eq!(names(&bf3), ["decompress-deflate", "decompress-lz4-block"]);
        assert_eq!(bf3.info().name, "emulated:bf3");
        assert_eq!(
            (bf3.info().provenance, bf3.info().timing),
            (Provenance::Emulated, mode.timing())
        );
        for device in [&bf2, &bf3] {
            for capability in device.capabilities().iter() {
                assert_eq!(capability.memory, MemoryKind::Registered);
                assert!(!capability.variants.is_empty());
                let said = capability.missing.iter().any(|term| term.contains("cost of one job"));
                assert_eq!(said, mode != Mode::Functional, "{:?}", capability.missing);
            }
        }
    }
}

#[test]
fn compression_on_bluefield_3_is_an_error() {
    let bf3 = EmulatedDevice::new(profile("bf3").unwrap(), Mode::Functional);
    let error = bf3.open(config("compress-deflate", 1, 4096)).err().unwrap();
    let expected = OpenError::Unsupported {
        device: "emulated:bf3".into(),
        operation: operation("compress-deflate"),
    };
    assert_eq!(error, expected);
}

#[test]
fn buffers_beyond_the_cards_limit_are_refused() {
    for (card, longest) in [("bf2", 128 << 20), ("bf3", 2 << 20)] {
        let device = EmulatedDevice::new(profile(card).unwrap(), Mode::Functional);
        let error = device.open(config("decompress-deflate", 1, longest + 1)).err().unwrap();
        assert!(matches!(error, OpenError::Limit { limit, .. } if limit == longest as u64));
        let mut context = device.open(config("decompress-deflate", 1, longest)).unwrap();
        let too_long = job(&device, 7, vec![0; longest + 1], 10);
        let refused = context.submit(&mut [too_long].into()).unwrap_err();
        let SubmitError::Refused { tag: 7, refusal: Refusal::SourceTooLong { max, .. } } = refused
        else {
            panic!("{refused:?}")
        };
        assert_eq!(max, longest as u64);
    }
}

#[test]
fn every_mode_gives_the_same_bytes() {
    let inputs: Vec<Vec<u8>> = (0..6).map(|seed| text(seed, 3000 * (seed as usize + 1))).collect();
    let outputs: Vec<Vec<Vec<u8>>> = MODES
        .into_iter()
        .chain([Mode::Replay])
        .map(|mode| {
            let device = EmulatedDevice::new(card(1e4, 1.0), mode);
            let mut context = device.open(config("compress-deflate", 3, 1 << 20)).unwrap();
            // Twice, so that the second time is replayed where there is a replay.
            let both = [(); 2].map(|()| {
                let jobs = inputs.iter().zip(0..);
                let jobs = jobs.map(|(input, tag)| job(&device, tag, input.clone(), 1 << 15));
                let (_, mut seen) = run(&mut *context, jobs.collect());
                seen.sort_by_key(|one| one.completion.tag);
                let bytes = seen.into_iter().map(|one| {
                    let Ok(Outcome::Done(output)) = one.completion.result else { panic!() };
                    one.completion.destination.unwrap()[..output.written].to_vec()
                });
                bytes.collect::<Vec<_>>()
            });
            assert_eq!(both[0], both[1]);
            both[0].clone()
        })
        .collect();
    assert!(outputs.windows(2).all(|pair| pair[0] == pair[1]));
    for (input, output) in inputs.iter().zip(&outputs[0]) {
        let inflate = overside_ops::Config::new(operation("decompress-deflate"));
        let mut kernel = overside_ops::prepare(&inflate).unwrap().kernel().unwrap();
        let mut back = vec![0; input.len()];
        assert_eq!(kernel.run(&[output], &mut back).unwrap().written, input.len());
        assert_eq!(&back, input);
    }
}

#[test]
fn contexts_that_are_set_up_differently_do_not_share_results() {
    let device = EmulatedDevice::new(card(1e4, 1.0), Mode::Replay);
    let input = b"on I-95 at Exit 3\nRamp to I-95\nnothing\n".repeat(20);
    let counts = ["Ramp to (.+)", "n", "absent"].map(|pattern| {
        let mut config = config("match-count", 1, 4096);
        config.operation.patterns = vec![pattern.into()];
        let mut context = device.open(config).unwrap();
        [(); 2].map(|()| {
            let (_, seen) = run(&mut *context, vec![job(&device, 1, input.clone(), 64)]);
            let Ok(Outcome::Done(output)) = seen[0].completion.result else { panic!() };
            output.value.unwrap()
        })
    });
    assert_eq!(counts, [[20, 20], [40, 40], [0, 0]]);
}

#[test]
fn noise_is_incompressible_each_time() {
    let noise = Random::new(1).bytes(10_000);
    for mode in MODES {
        let device = EmulatedDevice::new(profile("bf2").unwrap(), mode);
        let mut context = device.open(config("compress-deflate", 2, 20_000)).unwrap();
        for _ in 0..2 {
            let jobs = vec![
                job(&device, 1, noise.clone(), 10_000),
                job(&device, 2, noise.clone(), 20_000),
            ];
            for one in run(&mut *context, jobs).1 {
                assert_eq!(one.completion.result, Ok(Outcome::Incompressible));
            }
        }
    }
}

#[test]
fn memory_outlives_its_device() {
    let device = EmulatedDevice::new(card(1e4, 1.0), Mode::Replay);
    let region = device.alloc(100, 4096).unwrap();
    assert_eq!(region.as_ptr() as usize % 4096, 0);
    drop(device);
    assert!(region.iter().all(|byte| *byte == 0));
}
