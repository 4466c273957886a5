//! Ready-made questions: the files of `scenarios/`.

/// A ready-made question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Its name, the file's without `.toml`.
    pub name: &'static str,
    /// The file's text.
    pub text: &'static str,
}

const READY: &[Ready] = &[];

/// All ready-made questions.
pub fn ready() -> &'static [Ready] {
    READY
}
