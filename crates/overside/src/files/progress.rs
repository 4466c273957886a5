//! Progress line on the terminal.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use overside_config::units;

/// Time before the progress line appears: files that finish earlier have none. `EVERY` is the time
/// between two updates.
const FIRST: Duration = Duration::from_millis(500);
const EVERY: Duration = Duration::from_millis(200);
/// Maximum number of characters of a name.
const NAME_MAX: usize = 32;

/// Line on the terminal that is overwritten by each update.
pub(super) struct Progress {
    name: String,
    total: Option<u64>,
    begin: Instant,
    /// Time of the next update; `None` if progress is not shown.
    due: Option<Instant>,
    shown: bool,
}

impl Progress {
    /// Starts the progress of the input `name` with `total` bytes. It is shown only if `wanted` is
    /// `true` and stderr is a terminal.
    pub(super) fn new(name: &str, total: Option<u64>, wanted: bool) -> Self {
        let begin = Instant::now();
        Self {
            name: shortened(name),
            total: total.filter(|total| *total > 0),
            begin,
            due: (wanted && io::stderr().is_terminal()).then(|| begin + FIRST),
            shown: false,
        }
    }

    /// Reports the bytes read so far, and the uncompressed bytes that they stand for.
    pub(super) fn at(&mut self, read_bytes: u64, plain_bytes: u64) {
        let Some(due) = self.due else { return };
        let now = Instant::now();
        if now < due {
            return;
        }
        self.due = Some(now + EVERY);
        self.shown = true;
        let line = line(self.total, self.begin.elapsed(), read_bytes, plain_bytes);
        // Returns to the beginning of the line, writes the text, and clears the rest.
        self.write(format_args!("\r{}: {line}\x1b[K", self.name));
    }

    fn write(&self, text: std::fmt::Arguments<'_>) {
        // Errors are ignored: the terminal may be closed.
        let _ = io::stderr().write_fmt(text);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            self.write(format_args!("\r\x1b[K"));
        }
    }
}

fn shortened(name: &str) -> String {
    let clean = |letter: char| if letter.is_control() { '?' } else { letter };
    let letters = name.chars().count();
    if letters <= NAME_MAX {
        return name.chars().map(clean).collect();
    }
    let end = name.chars().skip(letters - NAME_MAX + 1).map(clean);
    "…".chars().chain(end).collect()
}

fn line(total: Option<u64>, elapsed: Duration, read_bytes: u64, plain_bytes: u64) -> String {
    let seconds = elapsed.as_secs_f64().max(1e-9);
    let rate = units::rate(plain_bytes as f64 / seconds);
    let Some(total) = total else {
        return format!("{}, {rate}", units::size(plain_bytes as f64));
    };
    let done = (read_bytes as f64 / total as f64).clamp(0.0, 1.0);
    let left = match done {
        0.0 => 0.0,
        done => seconds * (1.0 - done) / done,
    };
    format!("{:3.0} %, {rate}, {left:.0} s left", 100.0 * done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_part_rate_and_time() {
        let second = Duration::from_secs(1);
        let text = line(Some(4_000_000_000), second, 1_000_000_000, 1_000_000_000);
        assert_eq!(text, " 25 %, 1.00 GB/s, 3 s left");
        // A file that has grown while it was read.
        assert!(line(Some(10), second, 20, 20).starts_with("100 %"));
        assert!(line(Some(10), Duration::ZERO, 0, 0).ends_with("0 s left"));
        assert_eq!(line(None, second, 5, 2_500_000), "2.38 MiB, 2.50 MB/s");
    }

    #[test]
    fn names_are_short_and_do_nothing_to_the_terminal() {
        assert_eq!(shortened("a\x1b[2Jb"), "a?[2Jb");
        assert_eq!(shortened(&"ü".repeat(100)).chars().count(), NAME_MAX);
    }
}
