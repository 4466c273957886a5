//! Headers of gzip members, LZ4 frames and Zstandard frames.
#![no_main]
#[allow(dead_code)]
#[path = "../../crates/files/compress/tests/it/common/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    checks::gzip_header(data);
    checks::frame_header(data);
});
