//! The Silesia corpus: twelve files on which most published codec figures were taken.
//!
//! Means over files of bytes over time depend on each file, so the files' sizes are part of the
//! model. They belong to the files and to the codecs, not to any machine: the lengths are public,
//! and the rest can be computed from the files.

/// One file of the corpus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct File {
    /// Name of the file, such as `dickens`.
    pub name: &'static str,
    /// Length of the file in bytes.
    pub bytes: f64,
    /// About its length in DEFLATE at level 3, the level closest to the engine's: the geometric
    /// mean of a fast and a middling encoder's output (the table in `sinfl.h`, 2020, columns `sdefl
    /// 0` and `sdefl 5`). Measured here, that is within 4 % of zlib's level 3 on `dickens`, `mr`
    /// and `ooffice`, and within 12 % on the very compressible `nci` and `xml`.
    pub deflate_bytes: f64,
    /// Length in bytes of the file as one LZ4 block at the fast level (the K4os.Compression.LZ4
    /// tests, 64 bit).
    pub lz4_bytes: f64,
    /// Cycles that zlib takes to inflate one byte of it on an Arm Neoverse N2 (c4milo/stdx,
    /// bench-profile of 2026-10-04). Only their proportions are used.
    pub inflate_cycles_per_byte: f64,
}

const fn file(
    name: &'static str,
    bytes: u32,
    deflate_bytes: u32,
    lz4_bytes: u32,
    inflate_cycles_per_byte: f64,
) -> File {
    File {
        name,
        bytes: bytes as f64,
        deflate_bytes: deflate_bytes as f64,
        lz4_bytes: lz4_bytes as f64,
        inflate_cycles_per_byte,
    }
}

/// The twelve files.
pub const SILESIA: [File; 12] = [
    file("dickens", 10_192_446, 4_047_410, 6_428_742, 7.92),
    file("mozilla", 51_220_480, 20_182_414, 26_435_667, 7.71),
    file("mr", 9_970_564, 3_765_834, 5_440_937, 7.63),
    file("nci", 33_553_445, 3_531_546, 5_533_040, 2.92),
    file("ooffice", 6_152_192, 3_252_531, 4_338_918, 10.91),
    file("osdb", 10_085_684, 3_782_167, 5_256_666, 6.77),
    file("reymont", 6_627_202, 2_050_469, 3_181_387, 6.58),
    file("samba", 21_606_400, 5_782_850, 7_716_839, 5.46),
    file("sao", 7_251_944, 5_548_537, 6_790_273, 9.84),
    file("webster", 41_458_703, 12_980_840, 20_139_988, 6.96),
    file("x-ray", 8_474_240, 6_274_646, 8_390_195, 12.17),
    file("xml", 5_345_280, 773_039, 1_227_495, 3.60),
];

/// The file of that name.
pub fn silesia(name: &str) -> Option<File> {
    SILESIA.into_iter().find(|file| file.name == name)
}

/// The arithmetic mean over the files, as the studies take it.
pub fn mean(of: impl Fn(&File) -> f64) -> f64 {
    SILESIA.iter().map(of).sum::<f64>() / SILESIA.len() as f64
}

/// Returns the speed of a core on a file, relative to the mean over the files. Files that are slow
/// to inflate are assumed to be as slow to deflate.
pub fn relative_speed(file: &File) -> f64 {
    let of = |file: &File| 1.0 / file.inflate_cycles_per_byte;
    of(file) / mean(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_has_its_published_size_and_its_speeds_average_to_one() {
        assert_eq!(SILESIA.iter().map(|file| file.bytes).sum::<f64>(), 211_938_580.0);
        assert!((mean(relative_speed) - 1.0).abs() < 1e-12);
        assert!(SILESIA.iter().all(|file| file.deflate_bytes < file.lz4_bytes));
        assert_eq!(silesia("xml").map(|file| file.bytes), Some(5_345_280.0));
        assert_eq!(silesia("alice"), None);
    }
}
