//! Ready-made questions: the files of `scenarios/`.

/// A ready-made question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Its name, the file's without `.toml`.
    pub name: &'static str,
    /// The file's text.
    pub text: &'static str,
}

macro_rules! ready {
    ($($name:literal),* $(,)?) => {
        &[$(Ready {
            name: $name,
            text: include_str!(concat!("../../../../scenarios/", $name, ".toml")),
        }),*]
    };
}

#[rustfmt::skip]
const READY: &[Ready] = ready![
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

/// All ready-made questions.
pub fn ready() -> &'static [Ready] {
    READY
}
