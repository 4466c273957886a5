//! Streams on two targets: the same bytes, and a report of each target's work.

use crate::common;

use std::sync::Arc;

use common::{compressed, decompressed, noise, options, text};
use overside_backends::Options as DeviceOptions;
use overside_compress::{
    Container, Error, MAX_ADAPTIVE_CHUNK_BYTES, Options, Policy, Summary, compress, decompress,
};
use overside_device::{Device, Timing};
use overside_placement::EventKind;

fn card(name: &str) -> Arc<dyn Device> {
    let options = DeviceOptions { timing: Some(Timing::Functional), ..DeviceOptions::default() };
    overside_backends::open(name, &options).unwrap()
}

fn on(policy: Policy, device: &str, options: Options) -> Options {
    Options { policy, devices: vec![card(device)], ..options }
}

/// Chunks of the two targets.
fn chunks(summary: &Summary) -> (u64, u64) {
    let report = summary.report.as_ref().unwrap();
    let chunks = |target: Option<&overside_placement::TargetReport>| {
        target.as_ref().map_or(0, |target| target.chunks)
    };
    (chunks(report.cpu.as_ref()), chunks(report.devices.first()))
}

#[test]
fn both_targets_make_one_gzip_file() {
    let content = [text(400_000), noise(100_000), text(300_000)].concat();
    for policy in [Policy::Device, Policy::split(40.0).unwrap(), Policy::Adaptive] {
        let options = on(policy, "emulated:bf2", options(Container::Gzip));
        let (bytes, made) = compressed(&content, &options);
        let (back, read) = decompressed(&bytes).unwrap();
        assert!(back == content, "{policy}");
        assert_eq!(made.members, read.members);
        assert!(made.stored >= 5, "{policy}: noise is stored, whoever finds it out");
        let (cpu, device) = chunks(&made);
        assert_eq!(cpu + device, made.members, "{policy}");
        match policy {
            Policy::Device => assert_eq!(cpu, 0),
            Policy::Split(_) => assert!(cpu > device && device > 0, "{cpu} {device}"),
            _ => {}
        }
    }
}

#[test]
fn chunks_that_change_their_length_are_one_file() {
    let content = [text(24_000_000), noise(100_000), text(300_001)].concat();
    for (container, device) in [
        (Container::Gzip, "emulated:bf2"),
        (Container::Zlib, "emulated:bf2"),
        (Container::Lz4, "emulated:bf3"),
    ] {
        let adaptive = Options {
            chunk_bytes: 16 << 10,
            adaptive_chunks: true,
            ..on(Policy::Adaptive, device, options(container))
        };
        let (bytes, made) = compressed(&content, &adaptive);
        let (back, _) = decompressed(&bytes).unwrap();
        assert!(back == content, "{container}");
        let report = made.report.as_ref().unwrap();
        let lengths = (report.decisions.iter()).filter_map(|decided| decided.chunk_bytes);
        for bytes in lengths {
            assert!(bytes.is_power_of_two() && bytes <= MAX_ADAPTIVE_CHUNK_BYTES);
        }
        // They stay as they are where the placement does not decide.
        let fixed = Options { policy: Policy::Cpu, ..adaptive };
        let (_, made) = compressed(&content, &fixed);
        let (cpu, _) = chunks(&made);
        assert_eq!(cpu, content.len().div_ceil(16 << 10) as u64);
    }
}

#[test]
fn both_targets_read_what_can_be_read_side_by_side() {
    let content = [text(400_000), noise(100_000), text(300_000)].concat();
    for (container, device) in [
        (Container::Gzip, "emulated:bf2"),
        (Container::Gzip, "emulated:bf3"),
        (Container::Lz4, "emulated:bf3"),
    ] {
        let (bytes, made) = compressed(&content, &options(container));
        for policy in [Policy::Device, Policy::split(50.0).unwrap(), Policy::Adaptive] {
            let options = on(policy, device, options(container));
            let mut back = Vec::new();
            let read = decompress(&bytes[..], &mut back, &options).unwrap();
            assert!(back == content, "{container} {policy}");
            let (cpu, device) = chunks(&read);
            let stored_as_blocks = if container == Container::Lz4 { read.stored } else { 0 };
            let parts = content.len().div_ceil(16 << 10) as u64;
            assert_eq!(cpu + device + stored_as_blocks, parts, "{container} {policy}");
            assert!(policy != Policy::Device || cpu == 0);
            assert_eq!(read.members, made.members);
        }
    }
}

#[test]
fn a_device_that_cannot_do_it_is_an_error_unless_it_is_a_matter_of_choice() {
    let content = text(100_000);
    for container in [Container::Lz4, Container::Zstd] {
        let asked = on(Policy::Device, "emulated:bf2", options(container));
        let error = compress(&content[..], Vec::new(), &asked).unwrap_err();
        assert!(matches!(error, Error::Executor(_)), "{error}");
        let named = format!("emulated:bf2 cannot {}", container.compress());
        assert!(error.to_string().contains(&named), "{error}");
    }
    // Zlib's parts could be made of what the card makes, but not for less than by the CPU.
    for container in [Container::Zlib, Container::Lz4, Container::Zstd] {
        let adaptive = on(Policy::Adaptive, "emulated:bf2", options(container));
        let (bytes, made) = compressed(&content, &adaptive);
        assert!(decompressed(&bytes).unwrap().0 == content);
        assert_eq!(chunks(&made).1, 0);
        let events = made.report.unwrap().events;
        assert!(events.iter().any(|event| event.kind == EventKind::Unsupported), "{events:?}");
    }
}

#[test]
fn streams_that_devices_end_are_joined_to_one_of_zlib() {
    let content = [text(400_000), noise(100_000), text(300_001)].concat();
    for policy in ["device", "split:40", "split:100"] {
        let options = on(policy.parse().unwrap(), "emulated:bf2", options(Container::Zlib));
        let (bytes, made) = compressed(&content, &options);
        assert!(decompressed(&bytes).unwrap().0 == content, "{policy}");
        // A single stream without anything behind it, as other readers of zlib expect.
        let mut kernel = overside_ops::prepare(&overside_ops::Config::new(
            overside_ops::Operation::Decompress(overside_ops::Format::Zlib),
        ))
        .and_then(|prepared| prepared.kernel())
        .unwrap();
        let mut back = vec![0; content.len()];
        let done = kernel.run(&[&bytes], &mut back).unwrap();
        assert!(back == content && done.written == content.len(), "{policy}");
        let (cpu, device) = chunks(&made);
        assert!(device > 0, "{policy}");
        let joined = made.joining.unwrap().chunks;
        assert_eq!(joined + made.stored, cpu + device, "{policy}");
        assert!(made.stored > 0 && joined > 0, "{policy}");
    }
    let (_, made) = compressed(&content, &options(Container::Zlib));
    assert_eq!(made.joining, None);
}

#[test]
fn members_that_are_too_long_for_the_device_are_read_by_the_cpu() {
    let content = text(9 << 20);
    let long = Options { chunk_bytes: 4 << 20, ..options(Container::Gzip) };
    let (bytes, made) = compressed(&content, &long);
    assert_eq!(made.members, 3);
    // The card takes 2 MiB.
    let options = on(Policy::Device, "emulated:bf3", options(Container::Gzip));
    let mut back = Vec::new();
    let read = decompress(&bytes[..], &mut back, &options).unwrap();
    assert!(back == content);
    assert_eq!(chunks(&read), (2, 1));
    let events = read.report.unwrap().events;
    assert!(events.iter().any(|event| event.kind == EventKind::TooLong), "{events:?}");
}

#[test]
fn a_chunk_is_no_longer_than_the_format_takes() {
    for (container, expected) in [(Container::Lz4, 4 << 20), (Container::Gzip, 8 << 20)] {
        let options = Options { chunk_bytes: 8 << 20, ..options(container) };
        let compressor = overside_compress::Compressor::new(Vec::new(), &options).unwrap();
        assert_eq!(compressor.chunk_bytes(), expected, "{container}");
    }
    for chunk_bytes in [0, 1023, (64 << 20) + 1, usize::MAX] {
        let options = Options { chunk_bytes, ..Options::default() };
        let error = compress(&b""[..], Vec::new(), &options).unwrap_err();
        assert!(matches!(error, Error::Option(_)), "{error}");
    }
}

#[test]
fn lz4_says_how_long_the_content_is_where_that_is_known() {
    let content = text(100_000);
    let announced = |content_bytes| Options { content_bytes, ..options(Container::Lz4) };
    let (bytes, _) = compressed(&content, &announced(Some(100_000)));
    let (header, _) = overside_ops::lz4_frame::Header::parse(&bytes).unwrap().unwrap();
    assert_eq!(header.content_size, Some(100_000));
    let (bytes, _) = compressed(&content, &announced(None));
    let (header, _) = overside_ops::lz4_frame::Header::parse(&bytes).unwrap().unwrap();
    assert_eq!(header.content_size, None);
    for wrong in [99_999, 100_001] {
        let error = compress(&content[..], Vec::new(), &announced(Some(wrong))).unwrap_err();
        assert!(matches!(error, Error::ContentBytes { .. }), "{error}");
    }
}

#[test]
fn the_original_is_named_in_the_first_member() {
    let named = Options {
        name: Some(b"notes.txt".to_vec()),
        mtime: 1_700_000_000,
        ..options(Container::Gzip)
    };
    for len in [0, 10, 100_000] {
        let (bytes, _) = compressed(&text(len), &named);
        let (_, summary) = decompressed(&bytes).unwrap();
        let original = summary.original.unwrap();
        assert_eq!(original.name.as_deref(), Some(&b"notes.txt"[..]));
        assert_eq!(original.mtime, 1_700_000_000);
    }
    let wrong = Options { name: Some(b"a\0b".to_vec()), ..options(Container::Gzip) };
    let error = compress(&b""[..], Vec::new(), &wrong).unwrap_err();
    assert!(matches!(error, Error::Option(_)), "{error}");
}
