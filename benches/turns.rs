//! Two sides in turns, and what their ratio was.

use std::time::{Duration, Instant};

/// The most turns and about the longest time of one ratio.
const TURNS: usize = 101;
const TIME: Duration = Duration::from_secs(4);

/// The filter, and whether this is a measurement: `cargo bench` passes `--bench`, while
/// `cargo test --benches` passes nothing and only tries it.
pub(crate) fn arguments() -> (Option<String>, bool) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let filter = (arguments.iter()).find(|argument| !argument.starts_with('-'));
    (filter.cloned(), arguments.iter().any(|argument| argument == "--bench"))
}

/// Side of a comparison.
pub(crate) enum Side {
    First,
    Second,
}

/// Runs the two sides in turns, A B, B A, so that drift hits both. Seconds a job.
pub(crate) fn take_turns(is_bench: bool, mut run: impl FnMut(Side) -> f64) -> Vec<(f64, f64)> {
    let (begin, mut turned) = (Instant::now(), Vec::new());
    let turns = if is_bench { TURNS } else { 1 };
    while turned.len() < turns && (turned.len() < 7 || begin.elapsed() < TIME) {
        turned.push(if turned.len() % 2 == 0 {
            let first = run(Side::First);
            (first, run(Side::Second))
        } else {
            let second = run(Side::Second);
            (run(Side::First), second)
        });
    }
    turned
}

/// Returns the speed-up of the second side as a text: the median over the turns, the range, and the
/// ratio of each side's fastest; and the additional cost of a job.
pub(crate) fn told(turned: &[(f64, f64)]) -> String {
    let mut ratios: Vec<f64> = turned.iter().map(|(first, second)| first / second).collect();
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    let fastest = (turned.iter())
        .fold((f64::MAX, f64::MAX), |best, turn| (best.0.min(turn.0), best.1.min(turn.1)));
    let mut costs: Vec<f64> = turned.iter().map(|(first, second)| second - first).collect();
    costs.sort_by(f64::total_cmp);
    format!(
        "rate {:.3} ({least:.3}..{most:.3}), fastest {:.3}; a job pays {:.0} ns of {:.1} us",
        ratios[ratios.len() / 2],
        fastest.0 / fastest.1,
        costs[costs.len() / 2] * 1e9,
        fastest.0 * 1e6,
    )
}
