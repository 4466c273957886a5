//! Warnings for readers of a sample's figures.

use crate::sample::Warning;

/// The share of late completions above which emulated timing is invalid.
const LATE_LIMIT: f64 = 0.01;
/// Fewer jobs than this do not give a distribution.
const FEW_JOBS: u64 = 10;

/// Extent to which completions came later than the profile's time.
pub(crate) enum Late {
    /// Number of late completions, out of all that can be late; used if each completion has a
    /// latency.
    Completions { late: u64, of: u64 },
    /// Time during which a completion was overdue, out of the elapsed time; used if all completions
    /// together have one time.
    Time { overdue_ns: u64, elapsed_ns: u64 },
}

impl Late {
    /// Describes the lateness if it makes the timing invalid; `None` otherwise.
    fn too_much(&self) -> Option<String> {
        let (part, whole, what) = match *self {
            Self::Completions { late, of } => (late, of, format!("{late} of {of} completions")),
            Self::Time { overdue_ns, elapsed_ns } => {
                let share = 100.0 * overdue_ns as f64 / elapsed_ns.max(1) as f64;
                let what = format!("for {share:.1} % of the time completions");
                (overdue_ns, elapsed_ns, what)
            }
        };
        (part as f64 > LATE_LIMIT * whole as f64).then_some(what)
    }
}

/// Counts of the jobs of the timed part, by conditions that a warning names.
pub(crate) struct SampleCounts {
    pub jobs: u64,
    /// Did not become smaller.
    pub incompressible: u64,
    /// Later than the profile's time.
    pub late: Late,
    /// Right though not the same as before.
    pub varied: u64,
}

/// Returns warnings for readers of a sample's figures.
pub(crate) fn warnings(counted: &SampleCounts) -> Vec<Warning> {
    let mut all = Vec::new();
    let mut warn = |kind: &str, message: String, remedy: &str| {
        all.push(Warning::new(kind, message, remedy));
    };
    let jobs = counted.jobs;
    if counted.incompressible > 0 {
        warn(
            "incompressible",
            format!(
                "{} of {jobs} jobs did not become smaller; they count as stored",
                counted.incompressible
            ),
            "",
        );
    }
    if let Some(what) = counted.late.too_much() {
        warn(
            "late",
            format!(
                "{what} came later than the profile says: the timing of this sample is invalid"
            ),
            "let timing be virtual, leave a core idle, or take larger buffers: software cannot be \
             faster than it is",
        );
    }
    if counted.varied > 0 {
        warn(
            "varying-output",
            format!(
                "{} of {jobs} outputs differ between repetitions (all of them are correct)",
                counted.varied
            ),
            "",
        );
    }
    if jobs < FEW_JOBS {
        warn(
            "few-jobs",
            format!("only {jobs} jobs ran: percentiles say little"),
            "raise measure.sample_s, or lower buffer_size",
        );
    }
    all
}
