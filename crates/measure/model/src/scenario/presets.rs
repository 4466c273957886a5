//! Presets: the files of `scenarios/`.

/// A preset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Name of the preset: the file's without `.toml`.
    pub name: &'static str,
    /// The file's text.
    pub text: &'static str,
}

macro_rules! preset {
    ($($name:literal),* $(,)?) => {
        &[$(Preset {
            name: $name,
            text: include_str!(concat!("../../../../../scenarios/", $name, ".toml")),
        }),*]
    };
}

#[rustfmt::skip]
const PRESETS: &[Preset] = preset![
    "drift",
    "split-deflate",
    "split-lz4",
    "kv-designs",
    "kv-load",
    "kv-skew",
    "kv-pairings",
    "arrow-tables",
    "pushdown-cores",
    "index-offload",
    "tpch",
    "dma-primitives",
    "network-paths",
    "dma-beside-traffic",
    "dma-burst",
];

/// All presets.
pub fn presets() -> &'static [Preset] {
    PRESETS
}
