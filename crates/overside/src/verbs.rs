//! All verbs, native and Python's.

/// Answered here.
const NATIVE: &[(&str, &str)] = &[
    ("agent", "offer this machine's devices to a host"),
    (
        "agents",
        "add, list or remove agents whose devices can be used here",
    ),
    ("compress", "compress files, on the CPU, a device, or both"),
    ("decompress", "decompress files, likewise"),
    ("devices", "list devices and what they can do"),
    (
        "match",
        "find lines, or rows of a column, that match patterns",
    ),
];

/// Answered by `overside.__main__`, which has the same list.
const PYTHON: &[(&str, &str)] = &[
    (
        "doctor",
        "say what this machine lacks or what makes it noisy, and what mends it",
    ),
    ("list", "list tasks, variants, boxes, profiles or data sets"),
    ("validate", "check a box"),
    (
        "plan",
        "show a box's tests and the time they take; run nothing",
    ),
    ("run", "run a box and write its report"),
    ("report", "write a run's report, or show its summary"),
    (
        "advise",
        "say what should run where, by what was measured and what is published",
    ),
    ("compare", "compare two runs test by test"),
    (
        "audit",
        "plant mistakes in the harness and see that it catches them; measure the noise",
    ),
    (
        "facts",
        "search published figures, and compare the model with them",
    ),
    ("clean", "remove what runs and data sets left behind"),
    ("data", "list, make, fetch or verify data sets"),
    ("plugin", "make a new plug-in"),
    (
        "simulate",
        "answer a scenario with the model: throughput, latency, cores, bottleneck",
    ),
    (
        "profile",
        "show, compare, check or write profiles of devices",
    ),
    (
        "calibrate",
        "measure what the model needs of a device, and write its profile",
    ),
];

/// Whether Python answers `verb`.
pub fn is_python(verb: &str) -> bool {
    PYTHON.iter().any(|(name, _)| *name == verb)
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    NATIVE
        .iter()
        .chain(PYTHON)
        .map(|(name, _)| *name)
        .chain(["--help", "--version"])
}

/// What `--help` says.
pub fn help() -> String {
    let mut text = String::from(
        "Overside measures what data-processing offload to a DPU would change.\n\n\
         Usage: overside VERB [OPTIONS]\n\nVerbs:\n",
    );
    for (name, what) in NATIVE.iter().chain(PYTHON) {
        text.push_str(&format!("  {name:<10} {what}\n"));
    }
    text.push_str(
        "\n`overside VERB --help` says more. `overside --version` tells the version.\n\
         Begin with: overside run quick\n",
    );
    text
}
